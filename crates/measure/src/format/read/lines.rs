//! Whole lines of a file; what follows the last line break is torn.

use std::io::{self, BufRead, Read};

use crate::format::document::ReadError;

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
pub(super) struct WholeLines<R> {
    lines: Lines<R>,
    /// Bytes of the line that were handed out, its line break included.
    taken: usize,
}

impl<R: BufRead> WholeLines<R> {
    pub(super) const fn new(lines: Lines<R>) -> Self {
        Self { lines, taken: 0 }
    }

    pub(super) const fn is_torn(&self) -> bool {
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
