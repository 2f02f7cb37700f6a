//! Black-box tests of a node in this process.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod faults;
mod limits;
mod smoke;
mod support;
