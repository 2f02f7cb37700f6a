//! The crate against servers: scripted ones, and (ignored by default) the real node.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod client;
mod comet;
mod dialects;
mod follower;
mod http;
mod peer;
mod source;
mod tls;
mod websocket;
