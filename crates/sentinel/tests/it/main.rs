//! The whole proxy in front of nodes.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod access;
mod autobahn;
mod basics;
mod breaks;
#[cfg(feature = "cluster")]
mod cluster;
mod command_line;
mod commits;
#[allow(dead_code)]
mod corpus;
mod deadlines;
mod doors;
mod encrypted;
mod foreign;
mod golden;
mod handover;
mod poison;
mod real_calls;
mod reload;
mod restart;
mod sdk;
mod service_manager;
mod shadow;
mod shares;
mod subscriptions;
mod support;
mod watched;
