//! The controller in front of model nodes, on a simulated clock. The numbers in names are those of
//! the list of attacks that the proxy is tested against.

mod breaks;
mod pace;
mod sharing;
