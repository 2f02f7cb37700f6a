//! The course of the whole: blocks, seconds, steps and latencies; and what no part knows alone: what waits in all of
//! them together, and that an endpoint, or the whole target, gave no sign meanwhile.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::iter::Peekable;

use pacing::Nanos;

use super::part::Unfinished;
use super::part::{MergePart, PartError};
use super::transactions::{Steps, add_names, nanos, positions};
use crate::format::SECOND;
use crate::format::counts::{AddUp as _, Counts, raise};
use crate::format::hlog::HlogWriter;
use crate::format::latency::LatencySet;
use crate::format::manifest::Manifest;
use crate::format::read::{HlogReader, ReadError, RowReader};
use crate::format::rows::{BlockRow, LatencyColumns, SeriesRow, StepRow};
use crate::judge::{EndpointSigns, EndpointWatch};
use crate::record::account::{MAX_STEP_ROWS, Seconds};
use crate::record::files::Files;
use crate::stats::block_span::observed;
use crate::stats::silence::{Silence, Tenths};

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

impl Course {
    fn take(&mut self, step: StepRow) {
        if self.steps.len() < MAX_STEP_ROWS {
            self.steps.push(step);
        } else {
            self.steps_omitted += 1;
        }
    }
}

/// Every block once, as the first generator that saw it recorded it; written and given back.
pub(super) fn blocks<R: BufRead>(
    parts: &mut [MergePart<R>],
    files: &mut Files<'_>,
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
pub(super) fn join<R: BufRead>(
    parts: &mut [MergePart<R>],
    (blocks, manifest): (&[BlockRow], &Manifest),
    files: &mut Files<'_>,
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
        course.take(step);
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
        // What is unknown to one generator that takes samples may be the fullest mempool of all.
        let is_known = |it: &Self| it.mempool_txs.is_some() || it.mempool_max.is_none();
        let all_known = is_known(self) && is_known(row);
        self.add_up(row);
        if !all_known {
            (self.mempool_txs, self.mempool_bytes) = (None, None);
        }
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

/// Watches the endpoints of all parts.
struct Silences<'a> {
    names: Vec<&'a str>,
    /// Where each part's endpoints are in the whole.
    positions: Vec<Vec<u16>>,
    endpoints: EndpointWatch,
    answers: Silence,
    blocks: Silence,
    /// Of all seconds so far.
    counts: Counts,
    /// Of the second under way.
    signs: EndpointSigns,
}

impl<'a> Silences<'a> {
    fn new<R>(parts: &[MergePart<R>], whole: &'a Manifest) -> Self {
        let positions = parts.iter().map(|part| positions(&part.manifest, whole));
        let names = whole.endpoints.iter().map(|endpoint| &endpoint.url[..]);
        Self {
            positions: positions.collect(),
            endpoints: EndpointWatch::default(),
            answers: Silence::default(),
            blocks: Silence::default(),
            counts: Counts::default(),
            signs: EndpointSigns::of(whole.endpoints.len()),
            names: names.collect(),
        }
    }

    /// Takes from the row of a part's second what is judged of all parts together. The rows of earlier versions keep
    /// what their generator found.
    fn take(&mut self, part: usize, row: &mut SeriesRow) {
        if let Some(signs) = EndpointSigns::read(&row.signs) {
            self.signs.add(&signs, &self.positions[part]);
            row.silent.clear();
        }
    }

    /// Ends the second with the sum of its rows, in which these blocks were seen.
    fn second<'b>(
        &mut self,
        row: &mut SeriesRow,
        (start, end): (Nanos, Nanos),
        blocks: impl Iterator<Item = &'b BlockRow>,
        steps: &mut Steps,
    ) {
        let none = EndpointSigns::of(self.names.len());
        let signs = std::mem::replace(&mut self.signs, none);
        row.signs = signs.to_string();
        let names = self.names.iter().copied();
        let silent = self.endpoints.second((start, end), &signs, names);
        row.add_silent(&silent);
        self.counts.add_up(&row.counts);
        // A block may have a transaction before its answer came: what one part lacks stands against what another has.
        (row.in_flight, row.backlog) = (self.counts.in_flight(), self.counts.backlog());
        let waiting = self.counts.in_flight() + self.counts.unsent_yet();
        let seen = Tenths::at(blocks.map(|block| Nanos::from_nanos(block.observed_ns)));
        let mut from = start;
        while from < end {
            let until = steps.edge_after(from).min(end);
            let answers = self.answers.pass(from, until, signs.answers(), waiting);
            let blocks = self.blocks.pass(from, until, seen, row.backlog);
            steps.add_gaps(from, answers, blocks);
            from = until;
        }
    }
}
