//! The whole proxy in front of nodes.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod basics;
mod command_line;
mod support;
