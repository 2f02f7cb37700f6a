//! The crate beside others' servers.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod servers;
