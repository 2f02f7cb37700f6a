//! Taking over blocks that followers saw.

use std::io::Write;

use pacing::Nanos;

use super::Recorder;
use crate::format::event::{BlockSeen, BlockTx, UNKNOWN_CODE};
use crate::format::latency::LatencyKind;
use crate::format::rows::BlockRow;
use crate::record::pending::RecordState;
use crate::record::plan::Plan;
use crate::record::waiting::Awaited;
use crate::stats::block_span::BlockSpan;

impl<W: Write, P: Plan> Recorder<W, P> {
    /// Takes over the blocks that were observed by `low`.
    pub(super) fn take_blocks(&mut self, low: Nanos) {
        while let Some((block, interval_ns)) = self.blocks.take(low) {
            self.take_block(&block, interval_ns);
        }
    }

    fn take_block(&mut self, block: &BlockSeen, interval_ns: Option<i64>) {
        self.scratch.clear();
        let (mut own_failed, mut own_unverified) = (0, 0);
        for tx in &block.txs {
            if self.commit(tx, block) {
                own_failed += u64::from(!matches!(tx.code, 0 | UNKNOWN_CODE));
                own_unverified += u64::from(tx.code == UNKNOWN_CODE);
            }
        }
        let own_txs = self.scratch.len() as u64;
        let (commit_p50_ms, commit_max_ms) = median_and_max(&mut self.scratch);
        let row = BlockRow {
            height: block.height,
            header_time_unix_ns: block.header_time_unix_ns,
            observed_ns: block.observed.as_nanos(),
            interval_ms: interval_ns.map(|ns| ns as f64 / 1e6),
            txs: block.txs.len() as u64,
            own_txs,
            own_failed,
            bytes: block.bytes,
            commit_p50_ms,
            commit_max_ms,
            own_unverified,
            resolution_ms: block.resolution.map(Nanos::as_millis_f64),
            gas_wanted: block.gas_wanted,
            gas_used: block.gas_used,
        };
        let span = &mut self.segment(block.observed).span;
        span.counts.blocks += 1;
        span.block_times.mark(block.observed);
        span.counts.committed += row.committed();
        span.counts.commit_failed += own_failed;
        span.counts.unverified += own_unverified;
        span.blocks
            .add(&BlockSpan::one(block.observed, row.committed()));
        self.run.blocks.add(&row);
        self.run.seconds.block(&row, self.config.block_gas);
        self.files.blocks.push(&row);
    }

    /// Whether the transaction is one of this run's whose fate is open.
    fn commit(&mut self, tx: &BlockTx, block: &BlockSeen) -> bool {
        let Some(slot) = self.pending.find_uncommitted(&tx.hash, block.observed) else {
            return false;
        };
        let at = block.observed;
        self.reach(at);
        let record = self.pending.at_mut(slot);
        record.committed = at;
        record.height = block.height;
        (record.code, record.space) = (tx.code, tx.space);
        let from_due = at.saturating_sub(record.due);
        self.scratch.push(from_due.as_nanos());
        let span = &mut self.segments.at(at).span;
        span.waiting.end(record.due, Awaited::Block);
        // What failed in its block is in it, and was never committed.
        let is_committed = matches!(tx.code, 0 | UNKNOWN_CODE);
        if is_committed {
            let latencies = &mut span.latencies;
            latencies.record(LatencyKind::CommitFromDue, from_due);
            latencies.record(LatencyKind::CommitFromSent, at.saturating_sub(record.sent));
        }
        let (state, step) = (record.state, record.step);
        if state == RecordState::Accepted {
            // It is both accepted and committed from the later of the two on, whichever was reported first.
            let span = &mut self.segments.at(at.max(record.answered)).span;
            if is_committed {
                let from_accepted = at.saturating_sub(record.answered);
                let latencies = &mut span.latencies;
                latencies.record(LatencyKind::CommitFromAccepted, from_accepted);
            }
            span.cohorts.of(step).commit(Some(tx.code));
        }
        if state != RecordState::Unanswered {
            self.settle(slot, at);
        }
        true
    }
}

/// In milliseconds; the lower one of two medians.
fn median_and_max(latencies_ns: &mut [u64]) -> (Option<f64>, Option<f64>) {
    let Some(last) = latencies_ns.len().checked_sub(1) else {
        return (None, None);
    };
    let (_, median, above) = latencies_ns.select_nth_unstable(last / 2);
    let max = above.iter().copied().max().unwrap_or(*median);
    (Some(*median as f64 / 1e6), Some(max as f64 / 1e6))
}
