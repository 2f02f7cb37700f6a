//! The files of the run folder behind `io::Write`: whole rows only, and the first error remembered.

use std::io::{self, Write};

use crate::format::rows::{BlockRow, SeriesRow, StepRow, TXS_HEADER, TableRow, write_row};
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
    #[error("{}", base::unwritten(.file, .source))]
    Write {
        /// The file's name inside the run folder.
        file: &'static str,
        /// What the writer said.
        source: io::Error,
    },
}

/// Every file, and the first error among them.
#[derive(Debug)]
pub(crate) struct Files<W> {
    pub(crate) txs: Sink<W>,
    pub(crate) answers: Sink<W>,
    pub(crate) series: Sink<W>,
    pub(crate) steps: Sink<W>,
    pub(crate) blocks: Sink<W>,
    pub(crate) hlog: Sink<W>,
    error: Option<RecordError>,
}

impl<W: Write> Files<W> {
    /// Wraps the writers and writes the header rows.
    pub(crate) fn new(writers: RunFolderWriters<W>, hlog_header: &str) -> Self {
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

    const fn each(&self) -> [&Sink<W>; 6] {
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
#[derive(Debug)]
pub(crate) struct Sink<W> {
    name: &'static str,
    writer: W,
    /// Rows that are not written yet.
    pub(crate) rows: Vec<u8>,
    broken: bool,
}

impl<W: Write> Sink<W> {
    fn new(name: &'static str, writer: W, header: &str) -> Self {
        Self {
            name,
            writer,
            rows: header.as_bytes().to_vec(),
            broken: false,
        }
    }

    fn of_table<T: TableRow>(writer: W) -> Self {
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
