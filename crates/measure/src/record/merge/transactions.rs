//! The transactions of all parts, merged by the instants at which their fates became final.

use std::io::{BufRead, Write};

use pacing::Nanos;

use super::part::{MergePart, PartError};
use super::unfinished::Unfinished;
use crate::format::manifest::Manifest;
use crate::format::read::{ReadError, TxReader, TxRow};
use crate::format::windows::{SHORT, Windows, WorstWindows};
use crate::record::answers::Answers;
use crate::record::files::Files;

/// Merges `txs.csv` and compares what was sent in each window with what was due in it.
pub(super) fn join<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    manifest: &Manifest,
    (unfinished, files): (Option<&mut Unfinished>, &mut Files<W>),
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

/// A day of windows takes 69 MB; what comes later is not compared.
const MAX_WINDOWS: usize = 8_640_000;
