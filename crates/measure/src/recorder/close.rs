//! Closing windows, segments, seconds and steps once every source is past them.

use std::io::Write;

use pacing::{Nanos, Step};

use super::{Recorder, SecondBegin};
use crate::account::{MAX_STEP_ROWS, Seconds};
use crate::buckets::LatencyBuckets;
use crate::counts::{AddUp as _, Counts, Late};
use crate::latency::LatencySet;
use crate::plan::Plan;
use crate::rows::{LatencyColumns, SeriesRow, StepRow};
use crate::segments::{SECOND, Segment};
use crate::span::Span;
use crate::summary::Blocks;

/// What the whole run adds up to, as far as its segments are closed.
#[derive(Debug, Default)]
pub(super) struct RunTotals {
    /// Counts of every closed segment.
    pub(super) counts: Counts,
    pub(super) late: Late,
    /// Latencies of every closed segment after the warm-up.
    pub(super) latencies: LatencySet,
    /// Ages of what had not ended when it was last looked at, after the warm-up.
    pub(super) censored: LatencySet,
    pub(super) seconds: Seconds,
    pub(super) blocks: Blocks,
    pub(super) generator_late_max: Nanos,
    /// Latencies of every closed second, the warm-up included.
    pub(super) buckets: LatencyBuckets,
}

/// The step that is being put together.
#[derive(Debug, Default)]
pub(super) struct StepUnderway {
    pub(super) span: Span,
    step: Option<Step>,
    end: Nanos,
    in_flight_before: u64,
    backlog_before: u64,
}

impl<W: Write, P: Plan> Recorder<W, P> {
    /// Every source is past `low`.
    pub(super) fn advance(&mut self, low: Nanos) {
        if low <= self.low {
            return;
        }
        self.low = low;
        self.take_observations(low);
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
        let counts = &mut segment.span.counts;
        counts.offered = match due_before {
            Some(due_before) => due_before.saturating_sub(self.run.counts.offered),
            None => counts.sent + counts.unsent,
        };
        self.run.counts.add_up(counts);
        self.run.late.add_up(&segment.span.late);
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
        self.files.series.push(&row);
        self.run.seconds.push(&row);
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
        SeriesRow {
            second: begin.start.as_nanos() / SECOND.as_nanos(),
            span_s: end.saturating_sub(begin.start).as_secs_f64(),
            step: begin.step,
            counts: span.counts,
            in_flight: self.run.counts.in_flight(),
            backlog: self.run.counts.backlog(),
            mempool_txs: span.depth.map(|depth| depth.last.txs),
            mempool_bytes: span.depth.map(|depth| depth.last.bytes),
            latency: LatencyColumns::beside(&span.latencies, &self.waiting, end),
            mark: span.marks.join("; "),
            generator_cpu: span.processor.map(|used| {
                let length = end.saturating_sub(begin.start).as_secs_f64();
                used.as_secs_f64() / length.max(1e-9)
            }),
            mempool_min: span.depth.map(|depth| depth.min),
            mempool_max: span.depth.map(|depth| depth.max),
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
        self.files.steps.push(&row);
        if self.step_rows.len() < MAX_STEP_ROWS {
            self.step_rows.push(row);
        } else {
            self.health.steps_omitted += 1;
        }
    }

    fn step_row(&self, step: &Step) -> StepRow {
        let span = &self.step.span;
        let in_flight = self.run.counts.in_flight();
        let backlog = self.run.counts.backlog();
        let row = StepRow {
            step: step.index,
            start_s: step.start.as_secs_f64(),
            end_s: self.step.end.as_secs_f64(),
            rate_tps: step.rate.as_f64(),
            pause: step.pause,
            counts: span.counts,
            late: span.late,
            in_flight,
            in_flight_growth: growth(in_flight, self.step.in_flight_before),
            backlog,
            backlog_growth: growth(backlog, self.step.backlog_before),
            mempool_txs: span.depth.map(|depth| depth.last.txs),
            latency: LatencyColumns::beside(&span.latencies, &self.waiting, self.step.end),
            ..StepRow::default()
        };
        row.with_rates(span.blocks.rate())
    }
}

/// By how much a number has grown.
pub(crate) fn growth(now: u64, before: u64) -> i64 {
    now.cast_signed().wrapping_sub(before.cast_signed())
}
