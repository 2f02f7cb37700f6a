//! The rate of blocks, free of the error that the edges of a span bring in.

use pacing::Nanos;

use super::silence;
use crate::format::rows::BlockRow;

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

    /// When the first and the last block were seen, in seconds.
    pub(crate) fn edges_s(&self) -> Option<(f64, f64)> {
        let (first, last) = self.edges?;
        Some((first.as_secs_f64(), last.as_secs_f64()))
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

/// The blocks observed in a span of time, in the order of their heights.
pub(crate) fn observed(
    blocks: &[BlockRow],
    start_s: f64,
    end_s: f64,
) -> impl Iterator<Item = &BlockRow> {
    let at = |block: &BlockRow| block.observed_ns as f64 / 1e9;
    let first = blocks.partition_point(|block| at(block) < start_s);
    blocks[first..]
        .iter()
        .take_while(move |block| at(block) < end_s)
}
