//! Up to which instant each source has reported, and the blocks that wait for that: each height once, in order, with its
//! earliest observation.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pacing::Nanos;

use crate::format::event::{BlockSeen, SourceId};

/// The watermark of each source and the instant that all of them are past.
#[derive(Debug)]
pub(crate) struct Watermarks {
    sources: Vec<Nanos>,
    /// The same, where a source that retired keeps its last one.
    last: Vec<Nanos>,
    max_lag: Nanos,
}

impl Watermarks {
    pub(crate) fn new(sources: usize, max_lag: Nanos) -> Self {
        Self {
            sources: vec![Nanos::ZERO; sources.max(1)],
            last: vec![Nanos::ZERO; sources.max(1)],
            max_lag,
        }
    }

    /// Source `source` is past `t`; returns the instant that all are past. A source that lags more
    /// than `max_lag` behind the first one is not waited for, nor is one that has retired.
    pub(crate) fn raise(&mut self, source: SourceId, t: Nanos) -> Nanos {
        if let Some(mark) = self.sources.get_mut(usize::from(source.0)) {
            *mark = t.max(*mark);
            if t != Nanos::MAX {
                self.last[usize::from(source.0)] = *mark;
            }
        }
        self.low()
    }

    /// Up to when any of these sources has reported.
    pub(crate) fn reached(&self, sources: Range<u16>) -> Nanos {
        let marks = self
            .last
            .get(usize::from(sources.start)..usize::from(sources.end));
        let latest = marks.and_then(|marks| marks.iter().max());
        latest.copied().unwrap_or(Nanos::ZERO)
    }

    /// The same of those that go on; without one, of all time.
    pub(crate) fn awaits(&self, sources: Range<u16>) -> Nanos {
        let marks = (self.sources).get(usize::from(sources.start)..usize::from(sources.end));
        let active = marks
            .into_iter()
            .flatten()
            .filter(|mark| **mark != Nanos::MAX);
        active.max().copied().unwrap_or(Nanos::MAX)
    }

    fn low(&self) -> Nanos {
        let active = || self.sources.iter().filter(|mark| **mark != Nanos::MAX);
        let lowest = active().min().copied().unwrap_or(Nanos::ZERO);
        let highest = active().max().copied().unwrap_or(Nanos::ZERO);
        lowest.max(highest.saturating_sub(self.max_lag))
    }
}

/// Blocks that wait until every source is past their observation, so that no transaction in them
/// is still on its way to the recorder.
#[derive(Debug, Default)]
pub(crate) struct WaitingBlocks {
    waiting: BTreeMap<u64, BlockSeen>,
    /// Highest height taken out, and its header time.
    last: Option<(u64, i64)>,
    /// Heights that were passed over and may still come from a slower follower.
    gaps: BTreeSet<u64>,
}

impl WaitingBlocks {
    pub(crate) fn insert(&mut self, block: BlockSeen) {
        let height = block.height;
        let known = self.last.is_some_and(|(last, _)| height <= last);
        if known && !self.gaps.remove(&height) {
            return;
        }
        self.waiting
            .entry(height)
            .and_modify(|other| {
                if block.observed < other.observed {
                    (other.observed, other.resolution) = (block.observed, block.resolution);
                }
            })
            .or_insert(block);
    }

    /// Takes out the lowest height if it was observed at or before `low`, beside the time of its
    /// header since the one before.
    pub(crate) fn take(&mut self, low: Nanos) -> Option<(BlockSeen, Option<i64>)> {
        let entry = self.waiting.first_entry()?;
        if entry.get().observed > low {
            return None;
        }
        let block = entry.remove();
        let interval = self.pass(&block);
        Some((block, interval))
    }

    /// Whether heights were passed over that may still come.
    pub(crate) fn have_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    fn pass(&mut self, block: &BlockSeen) -> Option<i64> {
        let Some((last, last_time)) = self.last else {
            self.last = Some((block.height, block.header_time_unix_ns));
            return None;
        };
        if block.height < last {
            return None;
        }
        for height in last + 1..block.height {
            if self.gaps.len() >= MAX_GAPS {
                break;
            }
            self.gaps.insert(height);
        }
        self.last = Some((block.height, block.header_time_unix_ns));
        let since = || block.header_time_unix_ns.saturating_sub(last_time);
        (block.height == last + 1).then(since)
    }
}

/// Heights that may still come late; further ones are given up.
const MAX_GAPS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn the_slowest_source_decides_up_to_the_lag() {
        let mut marks = Watermarks::new(2, secs(10));
        assert_eq!(marks.raise(SourceId(0), secs(4)), Nanos::ZERO);
        assert_eq!(marks.raise(SourceId(1), secs(3)), secs(3));
        assert_eq!(
            marks.raise(SourceId(1), secs(2)),
            secs(3),
            "a mark never goes back"
        );
        assert_eq!(marks.raise(SourceId(0), secs(20)), secs(10));
    }

    #[test]
    fn a_retired_source_is_not_waited_for() {
        let mut marks = Watermarks::new(2, secs(10));
        marks.raise(SourceId(0), secs(4));
        assert_eq!(marks.raise(SourceId(1), Nanos::MAX), secs(4));
        assert_eq!(marks.raise(SourceId(0), Nanos::MAX), Nanos::ZERO);
        assert_eq!(marks.reached(0..1), secs(4), "what it saw it has seen");
        assert_eq!(marks.reached(1..2), Nanos::ZERO);
    }

    #[test]
    fn an_unknown_source_changes_nothing() {
        let mut marks = Watermarks::new(1, secs(10));
        assert_eq!(marks.raise(SourceId(7), secs(4)), Nanos::ZERO);
    }
}
