//! The crate against servers: scripted ones, and (ignored by default) the real node.

mod http;
mod peer;
mod tls;
mod websocket;
