//! The crate against servers: scripted ones, and (ignored by default) the real node.

#![allow(unreachable_pub)]

mod client;
mod comet;
mod fake_node;
mod follower;
mod http;
mod peer;
mod tls;
mod websocket;
