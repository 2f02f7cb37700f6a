//! The records of a table, with the columns found by their names in the first line.

use std::io::BufRead;

use csv::{ByteRecord, DeserializeErrorKind, Error, ErrorKind};
use serde::Deserialize;

use super::lines::{Lines, WholeLines};
use crate::format::document::{FORMAT, ReadError};

/// Reads one record at a time into one buffer.
#[derive(Debug)]
pub(super) struct Table<R> {
    file: &'static str,
    reader: csv::Reader<WholeLines<R>>,
    header: ByteRecord,
    /// The columns are just those that were asked for, in their order: fields need no names.
    in_order: bool,
    record: ByteRecord,
}

impl<R: BufRead> Table<R> {
    /// Reads the first line, which must name every column of `required`; rows are read fastest where it names
    /// `all` and no others. An empty file is a table without rows: a run that was killed in its first second may
    /// leave one.
    pub(super) fn new(
        file: &'static str,
        reader: R,
        mut required: impl Iterator<Item = &'static str>,
        all: impl Iterator<Item = &'static str>,
    ) -> Result<Self, ReadError> {
        let lines = WholeLines::new(Lines::new(file, reader));
        let mut table = Self {
            file,
            reader: csv::Reader::from_reader(lines),
            header: ByteRecord::new(),
            in_order: false,
            record: ByteRecord::new(),
        };
        let header = table.reader.byte_headers().cloned();
        table.header = header.map_err(|error| table.error(error))?;
        table.in_order = all.map(str::as_bytes).eq(table.header.iter());
        let missing = required.find(|column| table.position(column).is_none());
        match missing {
            Some(column) if !table.header.is_empty() => Err(ReadError::Content(format!(
                "{file} has no column {column:?}; is it of a run of format {FORMAT}?"
            ))),
            _ => Ok(table),
        }
    }

    /// Where a column is.
    pub(super) fn position(&self, column: &str) -> Option<usize> {
        self.header
            .iter()
            .position(|name| name == column.as_bytes())
    }

    /// Goes to the next record; `false` at the end.
    pub(super) fn advance(&mut self) -> Result<bool, ReadError> {
        let found = self.reader.read_byte_record(&mut self.record);
        found.map_err(|error| self.error(error))
    }

    /// A field of the record; empty where the file has no such column.
    pub(super) fn field(&self, position: Option<usize>) -> &[u8] {
        position
            .and_then(|position| self.record.get(position))
            .unwrap_or_default()
    }

    /// The record as a struct whose fields are named like the columns.
    pub(super) fn deserialize<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ReadError> {
        let names = (!self.in_order).then_some(&self.header);
        let row = self.record.deserialize(names);
        row.map_err(|error| self.error(error))
    }

    /// Whether the last row was cut off and therefore left out.
    pub(super) fn is_torn(&self) -> bool {
        self.reader.get_ref().is_torn()
    }

    /// That a field of the record is not what its column holds.
    pub(super) fn bad_field(&self, position: Option<usize>, expected: &str) -> ReadError {
        let text = |field: &[u8]| -> String {
            String::from_utf8_lossy(field)
                .chars()
                .take(MAX_SHOWN)
                .collect()
        };
        let column = position.and_then(|position| self.header.get(position));
        let (file, column) = (self.file, text(column.unwrap_or_default()));
        let line = self.record.position().map_or(0, csv::Position::line);
        let value = text(self.field(position));
        ReadError::Content(format!(
            "{file}, line {line}, column {column}: {value:?} is not {expected}"
        ))
    }

    fn error(&self, error: Error) -> ReadError {
        let file = self.file;
        let line = error.position().map_or(0, csv::Position::line);
        match error.into_kind() {
            ErrorKind::Io(source) => match source.downcast::<ReadError>() {
                Ok(error) => error,
                Err(source) => ReadError::Io { file, source },
            },
            ErrorKind::UnequalLengths {
                expected_len, len, ..
            } => {
                let problem =
                    format!("it has {len} fields where the first line names {expected_len}");
                ReadError::line(file, line, problem)
            }
            ErrorKind::Deserialize { err, .. } => {
                let expected = match err.kind() {
                    DeserializeErrorKind::ParseInt(_) => "a whole number of this column's range",
                    DeserializeErrorKind::InvalidUtf8(_) => "text in UTF-8",
                    DeserializeErrorKind::Message(expected) => expected,
                    _ => "what this column holds",
                };
                let position = err.field().and_then(|field| usize::try_from(field).ok());
                self.bad_field(position, expected)
            }
            other => ReadError::line(file, line, format!("{other:?}")),
        }
    }
}

/// Characters of a bad field in a message.
const MAX_SHOWN: usize = 40;
