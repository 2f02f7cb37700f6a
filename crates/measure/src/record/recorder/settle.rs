//! The ends of transactions: what their answers and blocks come to, and what was still awaited.

use std::io::Write;

use pacing::Nanos;

use super::Recorder;
use crate::format::code::Codespace;
use crate::format::event::UNKNOWN_CODE;
use crate::format::latency::LatencyKind;
use crate::record::pending::{Record, RecordState, Slot};
use crate::record::plan::Plan;
use crate::record::span::Span;
use crate::record::waiting::Awaited;

impl<W: Write, P: Plan> Recorder<W, P> {
    pub(super) fn accepted(&mut self, slot: Slot, at: Nanos) {
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
    pub(super) fn enter(&mut self, record: &Record) {
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
    pub(super) fn censor_open(
        &mut self,
        record: &Record,
        answers_until: Nanos,
        blocks_until: Nanos,
    ) {
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
