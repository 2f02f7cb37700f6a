//! Crews and workers over a real NATS server, where the program that workers start is a shell; and in simulated time.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod losses;
mod runs;
mod support;
mod thousand;
mod world;
