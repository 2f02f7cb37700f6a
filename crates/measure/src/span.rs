//! What happened in a span of time, in a form that adds up.

use pacing::Nanos;

use crate::cohort::CohortParts;
use crate::counts::{AddUp as _, Counts, Late};
use crate::endpoints::EndpointParts;
use crate::latency::LatencySet;
use crate::rows::BlockRow;
use crate::silence::{self, Tenths};
use crate::waiting::Waiting;

/// The first and the last block of a span, and what was committed in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    edges: Option<(Nanos, Nanos)>,
    /// Blocks but the first.
    intervals: u64,
    /// Committed in every block but the first.
    after_first: u64,
    first: u64,
}

impl BlockSpan {
    /// Of one block.
    pub(crate) const fn one(observed: Nanos, committed: u64) -> Self {
        Self {
            edges: Some((observed, observed)),
            intervals: 0,
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
                self.intervals += 1 + later.intervals;
                self.after_first += later.first + later.after_first;
            }
        }
    }

    /// Committed per second between the first and the last block; `None` with fewer than two.
    ///
    /// The first block's transactions were waiting before it, so only its instant counts: the
    /// result does not depend on where the span's edges fall between two blocks.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate_over(Nanos::ZERO)
    }

    /// The same up to `end`, where the next awaited block came at `next` only: a chain that halted committed nothing
    /// since its last one.
    pub(crate) fn rate_until(&self, end: Nanos, next: Nanos) -> Option<f64> {
        let (first, last) = self.edges?;
        let between_s = last.saturating_sub(first).as_secs_f64();
        let silent_s = next.saturating_sub(last).as_secs_f64();
        let halted = silent_s > silence::ordinary_s(self.intervals, between_s, true);
        self.rate_over(if halted { end } else { last })
    }

    /// Committed per second from the first block to the last one, or to `end` if that is later.
    fn rate_over(&self, end: Nanos) -> Option<f64> {
        let (first, last) = self.edges?;
        let span = end.max(last).saturating_sub(first);
        (!span.is_zero()).then(|| self.after_first as f64 / span.as_secs_f64())
    }
}

/// The depth of a mempool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) txs: u64,
    pub(crate) bytes: u64,
}

/// The fullest mempool over the samples of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depths {
    pub(crate) last: Depth,
    /// Transactions in it at least.
    pub(crate) min: u64,
    /// And at most.
    pub(crate) max: u64,
}

impl Depths {
    /// Of one sample.
    pub(crate) const fn one(last: Depth) -> Self {
        let (min, max) = (last.txs, last.txs);
        Self { last, min, max }
    }

    /// With those of a later span.
    fn then(self, later: Self) -> Self {
        Self {
            last: later.last,
            min: self.min.min(later.min),
            max: self.max.max(later.max),
        }
    }
}

/// Adds later samples, where there are some.
pub(crate) fn add_depths(depths: &mut Option<Depths>, later: Option<Depths>) {
    if let Some(later) = later {
        *depths = Some(depths.map_or(later, |before| before.then(later)));
    }
}

/// Everything about a span.
#[derive(Debug, Default)]
pub(crate) struct Span {
    pub(crate) counts: Counts,
    pub(crate) late: Late,
    pub(crate) blocks: BlockSpan,
    pub(crate) depth: Option<Depths>,
    /// Processor time of the generator; `None` where it was not looked at.
    pub(crate) processor: Option<Nanos>,
    /// When answers came, of a span inside one second.
    pub(crate) answers: Tenths,
    /// The same of blocks.
    pub(crate) block_times: Tenths,
    /// What each endpoint was sent and gave back, of a span inside one second.
    pub(crate) endpoints: EndpointParts,
    /// What became of transactions in it, of a span inside one second.
    pub(crate) cohorts: CohortParts,
    /// How it changed what waits, of a span inside one second.
    pub(crate) waiting: Waiting,
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
        add_depths(&mut self.depth, later.depth);
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
        (self.answers, self.block_times) = Default::default();
        self.endpoints.clear();
        self.cohorts.clear();
        self.waiting.clear();
        self.latencies.clear();
        self.marks.clear();
    }
}
