//! The crate against scripted servers.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod http;
mod peer;
mod source;
mod tls;
mod websocket;
