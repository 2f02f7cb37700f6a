//! Whole lines of a file; what follows the last line break is torn.

use std::io::{BufRead, Read as _};

use super::ReadError;

/// Reads into one buffer, line after line.
#[derive(Debug)]
pub(super) struct Lines<R> {
    file: &'static str,
    reader: R,
    line: Vec<u8>,
    number: u64,
    torn: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(file: &'static str, reader: R) -> Self {
        Self {
            file,
            reader,
            line: Vec::new(),
            number: 0,
            torn: false,
        }
    }

    pub(super) const fn file(&self) -> &'static str {
        self.file
    }

    /// The number of the last line, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the file ended in the middle of a line.
    pub(super) const fn is_torn(&self) -> bool {
        self.torn
    }

    /// The line that [`advance`](Self::advance) found, without its line break.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Goes to the next line; `false` at the end.
    pub(super) fn advance(&mut self) -> Result<bool, ReadError> {
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
            return Err(ReadError::BadLine {
                file,
                line: self.number + 1,
                problem: format!("it is longer than {MAX_LINE} bytes"),
            });
        }
        self.torn |= !self.line.is_empty();
        self.line.clear();
        Ok(false)
    }
}

/// The longest line a run writes is a histogram that fills its range: 33 × 1,024 counters of up to
/// nine bytes, in base64.
const MAX_LINE: u64 = 1024 * 1024;
