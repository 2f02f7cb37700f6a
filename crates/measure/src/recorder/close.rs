//! Closing windows, segments, seconds and steps once every source is past them.

use std::io::Write;

use pacing::{Nanos, Step};

use super::{Recorder, SecondBegin};
use crate::buckets::LatencyBuckets;
use crate::latency::{LatencyKind, LatencySet, millis};
use crate::plan::Plan;
use crate::rates::PerSecond;
use crate::rows::{SeriesRow, StepRow};
use crate::segments::{SECOND, Segment};
use crate::span::{Counts, Span};

/// What the whole run adds up to, as far as its segments are closed.
#[derive(Debug, Default)]
pub(super) struct RunTotals {
    /// Counts of every closed segment.
    pub(super) counts: Counts,
    /// Latencies of every closed segment after the warm-up.
    pub(super) latencies: LatencySet,
    /// Transactions due before the end of the last closed window or segment.
    pub(super) offered: u64,
    pub(super) accepted_per_s: PerSecond,
    pub(super) committed_per_s: PerSecond,
    pub(super) blocks_per_s: PerSecond,
    pub(super) blocks: u64,
    pub(super) block_txs: u64,
    pub(super) block_bytes: u64,
    pub(super) own_txs: u64,
    pub(super) generator_late_max: Nanos,
    /// Latencies of every closed second, the warm-up included.
    pub(super) buckets: LatencyBuckets,
}

impl RunTotals {
    pub(super) fn bytes(&self) -> usize {
        self.latencies.bytes()
    }
}

/// The step that is being put together.
#[derive(Debug, Default)]
pub(super) struct StepUnderway {
    span: Span,
    step: Option<Step>,
    end: Nanos,
    in_flight_before: u64,
    backlog_before: u64,
}

impl StepUnderway {
    pub(super) fn bytes(&self) -> usize {
        self.span.latencies.bytes()
    }
}

impl<W: Write, P: Plan> Recorder<W, P> {
    /// Every source is past `low`.
    pub(super) fn advance(&mut self, low: Nanos) {
        if low <= self.low {
            return;
        }
        self.low = low;
        self.take_blocks(low);
        self.close_until(low);
    }

    /// Closes every window and segment that ends by `t`, in the order of their ends: the plan is
    /// only ever asked forwards.
    pub(super) fn close_until(&mut self, t: Nanos) {
        loop {
            let window_end = self.windows.next_end();
            let segment_end = self.segments.next_end();
            let end = window_end.min(segment_end);
            if end > t {
                return;
            }
            let due_before = self.plan.due_before(self.segments.offering_until(end));
            if window_end == end {
                self.windows.close(due_before);
            }
            if segment_end == end {
                self.close_segment(due_before);
            }
        }
    }

    fn close_segment(&mut self, due_before: Option<u64>) {
        let mut segment = self.segments.close(&mut self.plan);
        segment.span.offered = match due_before {
            Some(due_before) => due_before.saturating_sub(self.run.offered),
            None => segment.span.counts.sent + segment.span.counts.unsent,
        };
        self.run.offered += segment.span.offered;
        self.run.counts.add(&segment.span.counts);
        if segment.start >= self.config.warmup {
            self.run.latencies.merge(&segment.span.latencies);
        }
        self.add_to_second(&segment);
        self.add_to_step(&segment);
        let second_ends = segment.end.as_nanos().is_multiple_of(SECOND.as_nanos());
        self.segments.recycle(segment.span);
        if second_ends {
            self.close_second(segment.end);
        }
    }

    fn add_to_second(&mut self, segment: &Segment) {
        if self.second_begin.fresh {
            self.second_begin = SecondBegin {
                start: segment.start,
                step: segment.step.as_ref().map(|step| step.index),
                fresh: false,
            };
        }
        self.second.add(&segment.span);
    }

    fn add_to_step(&mut self, segment: &Segment) {
        let Some(step) = &segment.step else {
            self.close_step();
            return;
        };
        if self
            .step
            .step
            .as_ref()
            .is_some_and(|underway| underway.index != step.index)
        {
            self.close_step();
        }
        if self.step.step.is_none() {
            self.step.step = Some(*step);
        }
        self.step.end = segment.end;
        self.step.span.add(&segment.span);
        if step.end == Some(segment.end) {
            self.close_step();
        }
    }

    /// Writes the row of the second that ends at `end`, and everything gathered so far.
    pub(super) fn close_second(&mut self, end: Nanos) {
        let begin = self.second_begin;
        if begin.fresh || end <= begin.start {
            return;
        }
        let row = self.series_row(begin, end);
        row.write_csv(&mut self.files.series.rows);
        self.run.accepted_per_s.push(row.accepted);
        self.run.committed_per_s.push(row.committed);
        self.run.blocks_per_s.push(row.blocks);
        self.show_second(row);
        self.interval.merge(&self.second.latencies);
        self.run.buckets.add(&self.second.latencies);
        self.second.clear();
        self.second_begin.fresh = true;

        let seconds = u64::from(self.config.hlog_interval_s.get());
        let length = SECOND.saturating_mul(seconds).as_nanos();
        if end.as_nanos().is_multiple_of(length) {
            self.close_interval(end);
        }
        self.files.flush();
        self.health.pending_bytes_peak = self
            .health
            .pending_bytes_peak
            .max(self.pending.bytes() as u64);
    }

    pub(super) fn close_interval(&mut self, end: Nanos) {
        self.hlog.write(
            &self.interval,
            self.interval_start,
            end,
            &mut self.files.hlog.rows,
        );
        self.interval.clear();
        self.interval_start = end;
    }

    fn series_row(&self, begin: SecondBegin, end: Nanos) -> SeriesRow {
        let span = &self.second;
        let counts = &span.counts;
        let at = |kind, quantile| span.latencies.of(kind).quantile(quantile).map(millis);
        SeriesRow {
            second: begin.start.as_nanos() / SECOND.as_nanos(),
            span_s: end.saturating_sub(begin.start).as_secs_f64(),
            step: begin.step,
            offered: span.offered,
            sent: counts.sent,
            unsent: counts.unsent,
            accepted: counts.accepted,
            rejected: counts.rejected,
            errors: counts.errors,
            committed: counts.committed,
            commit_failed: counts.commit_failed,
            blocks: counts.blocks,
            in_flight: self.run.counts.in_flight(),
            backlog: self.run.counts.backlog(),
            mempool_txs: span.depth.map(|depth| depth.txs),
            mempool_bytes: span.depth.map(|depth| depth.bytes),
            lateness_p99_ms: at(LatencyKind::Lateness, 0.99),
            lateness_max_ms: span.latencies.of(LatencyKind::Lateness).max().map(millis),
            accept_p50_ms: at(LatencyKind::AcceptResponse, 0.50),
            accept_p99_ms: at(LatencyKind::AcceptResponse, 0.99),
            service_p50_ms: at(LatencyKind::AcceptService, 0.50),
            service_p99_ms: at(LatencyKind::AcceptService, 0.99),
            commit_p50_ms: at(LatencyKind::CommitFromDue, 0.50),
            commit_p99_ms: at(LatencyKind::CommitFromDue, 0.99),
            mark: span.marks.join("; "),
        }
    }

    /// Writes the row of the step under way, if there is one.
    pub(super) fn close_step(&mut self) {
        let Some(step) = self.step.step.take() else {
            return;
        };
        let row = self.step_row(&step);
        self.step.in_flight_before = row.in_flight;
        self.step.backlog_before = row.backlog;
        self.step.span.clear();
        row.write_csv(&mut self.files.steps.rows);
        if self.step_rows.len() < MAX_STEP_ROWS {
            self.step_rows.push(row);
        } else {
            self.health.steps_omitted += 1;
        }
    }

    fn step_row(&self, step: &Step) -> StepRow {
        let span = &self.step.span;
        let counts = &span.counts;
        let in_flight = self.run.counts.in_flight();
        let backlog = self.run.counts.backlog();
        let length_s = self.step.end.saturating_sub(step.start).as_secs_f64();
        let rate = |count: u64| (length_s > 0.0).then(|| count as f64 / length_s);
        let at = |kind, quantile| span.latencies.of(kind).quantile(quantile).map(millis);
        StepRow {
            step: step.index,
            start_s: step.start.as_secs_f64(),
            end_s: self.step.end.as_secs_f64(),
            rate_tps: step.rate.as_f64(),
            pause: step.pause,
            offered: span.offered,
            sent: counts.sent,
            unsent: counts.unsent,
            accepted: counts.accepted,
            rejected: counts.rejected,
            errors: counts.errors,
            committed: counts.committed,
            commit_failed: counts.commit_failed,
            blocks: counts.blocks,
            offered_tps: rate(span.offered),
            sent_tps: rate(counts.sent),
            accepted_tps: rate(counts.accepted),
            committed_tps: span.blocks.rate(),
            late_schedule: counts.late.schedule,
            late_source: counts.late.source,
            late_connection: counts.late.connection,
            late_node: counts.late.node,
            in_flight,
            in_flight_growth: difference(in_flight, self.step.in_flight_before),
            backlog,
            backlog_growth: difference(backlog, self.step.backlog_before),
            mempool_txs: span.depth.map(|depth| depth.txs),
            lateness_p50_ms: at(LatencyKind::Lateness, 0.50),
            lateness_p99_ms: at(LatencyKind::Lateness, 0.99),
            lateness_max_ms: span.latencies.of(LatencyKind::Lateness).max().map(millis),
            accept_p50_ms: at(LatencyKind::AcceptResponse, 0.50),
            accept_p95_ms: at(LatencyKind::AcceptResponse, 0.95),
            accept_p99_ms: at(LatencyKind::AcceptResponse, 0.99),
            service_p50_ms: at(LatencyKind::AcceptService, 0.50),
            service_p99_ms: at(LatencyKind::AcceptService, 0.99),
            commit_p50_ms: at(LatencyKind::CommitFromDue, 0.50),
            commit_p95_ms: at(LatencyKind::CommitFromDue, 0.95),
            commit_p99_ms: at(LatencyKind::CommitFromDue, 0.99),
        }
    }
}

fn difference(now: u64, before: u64) -> i64 {
    now.cast_signed().wrapping_sub(before.cast_signed())
}

/// Step rows kept in memory and in the summary; the file has them all.
const MAX_STEP_ROWS: usize = 10_000;
