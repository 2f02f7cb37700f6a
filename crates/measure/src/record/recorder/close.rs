//! Closing windows, segments, seconds and steps once every source is past them.

use std::collections::VecDeque;

use pacing::{Nanos, Step};

use super::settle::FOLLOWS_WITHIN;
use super::{Recorder, RecorderConfig, SecondBegin};
use crate::format::SECOND;
use crate::format::counts::{AddUp as _, Counts, Displaced, Late};
use crate::format::fate::{self, Cohorts};
use crate::format::latency::{LatencyBuckets, LatencySet};
use crate::format::rows::{SeriesRow, StepRow};
use crate::format::summary::Blocks;
use crate::limits::MOST_UNREAD;
use crate::record::account::{MAX_STEP_ROWS, Seconds};
use crate::record::segments::{Segment, Span};
use crate::stats::block_span::BlockSpan;
use crate::stats::silence::Silence;

/// What the whole run adds up to, as far as its segments are closed.
#[derive(Debug, Default)]
pub(super) struct RunTotals {
    /// Counts of every closed segment.
    pub(super) counts: Counts,
    pub(super) late: Late,
    pub(super) displaced: Displaced,
    /// Latencies of every closed segment after the warm-up.
    pub(super) latencies: LatencySet,
    /// Ages of what had not ended when it was last looked at, after the warm-up.
    pub(super) censored: LatencySet,
    pub(super) seconds: Seconds,
    pub(super) blocks: Blocks,
    /// The blocks after the warm-up, while transactions were offered.
    pub(super) steady_blocks: BlockSpan,
    pub(super) sent_while_offering: u64,
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
    answer_gap: Nanos,
    block_gap: Nanos,
}

/// The steps that have ended and whose transactions are still awaited.
#[derive(Debug, Default)]
pub(super) struct EndedSteps {
    pub(super) cohorts: Cohorts,
    /// Each with the instant until which its transactions are awaited, and whether it was offered to its end.
    waiting: VecDeque<(StepRow, Nanos, bool)>,
    answers: Silence,
    blocks: Silence,
}

impl Recorder<'_> {
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
        let mut segment = self.segments.close(&mut *self.plan);
        self.waiting.add(&segment.span.waiting);
        let counts = &mut segment.span.counts;
        counts.offered = match due_before {
            Some(due_before) => due_before.saturating_sub(self.run.counts.offered),
            None => counts.sent + counts.unsent,
        };
        self.run.counts.add_up(counts);
        self.run.late.add_up(&segment.span.late);
        self.ended_steps.cohorts.add(&segment.span.cohorts);
        let offering = segment.step.is_some();
        if offering {
            self.run.sent_while_offering += counts.sent;
        }
        if segment.start >= self.config.warmup {
            self.run.latencies.merge(&segment.span.latencies);
            if offering {
                self.run.steady_blocks.add(&segment.span.blocks);
            }
        }
        self.add_to_step(&segment);
        self.judge_steps(segment.end);
        self.add_to_second(&mut segment);
        let second_ends = segment.end.as_nanos().is_multiple_of(SECOND.as_nanos());
        self.segments.recycle(segment.span);
        if second_ends {
            self.close_second(segment.end);
        }
    }

    fn add_to_second(&mut self, segment: &mut Segment) {
        if self.second_begin.fresh {
            self.second_begin = SecondBegin {
                start: segment.start,
                step: segment.step.as_ref().map(|step| step.index),
                fresh: false,
            };
        }
        self.second.take(&mut segment.span);
        self.second.endpoints.add(&segment.span.endpoints);
    }

    fn add_to_step(&mut self, segment: &Segment) {
        let Segment {
            start, end, span, ..
        } = segment;
        let (total, ended) = (&self.run.counts, &mut self.ended_steps);
        let waiting = total.in_flight() + total.unsent_yet();
        let answers = span.endpoints.answers();
        let answer_gap = ended.answers.pass(*start, *end, answers, waiting);
        let block_gap = ended
            .blocks
            .pass(*start, *end, span.block_times, total.backlog());
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
        self.step.answer_gap = self.step.answer_gap.max(answer_gap);
        self.step.block_gap = self.step.block_gap.max(block_gap);
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
        let mut row = self.series_row(begin, end);
        self.signs.next(&self.second.endpoints);
        row.signs = self.signs.to_string();
        let names = self.config.endpoints.iter().map(String::as_str);
        let span = (begin.start, end);
        row.silent = self.endpoints.second(span, &self.signs, names);
        self.files.series.push(&row);
        self.run.seconds.push(&row);
        self.show_second(row);
        self.run.buckets.add(&self.second.latencies);
        self.interval.take(&mut self.second.latencies);
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
            mempool_txs: span.depth.and_then(|depth| Some(depth.last?.txs)),
            mempool_bytes: span.depth.and_then(|depth| Some(depth.last?.bytes)),
            latency: self.waiting.columns(&span.latencies, end),
            mark: span.marks.join("; "),
            generator_cpu: span.processor.map(|used| {
                let length = end.saturating_sub(begin.start).as_secs_f64();
                used.as_secs_f64() / length.max(1e-9)
            }),
            mempool_min: span.depth.map(|depth| depth.min),
            mempool_max: span.depth.map(|depth| depth.max),
            ..SeriesRow::default()
        }
    }

    /// Ends the step under way, if there is one. Its row is written when its transactions are judged.
    pub(super) fn close_step(&mut self) {
        let Some(step) = self.step.step.take() else {
            return;
        };
        let row = self.step_row(&step);
        self.step.in_flight_before = row.in_flight;
        self.step.backlog_before = row.backlog;
        self.step.span.clear();
        (self.step.answer_gap, self.step.block_gap) = Default::default();
        let end = self.step.end;
        let awaited = fate::awaited(end, self.run.counts.blocks, !self.is_unfollowed());
        let until = end.saturating_add(awaited);
        let is_whole = step.end.is_none_or(|planned| end >= planned);
        self.ended_steps.waiting.push_back((row, until, is_whole));
    }

    /// Writes the rows of the steps whose transactions have their fates, or had long enough for that, in
    /// order. `now` is the end of a segment, so the order in which sources report does not matter. A follower that is
    /// behind is waited for: what it has not read is no backlog of the node's.
    fn judge_steps(&mut self, now: Nanos) {
        let followed = !self.is_unfollowed();
        let read = self.blocks_read();
        // A node without a sign since then does not give its block either: it is not the follower that is behind.
        let is_silent = now >= self.last_sign.saturating_add(FOLLOWS_WITHIN)
            && self.last_sign <= read.saturating_add(FOLLOWS_WITHIN);
        let read = if is_silent { now } else { read };
        while let Some((row, until, _)) = self.ended_steps.waiting.front() {
            let cohort = self.ended_steps.cohorts.of(row.step);
            let is_settled = cohort.is_settled(row.counts.offered, followed);
            let is_ripe = now.min(read) >= *until || is_settled;
            if !is_ripe && self.ended_steps.waiting.len() <= fate::MAX_OPEN {
                return;
            }
            let awaited_s = (now.as_secs_f64() - row.end_s).max(0.0);
            self.write_step(is_ripe.then_some(awaited_s));
        }
    }

    /// Up to when every block was read by a follower that goes on.
    pub(super) fn blocks_read(&self) -> Nanos {
        let RecorderConfig {
            senders, followers, ..
        } = self.config;
        self.watermarks.awaits(senders..senders + followers)
    }

    /// How far behind `now` blocks are read, where a step that has ended waits for them for longer than [`MOST_UNREAD`].
    pub fn unread(&self, now: Nanos) -> Option<Nanos> {
        let (_, until, _) = self.ended_steps.waiting.front()?;
        let read = self.blocks_read();
        let in_vain = read < *until && now > until.saturating_add(MOST_UNREAD);
        in_vain.then(|| now.saturating_sub(read))
    }

    /// Writes the rows of all steps that have ended.
    pub(super) fn write_steps(&mut self, now: Nanos) {
        self.judge_steps(now);
        while !self.ended_steps.waiting.is_empty() {
            self.write_step(None);
        }
    }

    fn write_step(&mut self, awaited_s: Option<f64>) {
        let Some((mut row, _, is_whole)) = self.ended_steps.waiting.pop_front() else {
            return;
        };
        row.cohort = self.ended_steps.cohorts.take(row.step);
        row.awaited_s = awaited_s.filter(|_| is_whole);
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
            again_of: step.again_of,
            counts: span.counts,
            late: span.late,
            in_flight,
            in_flight_growth: growth(in_flight, self.step.in_flight_before),
            backlog,
            backlog_growth: growth(backlog, self.step.backlog_before),
            mempool_txs: span.depth.and_then(|depth| Some(depth.last?.txs)),
            latency: self.waiting.columns(&span.latencies, self.step.end),
            answer_gap_s: self.step.answer_gap.as_secs_f64(),
            block_gap_s: self.step.block_gap.as_secs_f64(),
            // As the row has it: what is concluded from the row is the same when it is read again.
            node_lack_s: (span.node_lack.as_secs_f64() * 1e3).round() / 1e3,
            ..StepRow::default()
        };
        // Blocks that were read late show no rate, neither of the step that lacks them nor of the one that has them.
        let read = self.blocks_read();
        let in_time = !span.has_late_blocks && (read >= self.low || read >= self.step.end);
        row.with_rates(span.blocks.rate().filter(|_| in_time))
    }
}

/// By how much a number has grown.
pub(crate) fn growth(now: u64, before: u64) -> i64 {
    now.cast_signed().wrapping_sub(before.cast_signed())
}
