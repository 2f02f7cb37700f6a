//! The tables whose rows are structs.

use std::io::BufRead;
use std::marker::PhantomData;

use serde_json::{Map, Number, Value};

use super::table::Table;
use crate::format::document::{ReadError, is_too_much};
use crate::format::rows::TableRow;

/// Reads `series.csv`, `steps.csv` or `blocks.csv`, as `T` says; an iterator over its rows.
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
