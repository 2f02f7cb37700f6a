//! How fast a node is fed, and when it is given a break.
//!
//! - [`Throughput`] counts committed transactions, every height once.
//! - [`Pacer`] decides how many transactions may leave now: a window of own transactions in no block
//!   yet (`window`), a bound on what waits for the node's answers (`answers`), and an exact emitter.
//! - [`Bound`] says what holds the next one back.
//! - [`BreakController`] decides when nothing is sent for a while, and measures whether that helped.
//!
//! What it is not: it sends nothing, follows no chain and reads no clock. The caller passes events
//! with their instants; the same events always lead to the same decisions.
//!
//! Read first: [`Pacer`], [`Bound`], [`BreakController`].

mod bound;
mod breaks;
mod in_flight;
mod load;
mod mempool;
mod pacer;
mod settings;
mod throughput;
mod window;

pub use self::{
    bound::{Bound, Hold},
    breaks::{
        BreakCause, BreakController, BreakDecision, BreakEvent, BreakFacts, BreakState, Gate,
    },
    load::{Load, Unit},
    pacer::{Demand, Grant, Pacer, Refused},
    settings::{PaceMode, PaceSettings, PauseAction, PauseMode, PauseSettings},
    throughput::{BlockSeen, Counted, Throughput},
};
