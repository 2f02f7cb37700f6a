//! A run folder read back into types, one row at a time, from any [`BufRead`].
//!
//! - [`RowReader`] gives the rows of `series.csv`, `steps.csv` and `blocks.csv` as the structs that
//!   wrote them.
//! - [`TxReader`] gives the rows of `txs.csv`, each borrowed from the line it came from, so a file
//!   of any length takes the memory of one row.
//! - [`HlogReader`] gives the intervals of `latency.hlog`, each decoded only on request.
//! - [`Manifest::read_from`](crate::Manifest::read_from) and
//!   [`Summary::read_from`](crate::Summary::read_from) check the version first.
//!
//! A run that was killed leaves files that end in the middle of a row at worst. What follows the
//! last line break is never a row: readers leave it out and report it ([`RowReader::is_torn`]).
//! Anything else that is wrong is an error with its file, line and column. Columns are found by
//! their names in the first line; columns that a reader does not know are passed over.

mod hlog;
mod tx;

pub use crate::format::document::ReadError;
pub use crate::format::rows::{TXS_HEADER, TableRow};
pub use hlog::{HlogInterval, HlogReader};
pub use tx::{TxFate, TxReader, TxRow};

use std::io::{self, BufRead, Read};
use std::marker::PhantomData;

use csv::{ByteRecord, DeserializeErrorKind, Error, ErrorKind};
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use crate::format::document::{FORMAT, is_too_much};

/// Reads into one buffer, line after line.
#[derive(Debug)]
struct Lines<R> {
    file: &'static str,
    reader: R,
    line: Vec<u8>,
    number: u64,
    torn: bool,
}

impl<R: BufRead> Lines<R> {
    const fn new(file: &'static str, reader: R) -> Self {
        Self {
            file,
            reader,
            line: Vec::new(),
            number: 0,
            torn: false,
        }
    }

    /// The number of the last line, from 1.
    const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the file ended in the middle of a line.
    const fn is_torn(&self) -> bool {
        self.torn
    }

    /// The line that [`advance`](Self::advance) found, without its line break.
    fn line(&self) -> &[u8] {
        &self.line
    }

    /// Goes to the next line; `false` at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.line.clear();
        let file = self.file;
        (&mut self.reader)
            .take(MAX_LINE)
            .read_until(b'\n', &mut self.line)
            .map_err(|source| ReadError::Io { file, source })?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
            self.number += 1;
            return Ok(true);
        }
        if self.line.len() as u64 == MAX_LINE {
            let problem = format!("it is longer than {MAX_LINE} bytes");
            return Err(ReadError::line(file, self.number + 1, problem));
        }
        self.torn |= !self.line.is_empty();
        self.line.clear();
        Ok(false)
    }
}

/// The whole lines as a stream of bytes, for a parser that must not see a torn one. A [`ReadError`]
/// travels inside the error of the stream.
#[derive(Debug)]
struct WholeLines<R> {
    lines: Lines<R>,
    /// Bytes of the line that were handed out, its line break included.
    taken: usize,
}

impl<R: BufRead> WholeLines<R> {
    const fn new(lines: Lines<R>) -> Self {
        Self { lines, taken: 0 }
    }

    const fn is_torn(&self) -> bool {
        self.lines.is_torn()
    }
}

impl<R: BufRead> Read for WholeLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            if self.taken == self.lines.line.len() {
                self.taken = 0;
                if !self.lines.advance().map_err(io::Error::other)? {
                    break;
                }
                self.lines.line.push(b'\n');
            }
            let rest = &self.lines.line[self.taken..];
            let count = rest.len().min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&rest[..count]);
            self.taken += count;
            filled += count;
        }
        Ok(filled)
    }
}

/// The longest line a run writes is a histogram that fills its range: 33 × 1,024 counters of up to
/// nine bytes, in base64.
const MAX_LINE: u64 = 1024 * 1024;

/// Reads one record at a time into one buffer.
#[derive(Debug)]
struct Table<R> {
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
    fn new(
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
    fn position(&self, column: &str) -> Option<usize> {
        self.header
            .iter()
            .position(|name| name == column.as_bytes())
    }

    /// Goes to the next record; `false` at the end.
    fn advance(&mut self) -> Result<bool, ReadError> {
        let found = self.reader.read_byte_record(&mut self.record);
        found.map_err(|error| self.error(error))
    }

    /// A field of the record; empty where the file has no such column.
    fn field(&self, position: Option<usize>) -> &[u8] {
        position
            .and_then(|position| self.record.get(position))
            .unwrap_or_default()
    }

    /// The record as a struct whose fields are named like the columns.
    fn deserialize<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ReadError> {
        let names = (!self.in_order).then_some(&self.header);
        let row = self.record.deserialize(names);
        row.map_err(|error| self.error(error))
    }

    /// Whether the last row was cut off and therefore left out.
    fn is_torn(&self) -> bool {
        self.reader.get_ref().is_torn()
    }

    /// That a field of the record is not what its column holds.
    fn bad_field(&self, position: Option<usize>, expected: &str) -> ReadError {
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

/// Reads `series.csv`, `steps.csv` or `blocks.csv`, as rows of type `T`; an iterator over its rows.
#[derive(Debug)]
pub struct RowReader<R, T> {
    table: Table<R>,
    columns: Vec<Column>,
    row: PhantomData<T>,
}

/// A column of `T` that the file has.
#[derive(Debug)]
struct Column {
    name: &'static str,
    position: usize,
    /// Its value in a default row, which gives its type.
    blank: Value,
}

impl<R: BufRead, T: TableRow> RowReader<R, T> {
    /// Reads the first line.
    ///
    /// # Errors
    /// When it cannot be read or lacks a column.
    pub fn new(reader: R) -> Result<Self, ReadError> {
        let required = T::columns().take_while(|column| Some(*column) != T::FIRST_LATER);
        let table = Table::new(T::FILE, reader, required, T::columns())?;
        let blank = serde_json::to_value(T::default()).unwrap_or_default();
        let column = |name: &'static str| {
            Some(Column {
                name,
                position: table.position(name)?,
                blank: blank[name].clone(),
            })
        };
        Ok(Self {
            columns: T::columns().filter_map(column).collect(),
            table,
            row: PhantomData,
        })
    }

    /// At the end: whether the last row was cut off and therefore left out.
    pub fn is_torn(&self) -> bool {
        self.table.is_torn()
    }

    fn read(&mut self) -> Result<Option<T>, ReadError> {
        if !self.table.advance()? {
            return Ok(None);
        }
        let fields: Map<String, Value> = self
            .columns
            .iter()
            .map(|column| (column.name.to_owned(), self.value(column)))
            .collect();
        match T::deserialize(Value::Object(fields)) {
            Ok(row) => Ok(Some(row)),
            Err(_) => Err(self.culprit()),
        }
    }

    /// A field as JSON has it.
    fn value(&self, column: &Column) -> Value {
        let text = String::from_utf8_lossy(self.table.field(Some(column.position)));
        if column.blank.is_string() {
            return Value::String(text.into_owned());
        }
        if text.is_empty() {
            return Value::Null;
        }
        let whole = || {
            let unsigned = text.parse::<u64>().map(Number::from);
            unsigned.or_else(|_| text.parse::<i64>().map(Number::from))
        };
        let is_too_much = |number: u64| is_too_much(column.name, number);
        if text.parse().is_ok_and(is_too_much) {
            return Value::String(text.into_owned());
        }
        let fraction = || text.parse().ok().and_then(Number::from_f64);
        let number = whole().ok().or_else(fraction);
        number.map_or_else(|| Value::String(text.clone().into_owned()), Value::Number)
    }

    /// Names the first field that makes an otherwise blank row unreadable.
    fn culprit(&self) -> ReadError {
        let blank = serde_json::to_value(T::default()).unwrap_or_default();
        let is_bad = |column: &&Column| {
            let mut row = blank.clone();
            row[column.name] = self.value(column);
            T::deserialize(row).is_err()
        };
        let found = self.columns.iter().find(is_bad);
        let expected = match found.map(|column| &column.blank) {
            Some(Value::Number(number)) if number.is_f64() => "a number",
            Some(Value::Number(_)) => "a whole number of this column's range",
            Some(Value::Bool(_)) => "0 or 1",
            _ => "a number, or empty",
        };
        let position = found.map(|column| column.position);
        self.table.bad_field(position, expected)
    }
}

impl<R: BufRead, T: TableRow> Iterator for RowReader<R, T> {
    type Item = Result<T, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
