//! What a progress line shows.

use serde::{Deserialize, Serialize};

use crate::format::buckets::LatencyBuckets;
use crate::format::counts::{AddUp as _, Counts, adds_up};
use crate::format::event::{Failure, UnsentReason};
use crate::format::rows::SeriesRow;
use crate::format::summary::Reconnects;

/// The last closed second and the totals so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveView {
    /// The last closed second; `None` before the first.
    pub second: Option<SeriesRow>,
    /// Totals of everything that was reported; what fell due, up to the last closed second.
    pub totals: Counts,
    /// Sent, and answer or block still awaited.
    pub pending: u64,
    /// The condition that ended the load early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// Everything that is counted while a run goes on, in more detail than a line shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Totals so far; what fell due, up to the last closed second.
    pub totals: Counts,
    /// Given up, in the order of [`UnsentReason::ALL`].
    pub unsent: [u64; UnsentReason::ALL.len()],
    /// Without a usable answer, in the order of [`Failure::ALL`].
    pub errors: [u64; Failure::ALL.len()],
    /// Connections that came back.
    pub reconnects: Reconnects,
    /// Latencies of every closed second.
    pub latencies: LatencyBuckets,
}

adds_up!(Counters {
    sum: totals,
    unsent,
    errors,
    reconnects,
    latencies
});

impl Counters {
    /// Adds what another run counted.
    pub fn add(&mut self, other: &Self) {
        self.add_up(other);
    }
}
