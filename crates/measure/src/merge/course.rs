//! The course of the whole: blocks, seconds, steps and latencies.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::iter::Peekable;

use pacing::Nanos;

use super::{MergePart, PartError};
use crate::files::Files;
use crate::hlog::HlogWriter;
use crate::latency::{LatencyKind, LatencySet, millis};
use crate::rates::PerSecond;
use crate::read::{HlogReader, ReadError, RowReader};
use crate::rows::{BlockRow, SeriesRow, StepRow};
use crate::segments::SECOND;
use crate::span::BlockSpan;

/// What the seconds and steps add up to.
pub(super) struct Course {
    pub(super) steps: Vec<StepRow>,
    pub(super) steps_omitted: u64,
    /// Of everything after the warm-up.
    pub(super) latencies: LatencySet,
    pub(super) accepted: PerSecond,
    pub(super) committed: PerSecond,
    pub(super) blocks: PerSecond,
}

/// Every block once, as the first who saw it did; written and given back.
pub(super) fn blocks<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    files: &mut Files<W>,
) -> Result<Vec<BlockRow>, PartError> {
    let mut blocks: BTreeMap<u64, BlockRow> = BTreeMap::new();
    for (position, part) in parts.iter_mut().enumerate() {
        for row in &mut part.blocks {
            let row = row.map_err(|error| (position, error))?;
            match blocks.get_mut(&row.height) {
                Some(block) => add_block(block, &row),
                None => {
                    blocks.insert(row.height, row);
                }
            }
        }
    }
    for block in blocks.values_mut() {
        // A median of medians is none.
        block.commit_p50_ms = block.commit_p50_ms.filter(|_| parts.len() == 1);
        block.write_csv(&mut files.blocks.rows);
    }
    files.flush();
    Ok(blocks.into_values().collect())
}

fn add_block(block: &mut BlockRow, other: &BlockRow) {
    block.observed_ns = block.observed_ns.min(other.observed_ns);
    block.interval_ms = block.interval_ms.or(other.interval_ms);
    block.own_txs += other.own_txs;
    block.own_failed += other.own_failed;
    block.commit_max_ms = most(block.commit_max_ms, other.commit_max_ms);
}

/// Joins seconds, intervals and steps, in the order of time.
pub(super) fn join<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    blocks: &[BlockRow],
    files: &mut Files<W>,
) -> Result<Course, PartError> {
    let warmup_s = parts
        .iter()
        .map(|part| part.summary.time.warmup_s)
        .fold(0.0, f64::max);
    let mut steps = Steps::new(parts, blocks)?;
    let mut seconds: Vec<_> = Vec::new();
    let mut intervals: Vec<_> = Vec::new();
    for part in parts.iter_mut() {
        seconds.push(Seconds::new(&mut part.series));
        intervals.push(Intervals::new(&mut part.hlog));
    }
    let mut course = Course {
        steps: Vec::new(),
        steps_omitted: 0,
        latencies: LatencySet::new(),
        accepted: PerSecond::default(),
        committed: PerSecond::default(),
        blocks: PerSecond::default(),
    };
    let mut writer = HlogWriter::new();
    while let Some(second) = earliest(&mut seconds)? {
        let mut row = add_seconds(&mut seconds, second)?;
        let end_s = second as f64 + row.span_s;
        let latencies = add_intervals(&mut intervals, end_s)?;
        row.blocks = observed(blocks, second as f64, end_s).count() as u64;
        fill_second(&mut row, &latencies);
        row.write_csv(&mut files.series.rows);
        let start = Nanos::from_nanos(second.saturating_mul(SECOND.as_nanos()));
        let end = Nanos::from_nanos((end_s * 1e9).round() as u64);
        writer.write(&latencies, start, end, &mut files.hlog.rows);
        if second as f64 >= warmup_s {
            course.latencies.merge(&latencies);
        }
        steps.add(second as f64, &latencies);
        course.accepted.push(row.accepted);
        course.committed.push(row.committed);
        course.blocks.push(row.blocks);
        files.flush();
    }
    for step in steps.finish() {
        step.write_csv(&mut files.steps.rows);
        match course.steps.len() < MAX_STEP_ROWS {
            true => course.steps.push(step),
            false => course.steps_omitted += 1,
        }
    }
    Ok(course)
}

/// The rows of one part's series, one ahead.
struct Seconds<'a, R: BufRead>(Peekable<&'a mut RowReader<R, SeriesRow>>);

impl<'a, R: BufRead> Seconds<'a, R> {
    fn new(reader: &'a mut RowReader<R, SeriesRow>) -> Self {
        Self(reader.peekable())
    }

    /// The second of the next row.
    fn next_second(&mut self) -> Result<Option<u64>, ReadError> {
        match self.0.peek() {
            Some(Ok(row)) => Ok(Some(row.second)),
            Some(Err(_)) => self
                .0
                .next()
                .transpose()
                .map(|row| row.map(|row| row.second)),
            None => Ok(None),
        }
    }
}

fn earliest<R: BufRead>(seconds: &mut [Seconds<'_, R>]) -> Result<Option<u64>, PartError> {
    let mut earliest = None;
    for (position, part) in seconds.iter_mut().enumerate() {
        let next = part.next_second().map_err(|error| (position, error))?;
        earliest = match (earliest, next) {
            (Some(one), Some(other)) => Some(u64::min(one, other)),
            (one, other) => one.or(other),
        };
    }
    Ok(earliest)
}

/// The sum of all parts' rows of a second.
fn add_seconds<R: BufRead>(
    seconds: &mut [Seconds<'_, R>],
    second: u64,
) -> Result<SeriesRow, PartError> {
    let mut sum: Option<SeriesRow> = None;
    for (position, part) in seconds.iter_mut().enumerate() {
        let is_here =
            |row: &Result<SeriesRow, ReadError>| row.as_ref().is_ok_and(|row| row.second == second);
        let Some(row) = part.0.next_if(is_here) else {
            continue;
        };
        let row = row.map_err(|error| (position, error))?;
        match &mut sum {
            None => sum = Some(row),
            Some(sum) => add_second(sum, &row),
        }
    }
    Ok(sum.unwrap_or_default())
}

fn add_second(sum: &mut SeriesRow, row: &SeriesRow) {
    sum.span_s = sum.span_s.max(row.span_s);
    sum.step = sum.step.or(row.step);
    sum.offered += row.offered;
    sum.sent += row.sent;
    sum.unsent += row.unsent;
    sum.accepted += row.accepted;
    sum.rejected += row.rejected;
    sum.errors += row.errors;
    sum.committed += row.committed;
    sum.commit_failed += row.commit_failed;
    sum.in_flight += row.in_flight;
    sum.backlog += row.backlog;
    sum.mempool_txs = sum.mempool_txs.max(row.mempool_txs);
    sum.mempool_bytes = sum.mempool_bytes.max(row.mempool_bytes);
    // Somebody may have marked all generators at once.
    if !row.mark.is_empty() && row.mark != sum.mark {
        if !sum.mark.is_empty() {
            sum.mark.push_str("; ");
        }
        sum.mark.push_str(&row.mark);
    }
}

fn fill_second(row: &mut SeriesRow, latencies: &LatencySet) {
    let at = |kind, quantile| latencies.of(kind).quantile(quantile).map(millis);
    row.lateness_p99_ms = at(LatencyKind::Lateness, 0.99);
    row.lateness_max_ms = latencies.of(LatencyKind::Lateness).max().map(millis);
    row.accept_p50_ms = at(LatencyKind::AcceptResponse, 0.50);
    row.accept_p99_ms = at(LatencyKind::AcceptResponse, 0.99);
    row.service_p50_ms = at(LatencyKind::AcceptService, 0.50);
    row.service_p99_ms = at(LatencyKind::AcceptService, 0.99);
    row.commit_p50_ms = at(LatencyKind::CommitFromDue, 0.50);
    row.commit_p99_ms = at(LatencyKind::CommitFromDue, 0.99);
}

/// The intervals of one part's log, all latencies of one instant together, one ahead.
struct Intervals<'a, R: BufRead> {
    reader: &'a mut HlogReader<R>,
    ahead: Option<(f64, LatencySet)>,
    ended: bool,
}

impl<'a, R: BufRead> Intervals<'a, R> {
    fn new(reader: &'a mut HlogReader<R>) -> Self {
        Self {
            reader,
            ahead: None,
            ended: false,
        }
    }

    /// Adds everything that begins before `end_s`.
    fn add_until(&mut self, end_s: f64, sum: &mut LatencySet) -> Result<(), ReadError> {
        loop {
            match self.ahead.take() {
                Some((start_s, set)) if start_s < end_s => sum.merge(&set),
                Some(ahead) => {
                    self.ahead = Some(ahead);
                    return Ok(());
                }
                None => {}
            }
            if self.ended {
                return Ok(());
            }
            let Some(interval) = self.reader.next_interval()? else {
                self.ended = true;
                return Ok(());
            };
            let kind = interval.kind;
            if interval.start_s < end_s {
                interval.add_to(sum.of_mut(kind))?;
            } else {
                let start_s = interval.start_s;
                let mut set = LatencySet::new();
                interval.add_to(set.of_mut(kind))?;
                self.ahead = Some((start_s, set));
            }
        }
    }
}

fn add_intervals<R: BufRead>(
    intervals: &mut [Intervals<'_, R>],
    end_s: f64,
) -> Result<LatencySet, PartError> {
    let mut sum = LatencySet::new();
    for (position, part) in intervals.iter_mut().enumerate() {
        part.add_until(end_s, &mut sum)
            .map_err(|error| (position, error))?;
    }
    Ok(sum)
}

/// The steps of all parts, and the latencies of the one under way.
struct Steps {
    rows: Vec<StepRow>,
    position: usize,
    latencies: LatencySet,
}

impl Steps {
    fn new<R: BufRead>(parts: &mut [MergePart<R>], blocks: &[BlockRow]) -> Result<Self, PartError> {
        let mut rows: BTreeMap<u32, StepRow> = BTreeMap::new();
        for (position, part) in parts.iter_mut().enumerate() {
            for row in &mut part.steps {
                let row = row.map_err(|error| (position, error))?;
                match rows.get_mut(&row.step) {
                    Some(step) => add_step(step, &row),
                    None => {
                        rows.insert(row.step, row);
                    }
                }
            }
        }
        let mut rows: Vec<StepRow> = rows.into_values().collect();
        for row in &mut rows {
            finish_step(row, blocks);
        }
        Ok(Self {
            rows,
            position: 0,
            latencies: LatencySet::new(),
        })
    }

    /// Takes the latencies of the second that begins at `start_s`.
    fn add(&mut self, start_s: f64, latencies: &LatencySet) {
        while let Some(row) = self.rows.get(self.position)
            && row.end_s <= start_s
        {
            self.close();
        }
        if self
            .rows
            .get(self.position)
            .is_some_and(|row| row.start_s <= start_s)
        {
            self.latencies.merge(latencies);
        }
    }

    fn finish(mut self) -> Vec<StepRow> {
        while self.position < self.rows.len() {
            self.close();
        }
        self.rows
    }

    /// Gives the step under way its quantiles, if its edges are edges of seconds.
    fn close(&mut self) {
        let row = &mut self.rows[self.position];
        let is_whole = row.start_s.fract() == 0.0 && row.end_s.fract() == 0.0;
        let latencies = &self.latencies;
        let at = |kind, quantile| {
            let value = latencies.of(kind).quantile(quantile).map(millis);
            value.filter(|_| is_whole)
        };
        row.lateness_p50_ms = at(LatencyKind::Lateness, 0.50);
        row.lateness_p99_ms = at(LatencyKind::Lateness, 0.99);
        row.accept_p50_ms = at(LatencyKind::AcceptResponse, 0.50);
        row.accept_p95_ms = at(LatencyKind::AcceptResponse, 0.95);
        row.accept_p99_ms = at(LatencyKind::AcceptResponse, 0.99);
        row.service_p50_ms = at(LatencyKind::AcceptService, 0.50);
        row.service_p99_ms = at(LatencyKind::AcceptService, 0.99);
        row.commit_p50_ms = at(LatencyKind::CommitFromDue, 0.50);
        row.commit_p95_ms = at(LatencyKind::CommitFromDue, 0.95);
        row.commit_p99_ms = at(LatencyKind::CommitFromDue, 0.99);
        self.latencies.clear();
        self.position += 1;
    }
}

fn add_step(sum: &mut StepRow, row: &StepRow) {
    sum.end_s = sum.end_s.max(row.end_s);
    sum.offered += row.offered;
    sum.sent += row.sent;
    sum.unsent += row.unsent;
    sum.accepted += row.accepted;
    sum.rejected += row.rejected;
    sum.errors += row.errors;
    sum.committed += row.committed;
    sum.commit_failed += row.commit_failed;
    sum.late_schedule += row.late_schedule;
    sum.late_source += row.late_source;
    sum.late_connection += row.late_connection;
    sum.late_node += row.late_node;
    sum.in_flight += row.in_flight;
    sum.in_flight_growth += row.in_flight_growth;
    sum.backlog += row.backlog;
    sum.backlog_growth += row.backlog_growth;
    sum.mempool_txs = sum.mempool_txs.max(row.mempool_txs);
    sum.lateness_max_ms = most(sum.lateness_max_ms, row.lateness_max_ms);
}

/// Rates follow from counts; blocks are counted once.
fn finish_step(row: &mut StepRow, blocks: &[BlockRow]) {
    let length_s = row.end_s - row.start_s;
    let rate = |count: u64| (length_s > 0.0).then(|| count as f64 / length_s);
    row.offered_tps = rate(row.offered);
    row.sent_tps = rate(row.sent);
    row.accepted_tps = rate(row.accepted);
    row.blocks = observed(blocks, row.start_s, row.end_s).count() as u64;
    let mut span = BlockSpan::default();
    for block in observed(blocks, row.start_s, row.end_s) {
        let committed = block.own_txs.saturating_sub(block.own_failed);
        span.add(&BlockSpan::one(
            Nanos::from_nanos(block.observed_ns),
            committed,
        ));
    }
    row.committed_tps = span.rate();
}

/// The blocks observed in a span of time, in the order of their heights.
fn observed(blocks: &[BlockRow], start_s: f64, end_s: f64) -> impl Iterator<Item = &BlockRow> {
    let at = |block: &BlockRow| block.observed_ns as f64 / 1e9;
    let first = blocks.partition_point(|block| at(block) < start_s);
    blocks[first..]
        .iter()
        .take_while(move |block| at(block) < end_s)
}

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

/// As many as a run's own summary keeps.
const MAX_STEP_ROWS: usize = 10_000;
