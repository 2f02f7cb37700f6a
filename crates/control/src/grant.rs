//! What may leave, and why the node did not take what left.

use pacing::Nanos;

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// So many writes may leave now; they count as sent.
    pub now: usize,
    /// No more than this in the window's unit ([`takes`](Self::takes)).
    pub amount: u64,
    /// One may leave that is larger than that.
    pub whole: bool,
    /// So many more may leave of clients that ask for little, to be told to [`Pacer::sent_for_light`](crate::Pacer::sent_for_light).
    pub light: usize,
    /// All of these together no more than this; a write begun below it leaves whole.
    pub light_amount: u64,
    /// When to ask again, if time alone decides; else ask when something has happened: an answer, a
    /// block, a depth, the end of a break.
    pub next: Option<Nanos>,
}

impl Grant {
    /// Whether a write of so much may leave when `left` of the amount is left. What is larger would take what is kept for
    /// clients that ask for little, so it waits until a block has made room: then one of any size leaves.
    pub const fn takes(&self, left: u64, size: u64) -> bool {
        size <= left || self.whole && left == self.amount
    }
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
