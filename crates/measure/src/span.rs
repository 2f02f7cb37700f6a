//! What happened in a span of time, in a form that adds up.

use pacing::Nanos;

use crate::counts::{AddUp as _, Counts, Late};
use crate::latency::LatencySet;
use crate::rows::BlockRow;

/// The first and the last block of a span, and what was committed in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    edges: Option<(Nanos, Nanos)>,
    /// Committed in every block but the first.
    after_first: u64,
    first: u64,
}

impl BlockSpan {
    /// Of one block.
    pub(crate) const fn one(observed: Nanos, committed: u64) -> Self {
        Self {
            edges: Some((observed, observed)),
            after_first: 0,
            first: committed,
        }
    }

    /// Of several blocks, in the order of their observation.
    pub(crate) fn of<'a>(blocks: impl Iterator<Item = &'a BlockRow>) -> Self {
        blocks.fold(Self::default(), |mut span, block| {
            let observed = Nanos::from_nanos(block.observed_ns);
            span.add(&Self::one(observed, block.committed()));
            span
        })
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
    pub(crate) counts: Counts,
    pub(crate) late: Late,
    pub(crate) blocks: BlockSpan,
    pub(crate) depth: Option<Depth>,
    /// Processor time of the generator; `None` where it was not looked at.
    pub(crate) processor: Option<Nanos>,
    pub(crate) latencies: LatencySet,
    /// What people noted.
    pub(crate) marks: Vec<String>,
}

impl Span {
    /// Adds a later span.
    pub(crate) fn add(&mut self, later: &Self) {
        self.counts.add_up(&later.counts);
        self.late.add_up(&later.late);
        self.blocks.add(&later.blocks);
        self.depth = later.depth.or(self.depth);
        if let Some(used) = later.processor {
            let before = self.processor.unwrap_or(Nanos::ZERO);
            self.processor = Some(before.saturating_add(used));
        }
        self.latencies.merge(&later.latencies);
        self.marks.extend_from_slice(&later.marks);
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts = Counts::default();
        self.late = Late::default();
        self.blocks = BlockSpan::default();
        self.depth = None;
        self.processor = None;
        self.latencies.clear();
        self.marks.clear();
    }
}
