//! What happened in a span of time, in a form that adds up.

use pacing::Nanos;

use crate::event::Cause;
use crate::latency::LatencySet;

/// Counts of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) unsent: u64,
    pub(crate) accepted: u64,
    pub(crate) rejected: u64,
    pub(crate) errors: u64,
    pub(crate) committed: u64,
    pub(crate) commit_failed: u64,
    pub(crate) blocks: u64,
    pub(crate) late: Late,
}

/// Late transactions by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) schedule: u64,
    pub(crate) source: u64,
    pub(crate) connection: u64,
    pub(crate) node: u64,
}

impl Late {
    pub(crate) const fn count(&mut self, cause: Cause) {
        match cause {
            Cause::OnTime => {}
            Cause::Schedule => self.schedule += 1,
            Cause::Source => self.source += 1,
            Cause::Connection => self.connection += 1,
            Cause::Node => self.node += 1,
        }
    }
}

impl Counts {
    pub(crate) const fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.errors += other.errors;
        self.committed += other.committed;
        self.commit_failed += other.commit_failed;
        self.blocks += other.blocks;
        self.late.schedule += other.late.schedule;
        self.late.source += other.late.source;
        self.late.connection += other.late.connection;
        self.late.node += other.late.node;
    }

    /// Sent and not answered.
    pub(crate) const fn in_flight(&self) -> u64 {
        self.sent
            .saturating_sub(self.accepted + self.rejected + self.errors)
    }

    /// Accepted and not in a block.
    pub(crate) const fn backlog(&self) -> u64 {
        self.accepted
            .saturating_sub(self.committed + self.commit_failed)
    }
}

/// The first and the last block of a span, and what was committed in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    edges: Option<(Nanos, Nanos)>,
    /// Committed in every block but the first.
    after_first: u64,
    first: u64,
}

impl BlockSpan {
    pub(crate) const fn one(observed: Nanos, committed: u64) -> Self {
        Self {
            edges: Some((observed, observed)),
            after_first: 0,
            first: committed,
        }
    }

    /// Adds a later span.
    pub(crate) fn add(&mut self, later: &Self) {
        match (&mut self.edges, later.edges) {
            (_, None) => {}
            (None, Some(_)) => *self = *later,
            (Some((_, last)), Some((_, later_last))) => {
                *last = later_last.max(*last);
                self.after_first += later.first + later.after_first;
            }
        }
    }

    /// Committed per second between the first and the last block; `None` with fewer than two.
    ///
    /// The first block's transactions were waiting before it, so only its instant counts: the
    /// result does not depend on where the span's edges fall between two blocks.
    pub(crate) fn rate(&self) -> Option<f64> {
        let (first, last) = self.edges?;
        let span = last.saturating_sub(first);
        (!span.is_zero()).then(|| self.after_first as f64 / span.as_secs_f64())
    }
}

/// The fullest mempool at its last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) txs: u64,
    pub(crate) bytes: u64,
}

/// Everything about a span.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) offered: u64,
    pub(crate) counts: Counts,
    pub(crate) blocks: BlockSpan,
    pub(crate) depth: Option<Depth>,
    pub(crate) latencies: LatencySet,
    /// What people noted.
    pub(crate) marks: Vec<String>,
}

impl Span {
    /// Adds a later span.
    pub(crate) fn add(&mut self, later: &Self) {
        self.offered += later.offered;
        self.counts.add(&later.counts);
        self.blocks.add(&later.blocks);
        self.depth = later.depth.or(self.depth);
        self.latencies.merge(&later.latencies);
        self.marks.extend_from_slice(&later.marks);
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.offered = 0;
        self.counts = Counts::default();
        self.blocks = BlockSpan::default();
        self.depth = None;
        self.latencies.clear();
        self.marks.clear();
    }
}
