//! How fast a node is fed, and when it is given a break.
//!
//! - [`Throughput`] counts committed transactions, every height once.
//! - [`Pacer`] decides how many transactions may leave now: an exact emitter whose rate
//!   [`AdaptiveRate`] steers block by block, and a gate that closes before the mempool is full.
//! - [`BreakController`] decides when nothing is sent for a while, and measures whether that helped.
//!
//! What it is not: it sends nothing, follows no chain and reads no clock. The caller passes events
//! with their instants; the same events always lead to the same decisions.
//!
//! Read first: [`Pacer`], [`AdaptiveRate`], [`BreakController`].

mod adaptive;
mod breaks;
mod occupancy;
mod pacer;
mod settings;
mod throughput;
mod usage;

pub use self::{
    adaptive::{AdaptiveRate, Refused, Signals},
    breaks::{
        BreakCause, BreakController, BreakDecision, BreakEvent, BreakFacts, BreakState, Gate,
    },
    pacer::{Demand, Grant, Pacer},
    settings::{PaceMode, PaceSettings, PauseAction, PauseMode, PauseSettings},
    throughput::{BlockSeen, Counted, Throughput},
};
