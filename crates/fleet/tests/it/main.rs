//! Crews and workers over a real NATS server; the program that workers start is a shell.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod losses;
mod runs;
mod support;
mod thousand;
