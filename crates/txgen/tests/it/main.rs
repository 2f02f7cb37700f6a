//! `txgen` from outside: the program with its exit codes and messages, and the run folders it
//! leaves, on nodes that behave and nodes that do not.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod bad_node;
mod bigchaindb;
mod bitcoin;
mod built_in;
mod campaign;
mod comet;
mod command_line;
mod compare;
mod cosmos;
mod endings;
mod few_workers;
mod first_steps;
#[cfg(feature = "fleet")]
mod fleet;
mod live;
mod load;
mod observe;
mod profile;
mod prove;
mod report;
mod search;
mod shards;
mod support;
mod target;
mod workload;
