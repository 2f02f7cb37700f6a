//! Codecs and nodes, without I/O; and, ignored by name, with the Go library over sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod driver;
mod go_library;
mod golden;
mod handshakes;
mod laws;
mod mesh;
mod simulated;
mod streams;
