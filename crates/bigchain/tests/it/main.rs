//! The vectors of the original, and laws that hold for any input.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used)]

mod laws;
mod transactions;
mod vectors;
