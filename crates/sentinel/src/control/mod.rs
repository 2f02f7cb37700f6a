//! How fast the node is fed, and when it is given a break. Pure: time comes in as a parameter.
//!
//! - [`Throughput`] counts committed transactions, every height once.
//! - [`Pacer`] says how many writes may leave now: an exact emitter whose rate [`AdaptiveRate`]
//!   steers block by block, and a gate that closes before the mempool is full.
//! - [`BreakController`] decides when nothing is sent for a while, and judges whether that helped.

mod adaptive;
mod breaks;
mod occupancy;
mod pacer;
mod throughput;
mod usage;

pub use self::{
    adaptive::{AdaptiveRate, PaceCounters, Refused, Signals},
    breaks::{
        BreakAction, BreakCause, BreakController, BreakCounters, BreakEvent, BreakFacts,
        BreakState, Gate, Turn,
    },
    occupancy::Occupancy,
    pacer::{Demand, Grant, Pacer},
    throughput::{BlockSeen, Counted, Throughput, ThroughputCounters},
};

#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod simulations;
