//! The ends of transactions: what their answers and blocks come to; and the end of the run, when every open fate is
//! settled, every row written and the summary drawn up.

use pacing::Nanos;

use super::{Recorder, RecorderConfig};
use crate::format::code::Codespace;
use crate::format::event::{BlockSeen, BlockTx, UNKNOWN_CODE};
use crate::format::latency::{LatencyKind, LatencySet};
use crate::format::rows::{BlockRow, StepRow};
use crate::format::summary::{LateCauses, RecorderHealth, Summary, TimeSpans};
use crate::judge::JudgeContext;
use crate::record::account::Account;
use crate::record::files::RecordError;
use crate::record::pending::{Record, RecordState, Slot};
use crate::record::segments::Span;
use crate::record::waiting::Awaited;
use crate::stats::block_span::BlockSpan;

impl Recorder<'_> {
    pub(super) fn accepted(&mut self, slot: Slot, at: Nanos) {
        self.roomy.accepted(at);
        let (record, span) = self.ended(slot, at, RecordState::Accepted);
        span.counts.accepted += 1;
        span.endpoints.answered(record.endpoint, at);
        let latencies = &mut span.latencies;
        latencies.record(LatencyKind::AcceptResponse, at.saturating_sub(record.due));
        latencies.record(LatencyKind::AcceptService, at.saturating_sub(record.sent));
        if record.is_committed() && matches!(record.code, 0 | UNKNOWN_CODE) {
            let late_answer = record.committed.saturating_sub(at);
            latencies.record(LatencyKind::CommitFromAccepted, late_answer);
        }
        let cohort = span.cohorts.of(record.step);
        cohort.due_accepted += 1;
        let is_committed = record.is_committed();
        cohort.commit(is_committed.then_some(record.code));
        if is_committed || self.is_unfollowed() {
            self.settle(slot, at);
        }
    }

    /// Without a follower no block will ever come: an answer is the last event of a transaction, and memory
    /// stays constant.
    pub(super) const fn is_unfollowed(&self) -> bool {
        self.config.followers == 0
    }

    pub(super) fn refused(
        &mut self,
        slot: Slot,
        at: Nanos,
        state: RecordState,
        (code, space): (u32, Codespace),
    ) {
        let (record, span) = self.ended(slot, at, state);
        span.counts.rejected += 1;
        span.cohorts.of(record.step).due_refused += 1;
        span.endpoints.answered(record.endpoint, at);
        if !record.is_committed() {
            (record.code, record.space) = (code, space);
        }
        self.settle(slot, at);
    }

    /// Its request ended: the record with that, and where the end counts.
    pub(super) fn ended(
        &mut self,
        slot: Slot,
        at: Nanos,
        state: RecordState,
    ) -> (&mut Record, &mut Span) {
        self.reach(at);
        if !matches!(state, RecordState::Failed(_)) {
            self.last_sign = self.last_sign.max(at);
        }
        let record = self.pending.at_mut(slot);
        record.answered = at;
        record.state = state;
        let span = &mut self.segments.at(at).span;
        span.waiting.end(record.due, Awaited::Answer);
        (record, span)
    }

    /// The transaction has its fate: it leaves the table and gets its row.
    pub(super) fn settle(&mut self, slot: Slot, at: Nanos) {
        let record = self.pending.remove(slot);
        let is_unanswered = record.state == RecordState::Unanswered;
        if !record.is_committed() || is_unanswered {
            let span = &mut self.segment(at).span;
            if !record.is_committed() {
                span.waiting.end(record.due, Awaited::Block);
            }
            if is_unanswered {
                span.waiting.end(record.due, Awaited::Answer);
                span.endpoints.settled(record.endpoint);
            }
        }
        self.enter(&record);
    }

    /// Writes down a transaction that has its fate.
    fn enter(&mut self, record: &Record) {
        self.tally.settle(record);
        self.answers.record(record);
        if self.config.rows.keeps(&record.hash) {
            self.tx_writer.write(record, &mut self.files.txs.rows);
            self.files.relieve_txs();
        }
    }

    pub(super) fn settle_one_early(&mut self) {
        if let Some(slot) = self.pending.oldest_nearby() {
            self.health.settled_early += 1;
            let record = *self.pending.at(slot);
            self.censor_open(&record, self.low, self.low);
            self.settle(slot, self.low);
        }
    }

    /// Counts what is open of a transaction, of which every answer was read up to one instant and
    /// every block seen up to another.
    fn censor_open(&mut self, record: &Record, answers_until: Nanos, blocks_until: Nanos) {
        if record.state == RecordState::Unanswered {
            self.censor(LatencyKind::AcceptResponse, record.due, answers_until);
            self.censor(LatencyKind::AcceptService, record.sent, answers_until);
        }
        if !record.is_committed() && !self.is_unfollowed() {
            self.censor(LatencyKind::CommitFromDue, record.due, blocks_until);
            self.censor(LatencyKind::CommitFromSent, record.sent, blocks_until);
            if record.state == RecordState::Accepted {
                self.censor(
                    LatencyKind::CommitFromAccepted,
                    record.answered,
                    blocks_until,
                );
            }
        }
    }

    /// A latency had begun `from` then and had not ended `until` then.
    pub(super) fn censor(&mut self, kind: LatencyKind, from: Nanos, until: Nanos) {
        if until >= self.config.warmup {
            let age = until.saturating_sub(from);
            self.run.censored.record(kind, age);
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunEnd {
    /// How many transactions were due until offering ended, counted by the schedule itself; `None`
    /// in a closed loop, where nothing is due.
    pub planned: Option<u64>,
    /// When offering ended.
    pub offered_until: Nanos,
    /// When the drain ended.
    pub ended: Nanos,
    /// Whether the user cut it short.
    pub interrupted: bool,
}

/// What is left of a recorder: the summary, and the first write error if there was one. The
/// summary is complete either way.
#[derive(Debug)]
pub struct Finished {
    /// What the run was. It is the caller's to write, see [`Summary::write_to`].
    pub summary: Summary,
    /// The first error of a writer.
    pub error: Option<RecordError>,
}

/// A follower that reads each block as it comes is never so far behind: an answer that takes as long is a stall.
pub(super) const FOLLOWS_WITHIN: Nanos = Nanos::from_secs(2);

impl Recorder<'_> {
    /// Takes over what still waits, gives every open transaction its fate, writes the rest and
    /// draws up the summary.
    pub fn finish(mut self, end: RunEnd) -> Finished {
        self.segments.cut(end.offered_until);
        self.take_blocks(Nanos::MAX);
        self.close_rest(end.ended);
        self.settle_rest(end.ended);
        self.hlog
            .write_censored(&self.run.censored, end.ended, &mut self.files.hlog.rows);
        self.files.flush();
        self.health.incomplete_files = self.files.incomplete();
        let steps = std::mem::take(&mut self.step_rows);
        Finished {
            summary: self.summary(end, steps, self.health.clone(), &self.run.censored),
            error: self.files.into_error(),
        }
    }

    /// The account up to the instant that every source is past, without steps: what is under way
    /// counts neither as unanswered nor as pending yet, but its age counts as censored. For conditions
    /// on a run that goes on.
    pub fn so_far(&self) -> Summary {
        let until = self.segments.offering_until(self.low);
        let end = RunEnd {
            planned: None,
            offered_until: until,
            ended: self.low,
            interrupted: false,
        };
        let mut censored = self.run.censored.clone();
        let followed = !self.is_unfollowed();
        let closed_until = self.segments.first().start;
        self.waiting.add_to(&mut censored, closed_until, followed);
        self.summary(end, Vec::new(), self.health.clone(), &censored)
    }

    /// Closes what ends by `ended` and the beginning of what does not; events stamped later stretch
    /// the run, so that none is left out.
    fn close_rest(&mut self, ended: Nanos) {
        let after_latest = self.latest.saturating_add(Nanos::from_nanos(1));
        let last = ended.max(self.low).max(after_latest);
        while !self.segments.reaches(last) {
            self.segments.extend(&mut *self.plan);
        }
        self.close_until(last);
        let start = self.segments.first().start;
        if start < last {
            self.segments.shorten_first(last);
            self.close_until(last);
        }
        self.close_step();
        self.write_steps(last);
        self.close_second(last);
        self.close_interval(last);
    }

    fn settle_rest(&mut self, ended: Nanos) {
        let RecorderConfig {
            senders, followers, ..
        } = self.config;
        let blocks_until = self.watermarks.reached(senders..senders + followers);
        let answers_until = self.watermarks.reached(0..senders);
        // A follower stops where a block was announced that it has not read.
        let unread = self.last_sign.saturating_sub(blocks_until);
        if followers > 0 && unread > FOLLOWS_WITHIN {
            self.health.unread_ms = unread.as_millis();
        }
        let [answers_until, blocks_until] = [answers_until, blocks_until].map(|at| at.min(ended));
        self.health.pending_bytes_peak = self
            .health
            .pending_bytes_peak
            .max(self.pending.bytes() as u64);
        for record in self.pending.drain() {
            self.censor_open(&record, answers_until, blocks_until);
            self.enter(&record);
        }
        self.files.write_answers(&self.answers);
    }

    fn summary(
        &self,
        end: RunEnd,
        steps: Vec<StepRow>,
        recorder: RecorderHealth,
        censored: &LatencySet,
    ) -> Summary {
        let account = Account {
            model: self.config.model,
            interrupted: end.interrupted,
            followed: self.config.followers > 0,
            context: JudgeContext {
                checked: self.config.checked,
                waits_at: self.config.waits_at,
                strict: self.config.strict,
            },
            time: TimeSpans {
                origin_unix_ns: self.config.origin_unix_ns,
                warmup_s: self.config.warmup.as_secs_f64(),
                offered_s: end.offered_until.as_secs_f64(),
                ended_s: end.ended.as_secs_f64(),
            },
            offered: self
                .tally
                .offered(end.planned, self.run.sent_while_offering),
            fate: self.tally.fate(),
            late: LateCauses {
                causes: self.run.late,
                displaced: self.run.displaced,
                generator_max_ms: self.run.generator_late_max.as_millis_f64(),
            },
            latency_ms: self.run.latencies.summary(censored),
            seconds: &self.run.seconds,
            blocks: self.run.blocks,
            steady_blocks: self.run.steady_blocks,
            windows: self.windows.worst(),
            steps,
            reconnects: self.reconnects,
            recorder,
        };
        account.summary()
    }
}

impl Recorder<'_> {
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
        let is_late = self.segments.has_closed(block.observed);
        let span = &mut self.segment(block.observed).span;
        span.has_late_blocks |= is_late;
        span.counts.blocks += 1;
        span.block_times.mark(block.observed);
        span.counts.committed += row.committed();
        span.counts.commit_failed += own_failed;
        span.counts.unverified += own_unverified;
        span.blocks
            .add(&BlockSpan::one(block.observed, row.committed()));
        self.roomy.block(block.observed, block.resolution, own_txs);
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
        let both_at = at.max(record.answered);
        if state == RecordState::Accepted {
            let is_late = self.segments.has_closed(both_at);
            // It is both accepted and committed from the later of the two on, whichever was reported first.
            let span = &mut self.segments.at(both_at).span;
            if is_committed {
                let from_accepted = at.saturating_sub(record.answered);
                let latencies = &mut span.latencies;
                latencies.record(LatencyKind::CommitFromAccepted, from_accepted);
            }
            if is_late {
                self.ended_steps.cohorts.commit_late(step, tx.code);
            } else {
                span.cohorts.of(step).commit(Some(tx.code));
            }
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
