//! The crate against servers: scripted ones, and (ignored by default) the real node.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod client;
mod comet;
mod dialects;
mod follower;
#[allow(dead_code, reason = "the tests of rpc use the rest")]
#[path = "../../../rpc/tests/it/peer.rs"]
mod peer;
