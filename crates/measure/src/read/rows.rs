//! The tables whose rows are structs.

use std::io::BufRead;
use std::marker::PhantomData;

use super::ReadError;
use super::csv::{Columns, TableRow};
use super::lines::Lines;

/// Reads `series.csv`, `steps.csv` or `blocks.csv`, as `T` says; an iterator over its rows.
#[derive(Debug)]
pub struct RowReader<R, T> {
    lines: Lines<R>,
    columns: Columns,
    row: PhantomData<T>,
}

impl<R: BufRead, T: TableRow> RowReader<R, T> {
    /// Reads the first line.
    ///
    /// # Errors
    /// When it cannot be read or lacks a column.
    pub fn new(reader: R) -> Result<Self, ReadError> {
        let mut lines = Lines::new(T::FILE, reader);
        let columns = Columns::read(&mut lines, T::HEADER, T::REQUIRED)?;
        Ok(Self {
            lines,
            columns,
            row: PhantomData,
        })
    }

    /// At the end: whether the last row was cut off and therefore left out.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.lines.is_torn()
    }

    fn read(&mut self) -> Result<Option<T>, ReadError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        T::read(&mut self.columns.fields(&self.lines)?).map(Some)
    }
}

impl<R: BufRead, T: TableRow> Iterator for RowReader<R, T> {
    type Item = Result<T, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
