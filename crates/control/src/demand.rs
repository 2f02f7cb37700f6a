//! What is asked of the pacer, and what it says.

use pacing::Nanos;

use crate::load::Load;

/// What waits, and what is at the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Writes that wait.
    pub waiting: usize,
    /// Writes sent and not answered.
    pub under_way: usize,
    /// Everything sent and in no block yet, by hash: under way, accepted, or of unknown fate.
    pub own: Load,
    /// Writes that may be under way in any case; 0 while nothing can be sent.
    pub most: usize,
    /// Connections that are up.
    pub connections: usize,
    /// Lines of writes in order that wait or are under way: without a proxy each would have one under way.
    pub lines: usize,
}

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// So many writes may leave now; they count as sent.
    pub now: usize,
    /// No more than this in the window's unit; a write begun below it leaves whole.
    pub amount: u64,
    /// When to ask again, if time alone decides; else ask when something has happened: an answer, a
    /// block, a depth, the end of a break.
    pub next: Option<Nanos>,
}

/// Why the node did not take a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its mempool is full; `max` is how many it holds, if the error contains it.
    Full {
        /// Transactions the mempool holds.
        max: Option<usize>,
    },
    /// Its mempool is being rechecked after a block and counts as full for a moment.
    Rechecking,
    /// It did not answer in time.
    TimedOut,
}
