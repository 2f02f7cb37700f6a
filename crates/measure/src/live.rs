//! What a progress line shows.

use serde::Serialize;

use crate::buckets::LatencyBuckets;
use crate::event::{Failure, UnsentReason};
use crate::rows::SeriesRow;
use crate::summary::Reconnects;

/// The last closed second and the totals so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveView {
    /// The last closed second; `None` before the first.
    pub second: Option<SeriesRow>,
    /// Totals so far, of everything that was reported.
    pub totals: Totals,
    /// Sent, and answer or block still awaited.
    pub pending: u64,
}

/// Totals so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Fell due, up to the last closed second; in a closed loop, sent.
    pub offered: u64,
    /// Handed to a socket.
    pub sent: u64,
    /// Given up.
    pub unsent: u64,
    /// Answered with code 0.
    pub accepted: u64,
    /// Answered with another code or a JSON-RPC error.
    pub rejected: u64,
    /// Without a usable answer.
    pub errors: u64,
    /// Own transactions seen in blocks, any code.
    pub in_blocks: u64,
    /// Of those, executed with another code than 0, up to the last closed second.
    pub commit_failed: u64,
    /// Blocks.
    pub blocks: u64,
}

/// Everything that is counted while a run goes on, in more detail than a line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// See [`Totals`].
    pub totals: Totals,
    /// Given up, in the order of [`UnsentReason::ALL`].
    pub unsent: [u64; UnsentReason::ALL.len()],
    /// Without a usable answer, in the order of [`Failure::ALL`].
    pub errors: [u64; Failure::ALL.len()],
    /// Connections that came back.
    pub reconnects: Reconnects,
    /// Latencies of every closed second.
    pub latencies: LatencyBuckets,
}

impl Counters {
    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        self.totals.add(&other.totals);
        add_each(&mut self.unsent, &other.unsent);
        add_each(&mut self.errors, &other.errors);
        let (mine, theirs) = (&mut self.reconnects, &other.reconnects);
        mine.planned += theirs.planned;
        mine.broken += theirs.broken;
        mine.failed_attempts += theirs.failed_attempts;
        mine.down_ms_total += theirs.down_ms_total;
        mine.down_ms_max = mine.down_ms_max.max(theirs.down_ms_max);
        self.latencies.merge(&other.latencies);
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.errors += other.errors;
        self.in_blocks += other.in_blocks;
        self.commit_failed += other.commit_failed;
        self.blocks += other.blocks;
    }
}

fn add_each(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}
