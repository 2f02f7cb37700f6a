//! What the operator is told of one client.

use std::time::Duration;

use fairq::{Backlog, Neutral};
use pacing::Nanos;

/// What a client has had since it is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that left the queue for the node.
    pub dispatched: u64,
    /// Writes that were not taken.
    pub refused: u64,
}

impl Neutral for Tally {
    /// Nothing is decided by it, so it may always be forgotten.
    fn is_neutral(&self, _now: Nanos) -> bool {
        true
    }
}

/// Why a client waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// What it has had.
    pub tally: Tally,
    /// What it has in the queue.
    pub backlog: Backlog,
    /// Its weight.
    pub weight: u32,
    /// Writes a second it gets while all clients that wait now go on waiting.
    pub share: f64,
    /// How long its next write would wait.
    pub wait: Duration,
}
