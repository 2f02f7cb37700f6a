//! The course of the whole: blocks, seconds, steps and latencies.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::iter::Peekable;

use pacing::Nanos;

use super::silences::Silences;
use super::unfinished::Unfinished;
use super::{MergePart, PartError};
use crate::format::SECOND;
use crate::format::counts::{AddUp as _, Counts, raise};
use crate::format::hlog::HlogWriter;
use crate::format::latency::LatencySet;
use crate::format::manifest::Manifest;
use crate::format::read::{HlogReader, ReadError, RowReader};
use crate::format::rows::{BlockRow, LatencyColumns, SeriesRow, StepRow};
use crate::record::account::{MAX_STEP_ROWS, Seconds};
use crate::record::files::Files;
use crate::record::recorder::growth;
use crate::stats::block_span::{BlockSpan, observed};

/// What the seconds and steps add up to.
#[derive(Default)]
pub(super) struct Course {
    pub(super) steps: Vec<StepRow>,
    pub(super) steps_omitted: u64,
    /// Of everything after the warm-up.
    pub(super) latencies: LatencySet,
    /// Ages of what had not ended.
    pub(super) censored: LatencySet,
    pub(super) seconds: Seconds,
    /// Of a run that was killed.
    pub(super) unfinished: Option<Unfinished>,
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
        files.blocks.push(block);
    }
    files.flush();
    Ok(blocks.into_values().collect())
}

fn add_block(block: &mut BlockRow, other: &BlockRow) {
    if other.observed_ns < block.observed_ns {
        block.observed_ns = other.observed_ns;
        block.resolution_ms = other.resolution_ms;
    }
    block.interval_ms = block.interval_ms.or(other.interval_ms);
    block.own_txs += other.own_txs;
    block.own_failed += other.own_failed;
    block.own_unverified += other.own_unverified;
    block.gas_wanted = block.gas_wanted.or(other.gas_wanted);
    block.gas_used = block.gas_used.or(other.gas_used);
    raise(&mut block.commit_max_ms, &other.commit_max_ms);
}

/// Joins seconds, intervals and steps, in the order of time.
pub(super) fn join<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    (blocks, manifest): (&[BlockRow], &Manifest),
    files: &mut Files<W>,
) -> Result<Course, PartError> {
    let (warmup_s, block_gas) = (
        manifest.plan.warmup.as_secs_f64(),
        manifest.limits.block_gas,
    );
    let mut steps = Steps::new(parts, blocks)?;
    let mut silences = Silences::new(parts, manifest);
    let is_killed = parts.iter().any(|part| part.summary.is_none());
    let mut unfinished = is_killed.then(|| Unfinished::new(manifest, &steps.rows));
    let mut seconds: Vec<_> = Vec::new();
    let mut intervals: Vec<_> = Vec::new();
    for part in parts.iter_mut() {
        seconds.push(part.series.by_ref().peekable());
        intervals.push(Intervals::new(&mut part.hlog));
    }
    let tells = |row: &SeriesRow| !row.signs.is_empty();
    let mut firsts = seconds.iter_mut().filter_map(Peekable::peek);
    if steps.of_several && firsts.all(|row| row.as_ref().is_ok_and(tells)) {
        steps.join_gaps();
    }
    let mut course = Course::default();
    let mut writer = HlogWriter::new();
    while let Some(second) = earliest(&mut seconds)? {
        let mut row = add_seconds(&mut seconds, second, &mut silences)?;
        let end_s = second as f64 + row.span_s;
        let latencies = add_intervals(&mut intervals, end_s)?;
        let seen = || observed(blocks, second as f64, end_s);
        row.counts.blocks = seen()
            .inspect(|block| course.seconds.block(block, block_gas))
            .count() as u64;
        row.latency = LatencyColumns {
            at_least: row.latency.at_least,
            ..LatencyColumns::of(&latencies)
        };
        let start = SECOND.saturating_mul(second);
        let end = nanos(end_s);
        silences.second(&mut row, (start, end), seen(), &mut steps);
        files.series.push(&row);
        writer.write(&latencies, start, end, &mut files.hlog.rows);
        if second as f64 >= warmup_s {
            course.latencies.merge(&latencies);
        }
        steps.add(second as f64, &latencies);
        course.seconds.push(&row);
        if let Some(unfinished) = &mut unfinished {
            unfinished.second(&row);
        }
        files.flush();
    }
    let mut ended_s = 0.0;
    for part in parts.iter() {
        course.censored.merge(part.hlog.censored());
        let part_ended_s = part.summary.as_ref().map_or(0.0, |it| it.time.ended_s);
        raise(&mut ended_s, &part_ended_s);
    }
    writer.write_censored(&course.censored, nanos(ended_s), &mut files.hlog.rows);
    let underway = unfinished.as_ref().and_then(|it| it.step_underway(blocks));
    course.unfinished = unfinished;
    for step in steps.finish().into_iter().chain(underway) {
        files.steps.push(&step);
        if course.steps.len() < MAX_STEP_ROWS {
            course.steps.push(step);
        } else {
            course.steps_omitted += 1;
        }
    }
    Ok(course)
}

/// The rows of one part's series, one ahead.
type Series<'a, R> = Peekable<&'a mut RowReader<R, SeriesRow>>;

/// The earliest second that comes next in any part.
fn earliest<R: BufRead>(series: &mut [Series<'_, R>]) -> Result<Option<u64>, PartError> {
    let mut earliest: Option<u64> = None;
    for (position, part) in series.iter_mut().enumerate() {
        match part.next_if(Result::is_err) {
            Some(Err(error)) => return Err((position, error)),
            _ => {
                if let Some(Ok(row)) = part.peek() {
                    earliest = Some(earliest.map_or(row.second, |second| second.min(row.second)));
                }
            }
        }
    }
    Ok(earliest)
}

/// The sum of all parts' rows of a second.
fn add_seconds<R: BufRead>(
    series: &mut [Series<'_, R>],
    second: u64,
    silences: &mut Silences<'_>,
) -> Result<SeriesRow, PartError> {
    let mut sum: Option<SeriesRow> = None;
    for (position, part) in series.iter_mut().enumerate() {
        let is_here =
            |row: &Result<SeriesRow, ReadError>| row.as_ref().is_ok_and(|row| row.second == second);
        let Some(row) = part.next_if(is_here) else {
            continue;
        };
        let mut row = row.map_err(|error| (position, error))?;
        silences.take(position, &mut row);
        match &mut sum {
            None => sum = Some(row),
            Some(sum) => sum.join(&row),
        }
    }
    Ok(sum.unwrap_or_default())
}

impl SeriesRow {
    /// Adds the same second of another generator. Each saw the same blocks: their count is left as it is.
    pub fn join(&mut self, row: &Self) {
        let blocks = self.counts.blocks.max(row.counts.blocks);
        self.mempool_min = match (self.mempool_min, row.mempool_min) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.add_up(row);
        self.counts.blocks = blocks;
        self.add_silent(&row.silent);
        add_names(&mut self.latency.at_least, &row.latency.at_least);
        self.step = self.step.or(row.step);
        // The same mark may have been sent to all generators.
        if !row.mark.is_empty() && row.mark != self.mark {
            add_joined(&mut self.mark, &row.mark);
        }
    }

    pub(super) fn add_silent(&mut self, more: &str) {
        if !more.is_empty() {
            add_joined(&mut self.silent, more);
        }
    }
}

/// What people read, joined by `; `.
fn add_joined(text: &mut String, more: &str) {
    text.push_str(if text.is_empty() { "" } else { "; " });
    text.push_str(more);
}

/// Where something waited in one part, it waited in the whole.
fn add_names(names: &mut String, more: &str) {
    for name in more.split_terminator(' ') {
        if !names.split(' ').any(|known| known == name) {
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(name);
        }
    }
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
pub(super) struct Steps {
    rows: Vec<StepRow>,
    position: usize,
    latencies: LatencySet,
    /// Whether rows are of several parts: then their quantiles, rates and silences are worked out anew.
    of_several: bool,
    /// Whether silences are those of all parts together; the rows of earlier versions have each part's own.
    joins_gaps: bool,
}

impl Steps {
    fn new<R: BufRead>(parts: &mut [MergePart<R>], blocks: &[BlockRow]) -> Result<Self, PartError> {
        let mut rows: BTreeMap<u32, StepRow> = BTreeMap::new();
        for (position, part) in parts.iter_mut().enumerate() {
            for row in &mut part.steps {
                let row = row.map_err(|error| (position, error))?;
                match rows.get_mut(&row.step) {
                    Some(step) => {
                        // A step that was not awaited in one part was not awaited in the whole.
                        let awaited = step.awaited_s.zip(row.awaited_s);
                        step.awaited_s = awaited.map(|(one, other)| one.max(other));
                        step.add_up(&row);
                        add_names(&mut step.latency.at_least, &row.latency.at_least);
                        raise(
                            &mut step.latency.lateness_max_ms,
                            &row.latency.lateness_max_ms,
                        );
                    }
                    None => {
                        rows.insert(row.step, row);
                    }
                }
            }
        }
        let of_several = parts.len() > 1;
        let mut total = Counts::default();
        let rows = rows.into_values().map(|row| {
            if of_several {
                of_whole(row, &mut total, blocks)
            } else {
                row
            }
        });
        Ok(Self {
            rows: rows.collect(),
            position: 0,
            latencies: LatencySet::new(),
            of_several,
            joins_gaps: false,
        })
    }

    /// Forgets the silences of each part: those of the whole follow.
    fn join_gaps(&mut self) {
        self.joins_gaps = true;
        for row in &mut self.rows {
            (row.answer_gap_s, row.block_gap_s) = (0.0, 0.0);
        }
    }

    /// The step at an instant or the next one after it.
    fn at(&mut self, at: Nanos) -> Option<&mut StepRow> {
        let mut rows = self.rows[self.position..].iter_mut();
        rows.find(|row| nanos(row.end_s) > at)
    }

    /// The first edge of a step after an instant.
    pub(super) fn edge_after(&mut self, at: Nanos) -> Nanos {
        let Some(row) = self.at(at) else {
            return Nanos::MAX;
        };
        let edges = [nanos(row.start_s), nanos(row.end_s)];
        let next = edges.into_iter().find(|edge| *edge > at);
        next.unwrap_or(Nanos::MAX)
    }

    /// Takes how long no answer and no block came, of a stretch that begins here and passes no edge.
    pub(super) fn add_gaps(&mut self, from: Nanos, answers: Nanos, blocks: Nanos) {
        if !self.joins_gaps {
            return;
        }
        if let Some(row) = self.at(from).filter(|row| nanos(row.start_s) <= from) {
            raise(&mut row.answer_gap_s, &answers.as_secs_f64());
            raise(&mut row.block_gap_s, &blocks.as_secs_f64());
        }
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
        self.position += 1;
        if !self.of_several {
            return;
        }
        let row = &mut self.rows[self.position - 1];
        let is_whole = row.start_s.fract() == 0.0 && row.end_s.fract() == 0.0;
        row.latency = LatencyColumns {
            lateness_max_ms: row.latency.lateness_max_ms,
            at_least: std::mem::take(&mut row.latency.at_least),
            ..if is_whole {
                LatencyColumns::of(&self.latencies)
            } else {
                LatencyColumns::default()
            }
        };
        self.latencies.clear();
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos::from_nanos((seconds * 1e9).round() as u64)
}

/// Rates follow from counts, and what waits from those of all steps so far; blocks are counted once.
fn of_whole(mut row: StepRow, total: &mut Counts, blocks: &[BlockRow]) -> StepRow {
    let (in_flight, backlog) = (total.in_flight(), total.backlog());
    total.add_up(&row.counts);
    (row.in_flight, row.backlog) = (total.in_flight(), total.backlog());
    row.in_flight_growth = growth(row.in_flight, in_flight);
    row.backlog_growth = growth(row.backlog, backlog);
    let observed = || observed(blocks, row.start_s, row.end_s);
    row.counts.blocks = observed().count() as u64;
    let committed_tps = BlockSpan::of(observed()).rate();
    row.with_rates(committed_tps)
}
