//! What the workspace's benches and examples share.
//!
//! Not a library for others: the crates under `crates/` are. Read first: [`sink::Sink`].

pub mod canned;
pub mod sink;
