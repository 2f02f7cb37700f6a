//! The laws of the queue and the attacks on it, through the public interface.
//!
//! `fairness_01` to `fairness_14` are the cases of `docs/attacks.md`, on a
//! simulated clock, against a max-min oracle.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod attacks;
mod identities;
mod laws;
mod prices;
mod shares;
mod sim;
