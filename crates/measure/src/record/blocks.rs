//! Blocks on their way into the record: each height once, in order, with its earliest observation.

use std::collections::{BTreeMap, BTreeSet};

use pacing::Nanos;

use crate::format::event::BlockSeen;

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
