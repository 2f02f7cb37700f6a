//! `txs.csv`: one transaction at a time.

use std::io::BufRead;

use pacing::Nanos;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::Table;
use crate::format::code::{Code, Codespace};
use crate::format::document::ReadError;
use crate::format::rows::TXS_HEADER;

/// Reads `txs.csv` in the memory of one row.
#[derive(Debug)]
pub struct TxReader<R> {
    table: Table<R>,
    /// Where each column of [`TXS_HEADER`] is.
    positions: Vec<Option<usize>>,
}

/// One sent transaction, borrowed from its line. `docs/run-folder.md` describes the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct TxRow<'a> {
    /// Hash in hex.
    pub txid: &'a str,
    /// Bytes.
    pub size: u64,
    /// Sent, microseconds since the Unix epoch.
    #[serde(rename = "ts_send", deserialize_with = "wall")]
    pub send_unix_us: u64,
    /// Accepted, the same.
    #[serde(rename = "ts_accept", deserialize_with = "wall_or_empty")]
    pub accept_unix_us: Option<u64>,
    /// Committed, the same.
    #[serde(rename = "ts_commit", deserialize_with = "wall_or_empty")]
    pub commit_unix_us: Option<u64>,
    /// Rejected or given up as an error, the same.
    #[serde(rename = "ts_error", deserialize_with = "wall_or_empty")]
    pub error_unix_us: Option<u64>,
    /// Due, since the origin.
    #[serde(rename = "due_ns", deserialize_with = "stamp")]
    pub due: Nanos,
    /// Sent, since the origin.
    #[serde(rename = "sent_ns", deserialize_with = "stamp")]
    pub sent: Nanos,
    /// Accepted, since the origin.
    #[serde(rename = "accepted_ns", deserialize_with = "stamp_or_empty")]
    pub accepted: Option<Nanos>,
    /// Committed, since the origin.
    #[serde(rename = "committed_ns", deserialize_with = "stamp_or_empty")]
    pub committed: Option<Nanos>,
    /// Height of its block.
    pub height: Option<u64>,
    /// The code that decided its fate.
    pub code: Option<i64>,
    /// Position in the manifest's `endpoints`.
    pub endpoint: u16,
    /// Step in which it was due.
    pub step: u32,
    /// Name space of `code`; empty for none, and in folders of before it was recorded.
    #[serde(default)]
    pub codespace: &'a str,
}

/// The fate of a transaction, from its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxFate {
    /// In a block with code 0.
    Committed,
    /// In a block with another code.
    CommitFailed,
    /// In a block whose results the node did not give.
    Unverified,
    /// Accepted and in no block by the end.
    Pending,
    /// Answered with another code or a JSON-RPC error.
    Rejected,
    /// No usable answer.
    Error,
    /// No answer by the end.
    Unanswered,
}

impl TxRow<'_> {
    /// The code that decided its fate, in its name space.
    pub fn code(&self) -> Option<Code> {
        let number = self.code?;
        let space = Codespace::named(self.codespace);
        Some(Code { space, number })
    }

    /// Its fate. A transaction in a block counts as committed whatever its answer was; that it had
    /// not been accepted shows in `accepted`.
    pub const fn fate(&self) -> TxFate {
        match (self.committed, self.accepted, self.error_unix_us, self.code) {
            (Some(_), _, _, Some(0)) => TxFate::Committed,
            (Some(_), _, _, None) => TxFate::Unverified,
            (Some(_), ..) => TxFate::CommitFailed,
            (None, Some(_), ..) => TxFate::Pending,
            (None, None, Some(_), Some(_)) => TxFate::Rejected,
            (None, None, Some(_), None) => TxFate::Error,
            (None, None, None, _) => TxFate::Unanswered,
        }
    }
}

impl<R: BufRead> TxReader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// When it cannot be read or lacks a column.
    pub fn new(reader: R) -> Result<Self, ReadError> {
        let required = columns().filter(|column| *column != ADDED);
        let table = Table::new(FILE, reader, required, columns())?;
        Ok(Self {
            positions: columns().map(|column| table.position(column)).collect(),
            table,
        })
    }

    /// The next transaction; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read or the row is not one of a transaction.
    pub fn next_row(&mut self) -> Result<Option<TxRow<'_>>, ReadError> {
        if !self.table.advance()? {
            return Ok(None);
        }
        self.table.deserialize().map(Some)
    }

    /// Appends the last row as it is written, with another endpoint.
    pub(crate) fn copy_row(&self, endpoint: u16, out: &mut Vec<u8>) {
        for (column, position) in columns().zip(&self.positions) {
            if column == "endpoint" {
                out.extend_from_slice(itoa::Buffer::new().format(endpoint).as_bytes());
            } else {
                out.extend_from_slice(self.table.field(*position));
            }
            out.push(b',');
        }
        out.pop();
        out.push(b'\n');
    }

    /// At the end: whether the last row was cut off and therefore left out.
    pub fn is_torn(&self) -> bool {
        self.table.is_torn()
    }
}

fn columns() -> impl Iterator<Item = &'static str> + Clone {
    TXS_HEADER.trim_end().split(',')
}

fn wall<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    wall_or_empty(deserializer)?.ok_or_else(|| D::Error::custom(WALL))
}

/// Milliseconds with up to three decimals, as microseconds.
fn wall_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let field = <&[u8]>::deserialize(deserializer)?;
    if field.is_empty() {
        return Ok(None);
    }
    let micros = || {
        let dot = field.iter().rposition(|byte| *byte == b'.');
        let (millis, decimals) = field.split_at(dot.unwrap_or(field.len()));
        let (micros, scale) = match decimals {
            [] | [b'.'] => (0, 1),
            [b'.', digits @ ..] => (unsigned(digits)?, *[100, 10, 1].get(digits.len() - 1)?),
            _ => return None,
        };
        unsigned(millis)?
            .checked_mul(1_000)?
            .checked_add(micros * scale)
    };
    micros().map(Some).ok_or_else(|| D::Error::custom(WALL))
}

fn stamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    stamp_or_empty(deserializer)?.ok_or_else(|| D::Error::custom(STAMP))
}

fn stamp_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    let field = <&[u8]>::deserialize(deserializer)?;
    if field.is_empty() {
        return Ok(None);
    }
    let nanos = unsigned(field).ok_or_else(|| D::Error::custom(STAMP))?;
    Ok(Some(Nanos::from_nanos(nanos)))
}

/// Digits alone, at least one.
fn unsigned(digits: &[u8]) -> Option<u64> {
    let first = digits.first().map(|_| 0_u64);
    digits.iter().fold(first, |sum, digit| {
        let value = digit.wrapping_sub(b'0');
        let sum = sum.filter(|_| value < 10)?.checked_mul(10)?;
        sum.checked_add(u64::from(value))
    })
}

const FILE: &str = "txs.csv";
/// What the first versions of the format did not have.
const ADDED: &str = "codespace";
const WALL: &str = "milliseconds since the Unix epoch";
const STAMP: &str = "nanoseconds since the origin";
