//! The controllers in front of model nodes, on a simulated clock. The numbers in names are those of
//! the cases in `docs/attacks.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod alone;
mod answers;
mod beside;
mod breaks;
mod first;
mod matrix;
mod model;
mod pace;
mod unseen;
