//! The files of the run folder behind `io::Write`: whole rows only, and the first error remembered. Rows of `txs.csv`
//! are written from the pending record.

use std::io::{self, Write};

use pacing::Nanos;

use super::pending::{NEVER, Record, RecordState};
use crate::format::event::TxHash;
use crate::format::rows::{BlockRow, IdText, SeriesRow, StepRow, TXS_HEADER, TableRow, write_row};
use crate::record::answers::{AnswerRow, Answers};

/// Where each file goes. Give unbuffered writers: rows are gathered here, and written whole once a
/// second at the latest, so that a killed run leaves files that end with a complete row.
#[derive(Debug)]
pub struct RunFolderWriters<W> {
    /// `txs.csv`.
    pub txs: W,
    /// `answers.csv`.
    pub answers: W,
    /// `series.csv`.
    pub series: W,
    /// `steps.csv`.
    pub steps: W,
    /// `blocks.csv`.
    pub blocks: W,
    /// `latency.hlog`.
    pub hlog: W,
}

/// What went wrong with the record of a run. The counts in memory are not affected.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be written on; it ends with the last complete block of rows.
    #[error("{}", base::write_failure(.file, .source))]
    Write {
        /// The file's name inside the run folder.
        file: &'static str,
        /// The writer's error.
        source: io::Error,
    },
}

/// Every file, and the first error among them.
pub(crate) struct Files<'a> {
    pub(crate) txs: Sink<'a>,
    pub(crate) answers: Sink<'a>,
    pub(crate) series: Sink<'a>,
    pub(crate) steps: Sink<'a>,
    pub(crate) blocks: Sink<'a>,
    pub(crate) hlog: Sink<'a>,
    error: Option<RecordError>,
}

impl<'a> Files<'a> {
    /// Wraps the writers and writes the header rows.
    pub(crate) fn new(
        writers: RunFolderWriters<impl Write + Send + 'a>,
        hlog_header: &str,
    ) -> Self {
        let mut files = Self {
            txs: Sink::new("txs.csv", writers.txs, TXS_HEADER),
            answers: Sink::of_table::<AnswerRow>(writers.answers),
            series: Sink::of_table::<SeriesRow>(writers.series),
            steps: Sink::of_table::<StepRow>(writers.steps),
            blocks: Sink::of_table::<BlockRow>(writers.blocks),
            hlog: Sink::new("latency.hlog", writers.hlog, hlog_header),
            error: None,
        };
        files.flush();
        files
    }

    /// Hands every gathered row to its writer.
    pub(crate) fn flush(&mut self) {
        let error = &mut self.error;
        for sink in [
            &mut self.txs,
            &mut self.answers,
            &mut self.series,
            &mut self.steps,
            &mut self.blocks,
            &mut self.hlog,
        ] {
            sink.flush(error);
        }
    }

    /// Hands the gathered rows of transactions to their writer when there are enough of them.
    pub(crate) fn relieve_txs(&mut self) {
        if self.txs.rows.len() >= RELIEVE_AT {
            self.txs.flush(&mut self.error);
        }
    }

    /// Gathers the rows of `answers.csv`, once all are counted.
    pub(crate) fn write_answers(&mut self, answers: &Answers) {
        answers.rows().for_each(|row| self.answers.push(&row));
    }

    pub(crate) const fn error(&self) -> Option<&RecordError> {
        self.error.as_ref()
    }

    pub(crate) fn incomplete(&self) -> Vec<String> {
        let broken = self.each().into_iter().filter(|sink| sink.broken);
        broken.map(|sink| sink.name.to_owned()).collect()
    }

    /// Bytes held by rows that are not written yet.
    pub(crate) fn bytes(&self) -> usize {
        self.each().iter().map(|sink| sink.rows.capacity()).sum()
    }

    const fn each(&self) -> [&Sink<'a>; 6] {
        [
            &self.txs,
            &self.answers,
            &self.series,
            &self.steps,
            &self.blocks,
            &self.hlog,
        ]
    }

    pub(crate) fn into_error(self) -> Option<RecordError> {
        self.error
    }
}

/// One file.
pub(crate) struct Sink<'a> {
    name: &'static str,
    writer: Box<dyn Write + Send + 'a>,
    /// Rows that are not written yet.
    pub(crate) rows: Vec<u8>,
    broken: bool,
}

impl<'a> Sink<'a> {
    fn new(name: &'static str, writer: impl Write + Send + 'a, header: &str) -> Self {
        Self {
            name,
            writer: Box::new(writer),
            rows: header.as_bytes().to_vec(),
            broken: false,
        }
    }

    fn of_table<T: TableRow>(writer: impl Write + Send + 'a) -> Self {
        Self::new(T::FILE, writer, T::HEADER)
    }

    /// Gathers a row of the table that this file holds.
    pub(crate) fn push(&mut self, row: &impl TableRow) {
        write_row(row, &mut self.rows);
    }

    /// After the first error the rest is dropped: a file must not have a hole.
    fn flush(&mut self, first_error: &mut Option<RecordError>) {
        if !self.rows.is_empty() && !self.broken {
            let written = self
                .writer
                .write_all(&self.rows)
                .and_then(|()| self.writer.flush());
            if let Err(source) = written {
                self.broken = true;
                first_error.get_or_insert(RecordError::Write {
                    file: self.name,
                    source,
                });
            }
        }
        self.rows.clear();
    }
}

/// Rows of transactions are written in blocks of this size.
const RELIEVE_AT: usize = 64 * 1024;

/// Formats rows, with times relative to the run's origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TxWriter {
    origin_unix_ns: u64,
    digits: &'static [u8; 16],
}

impl TxWriter {
    pub(crate) const fn new(origin_unix_ns: u64, ids: IdText) -> Self {
        Self {
            origin_unix_ns,
            digits: ids.digits(),
        }
    }

    pub(crate) fn write(self, record: &Record, out: &mut Vec<u8>) {
        let (accepted, error) = match record.state {
            RecordState::Accepted => (record.answered, NEVER),
            RecordState::Rejected | RecordState::RpcError | RecordState::Failed(_) => {
                (NEVER, record.answered)
            }
            RecordState::Unanswered | RecordState::Free => (NEVER, NEVER),
        };
        push_hex(out, &record.hash, self.digits);
        push_integer(out, u64::from(record.size));
        self.push_wall(out, record.sent);
        self.push_wall(out, accepted);
        self.push_wall(out, record.committed);
        self.push_wall(out, error);
        push_stamp(out, record.due);
        push_stamp(out, record.sent);
        push_stamp(out, accepted);
        push_stamp(out, record.committed);
        out.push(b',');
        if record.is_committed() {
            out.extend_from_slice(itoa::Buffer::new().format(record.height).as_bytes());
        }
        out.push(b',');
        let code = record.deciding_code();
        if let Some(code) = code {
            push_number(out, code.number);
        }
        push_integer(out, u64::from(record.endpoint));
        push_integer(out, u64::from(record.step));
        out.push(b',');
        // A code of 0 means the same in all of them.
        if let Some(code) = code.filter(|code| code.number != 0) {
            out.extend_from_slice(code.space.name().as_bytes());
        }
        out.push(b'\n');
    }

    /// Milliseconds since the Unix epoch, with three decimals.
    fn push_wall(self, out: &mut Vec<u8>, stamp: Nanos) {
        out.push(b',');
        if stamp == NEVER {
            return;
        }
        let micros = self.origin_unix_ns.saturating_add(stamp.as_nanos()) / 1_000;
        out.extend_from_slice(itoa::Buffer::new().format(micros / 1_000).as_bytes());
        let rest = (micros % 1_000) as u16;
        let digit = |value: u16| b'0' + (value % 10) as u8;
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }
}

fn push_hex(out: &mut Vec<u8>, hash: &TxHash, digits: &[u8; 16]) {
    let mut text = [0_u8; 64];
    // Without a table it is done for many bytes at once.
    let letters = digits[10] - b'9' - 1;
    for (pair, &byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(hash) {
        let digit = |value: u8| b'0' + value + if value > 9 { letters } else { 0 };
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    out.extend_from_slice(&text);
}

fn push_integer(out: &mut Vec<u8>, value: u64) {
    out.push(b',');
    push_number(out, value);
}

/// Most numbers of a row but its stamps have one digit.
fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer + TryInto<u8> + Copy) {
    match number.try_into() {
        Ok(digit @ 0..10) => out.push(b'0' + digit),
        _ => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

fn push_stamp(out: &mut Vec<u8>, stamp: Nanos) {
    out.push(b',');
    if stamp != NEVER {
        out.extend_from_slice(itoa::Buffer::new().format(stamp.as_nanos()).as_bytes());
    }
}
