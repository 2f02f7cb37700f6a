//! The controller in front of model nodes, on a simulated clock. The numbers in names are those of
//! `reference/proxies.md` (g).

mod breaks;
mod pace;
mod sharing;
