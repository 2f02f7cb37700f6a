//! A small HTTP/1.1 server for one connection at a time.
//!
//! It is not hyper's because clients of CometBFT write quotes into URIs (`?tx="a=1"`), which Go's
//! server takes and hyper's refuses; and so that answers look like Go's down to their chunks.

mod message;
mod server;

pub use message::{Request, Response};
pub use server::{Frames, Handler, Limits, Upgrade, serve, serve_plainly};
