//! What is shown of the run while it goes on, and what people note about it.

use pacing::Nanos;
use serde::{Deserialize, Serialize};

use super::Recorder;
use crate::format::counts::{AddUp as _, Counts, adds_up};
use crate::format::event::{Failure, UnsentReason};
use crate::format::latency::LatencyBuckets;
use crate::format::rows::SeriesRow;
use crate::format::summary::Reconnects;

impl Recorder<'_> {
    /// Notes `text` in the second of `at`, or in the first one that is not written yet.
    ///
    /// Control characters become spaces; what is longer than [`MAX_MARK_CHARS`] is cut, and of more
    /// than [`MAX_MARKS`] in one second the rest is left out. Returns whether anything was noted.
    pub fn mark(&mut self, at: Nanos, text: &str) -> bool {
        let text: String = text
            .trim()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(MAX_MARK_CHARS)
            .collect();
        // An open segment: a note that comes late blurs no count.
        let at = at.max(self.segments.first().start);
        let marks = &mut self.segment(at).span.marks;
        let noted = !text.is_empty() && marks.len() < MAX_MARKS;
        if noted {
            marks.push(text);
        }
        noted
    }

    /// What a progress line shows.
    pub fn live(&self) -> LiveView {
        LiveView {
            second: self.last_second.clone(),
            totals: self.totals(),
            pending: self.pending.len() as u64,
            stopped: None,
        }
    }

    /// Whether all that is pending was accepted after a check and cannot be in a block any more, so that waiting for it is in
    /// vain: enough blocks with room for it came without it, and none was missed.
    pub fn rest_is_lost(&self) -> bool {
        let (health, fate) = (&self.health, &self.tally.fate);
        let settled = fate.committed + fate.unverified + fate.commit_failed + fate.pending;
        let are_all_accepted = fate.accepted - settled == self.pending.len() as u64;
        let missed = health.settled_early + health.failed_followers + health.reorganised_blocks;
        let all_seen = missed == 0 && !self.blocks.have_gaps();
        let read = self.blocks_read().min(self.low);
        self.config.checked && all_seen && are_all_accepted && self.roomy.are_enough(read)
    }

    /// Everything that is counted.
    pub fn counters(&self) -> Counters {
        Counters {
            totals: self.totals(),
            unsent: self.tally.unsent,
            errors: self.tally.errors,
            reconnects: self.reconnects,
            latencies: self.run.buckets,
        }
    }

    fn totals(&self) -> Counts {
        let Counts {
            commit_failed,
            unverified,
            ..
        } = self.run.counts;
        Counts {
            offered: self.run.counts.offered,
            sent: self.tally.fate.sent,
            unsent: self.tally.unsent.iter().sum(),
            accepted: self.tally.fate.accepted,
            rejected: self.tally.fate.rejected,
            errors: self.tally.fate.errors,
            committed: self
                .run
                .blocks
                .own_txs
                .saturating_sub(commit_failed + unverified),
            commit_failed,
            unverified,
            blocks: self.run.blocks.count,
        }
    }

    /// The seconds that closed since the last call, in order. Of more than [`MAX_FRESH_SECONDS`] the
    /// latest are kept; `series.csv` has them all.
    pub fn take_seconds(&mut self) -> Vec<SeriesRow> {
        self.fresh_seconds.drain(..).collect()
    }

    pub(super) fn show_second(&mut self, row: SeriesRow) {
        if self.fresh_seconds.len() == MAX_FRESH_SECONDS {
            self.fresh_seconds.pop_front();
        }
        self.fresh_seconds.push_back(row.clone());
        self.last_second = Some(row);
    }
}

/// A mark is a label beside a line of a chart.
pub const MAX_MARK_CHARS: usize = 120;
/// More than a person can press in a second.
pub const MAX_MARKS: usize = 16;
/// As many as a chart has columns; a viewer looks much more often.
pub const MAX_FRESH_SECONDS: usize = 600;

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
