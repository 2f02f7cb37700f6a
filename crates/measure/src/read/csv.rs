//! Fields of a row in the order of the writer's columns, wherever the file has them.

use std::borrow::Cow;
use std::io::BufRead;
use std::ops::Range;

use super::ReadError;
use super::lines::Lines;

/// A row of one of the run folder's tables.
pub trait TableRow: Sized {
    /// The file's name inside the run folder.
    const FILE: &'static str;
    /// The first line as it is written, with its line break.
    const HEADER: &'static str;
    /// How many columns of [`HEADER`](Self::HEADER) every file has; the ones after them came later
    /// and may be missing.
    const REQUIRED: usize;

    /// Reads the fields in the order of [`HEADER`](Self::HEADER).
    ///
    /// # Errors
    /// When a field is not what its column holds.
    fn read(fields: &mut Fields<'_>) -> Result<Self, ReadError>;
}

/// Where the columns of a table are in a file.
#[derive(Debug)]
pub(super) struct Columns {
    names: Vec<&'static str>,
    /// For each name its position in the file.
    positions: Vec<Option<usize>>,
    /// How many fields each line has.
    width: usize,
    /// Bounds of the fields of the line under way.
    bounds: Vec<Range<usize>>,
}

impl Columns {
    /// Reads the first line.
    pub(super) fn read(
        lines: &mut Lines<impl BufRead>,
        header: &'static str,
        required: usize,
    ) -> Result<Self, ReadError> {
        let names: Vec<&'static str> = header.trim_end().split(',').collect();
        // A run killed in its first second may leave an empty file.
        let there = lines.advance()?;
        let line = String::from_utf8_lossy(lines.line());
        let found: Vec<&str> = line.split(',').collect();
        let position = |name: &&str| found.iter().position(|column| column == name);
        let positions: Vec<Option<usize>> = names.iter().map(position).collect();
        let missing = positions.iter().take(required).position(Option::is_none);
        if let Some(missing) = missing
            && there
        {
            return Err(ReadError::NoColumn {
                file: lines.file(),
                column: names[missing].to_owned(),
            });
        }
        Ok(Self {
            width: found.len(),
            names,
            positions,
            bounds: Vec::new(),
        })
    }

    /// The fields of the line under way.
    pub(super) fn fields<'a>(
        &'a mut self,
        lines: &'a Lines<impl BufRead>,
    ) -> Result<Fields<'a>, ReadError> {
        split(lines.line(), &mut self.bounds);
        if self.bounds.len() != self.width {
            return Err(ReadError::BadLine {
                file: lines.file(),
                line: lines.number(),
                problem: format!(
                    "it has {} fields where the first line names {}",
                    self.bounds.len(),
                    self.width
                ),
            });
        }
        Ok(Fields {
            file: lines.file(),
            number: lines.number(),
            line: lines.line(),
            columns: self,
            next: 0,
        })
    }
}

/// The fields of one row, taken one after the other in the order in which they are written.
#[derive(Debug)]
pub struct Fields<'a> {
    file: &'static str,
    number: u64,
    line: &'a [u8],
    columns: &'a Columns,
    next: usize,
}

impl<'a> Fields<'a> {
    /// The next field as a whole number.
    ///
    /// # Errors
    /// When it is none, or one that does not fit.
    pub fn integer<T: TryFrom<i128>>(&mut self) -> Result<T, ReadError> {
        let field = self.take();
        whole(field).ok_or_else(|| self.bad(field, "a whole number of this column's range"))
    }

    /// The next field as a whole number, or nothing where it is empty.
    ///
    /// # Errors
    /// When it is neither.
    pub fn integer_or_empty<T: TryFrom<i128>>(&mut self) -> Result<Option<T>, ReadError> {
        let field = self.take();
        if field.is_empty() {
            return Ok(None);
        }
        let value = whole(field);
        value.map_or_else(
            || Err(self.bad(field, "a whole number, or empty")),
            |v| Ok(Some(v)),
        )
    }

    /// The next field as a decimal fraction.
    ///
    /// # Errors
    /// When it is none.
    pub fn decimal(&mut self) -> Result<f64, ReadError> {
        let field = self.take();
        fraction(field).ok_or_else(|| self.bad(field, "a number"))
    }

    /// The next field as a decimal fraction, or nothing where it is empty.
    ///
    /// # Errors
    /// When it is neither.
    pub fn decimal_or_empty(&mut self) -> Result<Option<f64>, ReadError> {
        let field = self.take();
        if field.is_empty() {
            return Ok(None);
        }
        let value = fraction(field);
        value.map_or_else(
            || Err(self.bad(field, "a number, or empty")),
            |v| Ok(Some(v)),
        )
    }

    /// The next field as 0 or 1.
    ///
    /// # Errors
    /// When it is neither.
    pub fn flag(&mut self) -> Result<bool, ReadError> {
        match self.take() {
            b"0" => Ok(false),
            b"1" => Ok(true),
            field => Err(self.bad(field, "0 or 1")),
        }
    }

    /// The next field as text, its quotes undone.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub fn text(&mut self) -> Result<Cow<'a, str>, ReadError> {
        let field = self.take();
        let text = std::str::from_utf8(field).map_err(|_| self.bad(field, "text in UTF-8"))?;
        let quoted = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        Ok(quoted.map_or(Cow::Borrowed(text), |inner| {
            Cow::Owned(inner.replace("\"\"", "\""))
        }))
    }

    /// The next field as it is; empty where the file has no such column.
    pub(super) fn take(&mut self) -> &'a [u8] {
        let position = self.columns.positions.get(self.next).copied().flatten();
        self.next += 1;
        position.map_or(&[], |position| {
            &self.line[self.columns.bounds[position].clone()]
        })
    }

    /// That the field taken last is not what it should be.
    pub(super) fn bad(&self, field: &[u8], expected: &'static str) -> ReadError {
        let column = self.columns.names.get(self.next.saturating_sub(1));
        let text = String::from_utf8_lossy(field);
        ReadError::BadField {
            file: self.file,
            line: self.number,
            column: column.copied().unwrap_or_default().to_owned(),
            value: text.chars().take(MAX_SHOWN).collect(),
            expected,
        }
    }
}

/// Commas separate fields, except inside quotes at the begin of a field.
fn split(line: &[u8], bounds: &mut Vec<Range<usize>>) {
    bounds.clear();
    let mut start = 0;
    let mut quoted = false;
    for (at, &byte) in line.iter().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                bounds.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    bounds.push(start..line.len());
}

pub(super) fn whole<T: TryFrom<i128>>(field: &[u8]) -> Option<T> {
    let (negative, digits) = match field.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, field),
    };
    let value = i128::from(unsigned(digits)?);
    T::try_from(if negative { -value } else { value }).ok()
}

/// Digits alone.
pub(super) fn unsigned(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(())?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn fraction(field: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(field).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Characters of a bad field in a message.
const MAX_SHOWN: usize = 40;
