//! `txmesh` from outside: the program with its exit codes and messages, and the run folders it leaves.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod command_line;
mod network;
