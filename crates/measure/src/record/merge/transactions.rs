//! The transactions of all parts, merged by the instants at which their fates became final, and the steps of the whole.

use std::collections::BTreeMap;
use std::io::BufRead;

use pacing::Nanos;

use super::part::Unfinished;
use super::part::{MergePart, PartError};
use crate::format::counts::{AddUp as _, Counts, raise};
use crate::format::latency::LatencySet;
use crate::format::manifest::Manifest;
use crate::format::read::{ReadError, TxReader, TxRow};
use crate::format::rows::{BlockRow, LatencyColumns, StepRow};
use crate::format::windows::{SHORT, Windows, WorstWindows};
use crate::record::answers::Answers;
use crate::record::files::Files;
use crate::record::recorder::growth;
use crate::stats::block_span::{BlockSpan, observed};

/// Merges `txs.csv` and compares what was sent in each window with what was due in it.
pub(super) fn join<R: BufRead>(
    parts: &mut [MergePart<R>],
    manifest: &Manifest,
    (unfinished, files): (Option<&mut Unfinished>, &mut Files<'_>),
) -> Result<WorstWindows, PartError> {
    let mut streams = Vec::with_capacity(parts.len());
    let offered_s = |part: &MergePart<R>| Some(part.summary.as_ref()?.time.offered_s);
    let until = parts.iter().filter_map(offered_s).fold(0.0, f64::max);
    let mut sends = Sends::new(until, manifest, unfinished);
    for (position, part) in parts.iter_mut().enumerate() {
        let endpoints = positions(&part.manifest, manifest);
        let mut stream = Stream::new(part, manifest.origin_unix_ns, endpoints);
        stream
            .advance(&mut sends)
            .map_err(|error| (position, error))?;
        streams.push(stream);
    }
    loop {
        let next = (0..streams.len())
            .filter(|position| !streams[*position].ended)
            .min_by_key(|position| streams[*position].settled);
        let Some(next) = next else {
            break;
        };
        files.txs.rows.extend_from_slice(&streams[next].row);
        files.relieve_txs();
        streams[next]
            .advance(&mut sends)
            .map_err(|error| (next, error))?;
    }
    drop(streams);
    if !sends.is_each {
        parts
            .iter()
            .for_each(|part| sends.add_answers(part, manifest));
    }
    files.write_answers(&sends.answers);
    Ok(sends.worst())
}

/// Where each endpoint of a part is in the whole.
pub(super) fn positions(part: &Manifest, whole: &Manifest) -> Vec<u16> {
    let place = |url: &str| {
        (0..)
            .zip(&whole.endpoints)
            .find(|(_, known)| known.url == url)
    };
    let places = part.endpoints.iter().map(|endpoint| place(&endpoint.url));
    places
        .map(|found| found.map_or(0, |(place, _)| place))
        .collect()
}

/// The rows of one part, one ahead.
struct Stream<'a, R> {
    reader: Option<&'a mut TxReader<R>>,
    origin_unix_us: u64,
    endpoints: Vec<u16>,
    /// Rows that are still to come, by the part's summary.
    missing: u64,
    /// The next row with its line break.
    row: Vec<u8>,
    /// When its fate became final.
    settled: Nanos,
    ended: bool,
}

impl<'a, R: BufRead> Stream<'a, R> {
    fn new(part: &'a mut MergePart<R>, origin_unix_ns: u64, endpoints: Vec<u16>) -> Self {
        let summary = part.summary.as_ref();
        let is_each = part.manifest.plan.rows.is_each();
        let whole = summary.filter(|it| is_each && it.recorder.incomplete_files.is_empty());
        Self {
            reader: part.txs.as_mut(),
            origin_unix_us: origin_unix_ns / 1_000,
            endpoints,
            missing: whole.map_or(0, |summary| summary.fate.sent),
            row: Vec::new(),
            settled: Nanos::ZERO,
            ended: false,
        }
    }

    fn advance(&mut self, sends: &mut Sends<'_>) -> Result<(), ReadError> {
        let row = match &mut self.reader {
            Some(reader) => reader.next_row()?,
            None => None,
        };
        let Some(row) = row else {
            self.ended = true;
            return match self.missing {
                0 => Ok(()),
                missing => Err(ReadError::Content(format!(
                    "txs.csv lacks {missing} of the rows that the run wrote: it was cut off later; copy the folder again"
                ))),
            };
        };
        self.missing = self.missing.saturating_sub(1);
        self.settled = settled(&row, self.origin_unix_us);
        let place = self.endpoints.get(usize::from(row.endpoint));
        let endpoint = place.copied().unwrap_or_default();
        sends.count(&TxRow { endpoint, ..row });
        self.row.clear();
        if let Some(reader) = &self.reader {
            reader.copy_row(endpoint, &mut self.row);
        }
        Ok(())
    }
}

fn settled(row: &TxRow<'_>, origin_unix_us: u64) -> Nanos {
    let error = row
        .error_unix_us
        .map(|at| Nanos::from_micros(at.saturating_sub(origin_unix_us)));
    // Unanswered ones are settled at the very end.
    row.committed
        .max(row.accepted)
        .max(error)
        .unwrap_or(Nanos::MAX)
}

/// What was due and what was sent in each short window of the offering, and what was answered.
struct Sends<'a> {
    due: Vec<u32>,
    sent: Vec<u32>,
    answers: Answers,
    /// Whether each transaction has a row, so that rows are all that is needed.
    is_each: bool,
    origin_unix_ns: u64,
    unfinished: Option<&'a mut Unfinished>,
}

impl<'a> Sends<'a> {
    fn new(offered_s: f64, manifest: &Manifest, unfinished: Option<&'a mut Unfinished>) -> Self {
        let is_each = manifest.plan.rows.is_each();
        let windows = (offered_s * 1e9 / SHORT.as_nanos() as f64).ceil() as usize;
        let windows = if is_each { windows.min(MAX_WINDOWS) } else { 0 };
        Self {
            due: vec![0; windows],
            sent: vec![0; windows],
            answers: Answers::default(),
            is_each,
            origin_unix_ns: manifest.origin_unix_ns,
            unfinished,
        }
    }

    /// Takes in what a part counted of all, whatever rows it kept.
    fn add_answers<R>(&mut self, part: &MergePart<R>, manifest: &Manifest) {
        let endpoints = positions(&part.manifest, manifest);
        for row in &part.answers {
            let endpoint = endpoints.get(usize::from(row.endpoint));
            self.answers.add(row, endpoint.copied().unwrap_or_default());
        }
    }

    fn count(&mut self, row: &TxRow<'_>) {
        if !self.is_each {
            return;
        }
        self.answers.row(row, self.origin_unix_ns);
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.tx(row);
        }
        let window = |at: Nanos| (at.as_nanos() / SHORT.as_nanos()) as usize;
        if let Some(due) = self.due.get_mut(window(row.due)) {
            *due += 1;
        }
        if let Some(sent) = self.sent.get_mut(window(row.sent)) {
            *sent += 1;
        }
    }

    fn worst(&self) -> WorstWindows {
        let mut windows = Windows::default();
        let mut due_before = 0;
        for (window, (due, sent)) in self.due.iter().zip(&self.sent).enumerate() {
            let at = Nanos::from_nanos(window as u64 * SHORT.as_nanos());
            (0..*sent).for_each(|_| windows.sent(at));
            due_before += u64::from(*due);
            windows.close(Some(due_before));
        }
        windows.worst()
    }
}

/// The steps of all parts, and the latencies of the one under way.
pub(super) struct Steps {
    pub(super) rows: Vec<StepRow>,
    position: usize,
    latencies: LatencySet,
    /// Whether rows are of several parts: then their quantiles, rates and silences are worked out anew.
    pub(super) of_several: bool,
    /// Whether silences are those of all parts together; the rows of earlier versions have each part's own.
    joins_gaps: bool,
}

impl Steps {
    pub(super) fn new<R: BufRead>(
        parts: &mut [MergePart<R>],
        blocks: &[BlockRow],
    ) -> Result<Self, PartError> {
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
    pub(super) fn join_gaps(&mut self) {
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
    pub(super) fn add(&mut self, start_s: f64, latencies: &LatencySet) {
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

    pub(super) fn finish(mut self) -> Vec<StepRow> {
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

/// The nearest instant.
pub(super) fn nanos(seconds: f64) -> Nanos {
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

/// Where something waited in one part, it waited in the whole.
pub(super) fn add_names(names: &mut String, more: &str) {
    for name in more.split_terminator(' ') {
        if !names.split(' ').any(|known| known == name) {
            names.push_str(if names.is_empty() { "" } else { " " });
            names.push_str(name);
        }
    }
}

/// A day of windows takes 69 MB; what comes later is not compared.
const MAX_WINDOWS: usize = 8_640_000;
