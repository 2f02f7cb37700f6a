//! The transactions of all parts, merged by the instants at which their fates became final.

use std::io::{BufRead, Write};

use pacing::Nanos;

use super::{MergePart, PartError};
use crate::answers::Answers;
use crate::files::Files;
use crate::manifest::Manifest;
use crate::read::{ReadError, TxReader, TxRow};
use crate::windows::{SHORT, Windows, WorstWindows};

/// Merges `txs.csv` and compares what was sent in each window with what was due in it.
pub(super) fn join<R: BufRead, W: Write>(
    parts: &mut [MergePart<R>],
    manifest: &Manifest,
    files: &mut Files<W>,
) -> Result<WorstWindows, PartError> {
    let mut streams = Vec::with_capacity(parts.len());
    let until = parts.iter().map(|part| part.summary.time.offered_s);
    let mut sends = Sends::new(until.fold(0.0, f64::max), manifest.origin_unix_ns);
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
            files.write_answers(&sends.answers);
            return Ok(sends.worst());
        };
        files.txs.rows.extend_from_slice(&streams[next].row);
        files.relieve_txs();
        streams[next]
            .advance(&mut sends)
            .map_err(|error| (next, error))?;
    }
}

/// Where each endpoint of a part is in the whole.
fn positions(part: &Manifest, whole: &Manifest) -> Vec<u16> {
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
    reader: &'a mut TxReader<R>,
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
        let is_known = !part.summary.recorder.incomplete_files.is_empty();
        Self {
            reader: &mut part.txs,
            origin_unix_us: origin_unix_ns / 1_000,
            endpoints,
            missing: if is_known { 0 } else { part.summary.fate.sent },
            row: Vec::new(),
            settled: Nanos::ZERO,
            ended: false,
        }
    }

    fn advance(&mut self, sends: &mut Sends) -> Result<(), ReadError> {
        let Some(row) = self.reader.next_row()? else {
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
        self.reader.copy_row(endpoint, &mut self.row);
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
struct Sends {
    due: Vec<u32>,
    sent: Vec<u32>,
    answers: Answers,
    origin_unix_ns: u64,
}

impl Sends {
    fn new(offered_s: f64, origin_unix_ns: u64) -> Self {
        let windows = (offered_s * 1e9 / SHORT.as_nanos() as f64).ceil() as usize;
        let windows = windows.min(MAX_WINDOWS);
        Self {
            due: vec![0; windows],
            sent: vec![0; windows],
            answers: Answers::default(),
            origin_unix_ns,
        }
    }

    fn count(&mut self, row: &TxRow<'_>) {
        self.answers.row(row, self.origin_unix_ns);
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
