//! `txgen` from outside: the program with its exit codes and messages, and the run folders it
//! leaves, on nodes that behave and nodes that do not.

mod bad_input;
mod bad_node;
mod built_in;
mod comet;
mod command_line;
mod endings;
mod load;
mod stall;
mod support;
mod workload;
