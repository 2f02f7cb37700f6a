//! Transactions from a file: one per line, checked before the start, streamed during the run.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sender::{TxName, TxStream, WorkloadError};

use crate::workload::Workload;

base::named! {
    /// How a line spells a transaction.
    #[derive(Default)]
    pub enum FileFormat {
        /// The format of the first line: hex if it is hex, else base64 if it is base64, else raw.
        #[default]
        Auto => "auto",
        /// Standard base64 with padding.
        Base64 => "base64",
        /// Hexadecimal, upper or lower case, with or without `0x`.
        Hex => "hex",
        /// The line itself.
        Raw => "raw",
    }
}

/// A transaction file whose every line was read and understood.
#[derive(Debug, Clone)]
pub struct FileWorkload {
    path: PathBuf,
    format: FileFormat,
    count: u64,
    largest: usize,
}

impl FileWorkload {
    /// Reads the whole file once, without keeping it.
    ///
    /// # Errors
    /// When the file is unreadable or empty, or a line is empty or not of the file's format; the
    /// error names the line.
    pub fn check(path: &Path, format: FileFormat) -> Result<Self, WorkloadError> {
        let mut lines = Lines::open(path, format)?;
        let mut tx = Vec::new();
        let (mut count, mut largest) = (0, 0);
        while lines.next_into(&mut tx)? {
            count += 1;
            largest = largest.max(tx.len());
            tx.clear();
        }
        if count == 0 {
            return Err(WorkloadError::Unusable(format!(
                "the transaction file {} is empty; it needs one transaction per line",
                path.display()
            )));
        }
        Ok(Self {
            path: path.into(),
            format: lines.format,
            count,
            largest,
        })
    }
}

impl Workload for FileWorkload {
    fn count(&self) -> Option<u64> {
        Some(self.count)
    }

    fn largest(&self) -> usize {
        self.largest
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(FileStream {
            lines: Lines::open(&self.path, self.format)?,
        }))
    }
}

impl fmt::Display for FileWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} transactions from {} (read as {})",
            self.count,
            self.path.display(),
            self.format
        )
    }
}

/// The transactions of a file in order; lines between the wanted ones are skipped undecoded.
#[derive(Debug)]
struct FileStream {
    lines: Lines,
}

impl TxStream for FileStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        while self.lines.number < index {
            if !self.lines.read()? {
                return Err(self
                    .lines
                    .malformed("the file became shorter during the run"));
            }
        }
        if self.lines.next_into(out)? {
            Ok(TxName::Hash)
        } else {
            Err(self
                .lines
                .malformed("the file became shorter during the run"))
        }
    }
}

#[derive(Debug)]
struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    format: FileFormat,
    line: Vec<u8>,
    /// Lines read so far.
    number: u64,
}

impl Lines {
    fn open(path: &Path, format: FileFormat) -> Result<Self, WorkloadError> {
        let file = File::open(path).map_err(|source| WorkloadError::Unreadable {
            path: path.into(),
            source,
        })?;
        Ok(Self {
            path: path.into(),
            reader: BufReader::with_capacity(BUFFER_BYTES, file),
            format,
            line: Vec::new(),
            number: 0,
        })
    }

    /// Reads one line without its end; false at the end of the file.
    fn read(&mut self) -> Result<bool, WorkloadError> {
        self.line.clear();
        let read = self
            .reader
            .read_until(b'\n', &mut self.line)
            .map_err(|source| WorkloadError::Unreadable {
                path: self.path.clone(),
                source,
            })?;
        if read == 0 {
            return Ok(false);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        self.number += 1;
        Ok(true)
    }

    /// Appends the next transaction to `out`; false at the end of the file.
    fn next_into(&mut self, out: &mut Vec<u8>) -> Result<bool, WorkloadError> {
        if !self.read()? {
            return Ok(false);
        }
        if self.line.is_empty() {
            return Err(self.malformed("the line is empty; remove it or write a transaction"));
        }
        if self.format == FileFormat::Auto {
            self.format = FileFormat::of(&self.line);
        }
        let decoded = match self.format {
            FileFormat::Raw | FileFormat::Auto => {
                out.extend_from_slice(&self.line);
                true
            }
            FileFormat::Hex => decode_hex(&self.line, out),
            FileFormat::Base64 => decode_base64(&self.line, out),
        };
        if decoded {
            return Ok(true);
        }
        Err(self.malformed(&format!(
            "not {} as the format says; correct the line or give --file-format",
            self.format
        )))
    }

    fn malformed(&self, problem: &str) -> WorkloadError {
        let (path, line) = (self.path.display(), self.number);
        WorkloadError::Unusable(format!("{path}, line {line}: {problem}"))
    }
}

impl FileFormat {
    fn of(line: &[u8]) -> Self {
        if decode_hex(line, &mut Vec::new()) {
            Self::Hex
        } else if decode_base64(line, &mut Vec::new()) {
            Self::Base64
        } else {
            Self::Raw
        }
    }
}

impl FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::of_name(text)
            .ok_or_else(|| format!("unknown format {text:?}; use auto, base64, hex or raw"))
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn decode_hex(line: &[u8], out: &mut Vec<u8>) -> bool {
    let digits = line.strip_prefix(b"0x").unwrap_or(line);
    let decoded = hex_simd::decode_to_vec(digits).unwrap_or_default();
    out.extend_from_slice(&decoded);
    !decoded.is_empty()
}

fn decode_base64(line: &[u8], out: &mut Vec<u8>) -> bool {
    base64_simd::STANDARD
        .decode_to_vec(line)
        .map(|mut decoded| out.append(&mut decoded))
        .is_ok()
}

const BUFFER_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn all(content: &[u8]) -> Result<(FileFormat, Vec<Vec<u8>>), WorkloadError> {
        let file = file(content);
        let workload = FileWorkload::check(file.path(), FileFormat::Auto)?;
        let mut stream = workload.open()?;
        let txs = (0..workload.count)
            .map(|index| {
                let mut tx = Vec::new();
                stream.write(index, &mut tx).map(|_| tx)
            })
            .collect::<Result<_, _>>()?;
        Ok((workload.format, txs))
    }

    #[test]
    fn the_first_line_decides_the_format() {
        let expected = vec![b"a=1".to_vec(), b"b=2".to_vec()];
        assert_eq!(
            all(b"a=1\nb=2\n").unwrap(),
            (FileFormat::Raw, expected.clone())
        );
        assert_eq!(
            all(b"613d31\r\n0x623D32").unwrap(),
            (FileFormat::Hex, expected.clone())
        );
        assert_eq!(
            all(b"YT0x\nYj0y\n").unwrap(),
            (FileFormat::Base64, expected)
        );
    }

    #[test]
    fn a_shard_skips_the_lines_of_the_others() {
        let file = file(b"a=0\na=1\na=2\na=3\n");
        let workload = FileWorkload::check(file.path(), FileFormat::Auto).unwrap();
        let mut stream = workload.open().unwrap();
        let mut tx = Vec::new();
        stream.write(1, &mut tx).unwrap();
        stream.write(3, &mut tx).unwrap();
        assert_eq!(tx, b"a=1a=3");
    }

    #[test]
    fn errors_name_the_line() {
        let text = |content: &[u8]| all(content).unwrap_err().to_string();
        assert!(text(b"").contains("is empty"));
        assert!(text(b"613d31\n613d3\n").contains("line 2: not hex"));
        assert!(text(b"YT0x\n!\n").contains("line 2: not base64"));
        assert!(text(b"a=1\n\na=2\n").contains("line 2: the line is empty"));
        let missing = FileWorkload::check(Path::new("/nowhere/txs"), FileFormat::Auto);
        assert!(missing.unwrap_err().to_string().contains("/nowhere/txs"));
    }
}
