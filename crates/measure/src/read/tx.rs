//! `txs.csv`: one transaction at a time.

use std::io::BufRead;

use pacing::Nanos;

use super::ReadError;
use super::csv::{Columns, Fields, unsigned};
use super::lines::Lines;
use crate::rows::TXS_HEADER;

/// Reads `txs.csv` in the memory of one row.
#[derive(Debug)]
pub struct TxReader<R> {
    lines: Lines<R>,
    columns: Columns,
}

/// One sent transaction, borrowed from its line. `docs/run-folder.md` describes the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxRow<'a> {
    /// The whole line, without its line break.
    pub line: &'a [u8],
    /// Hash in hex.
    pub txid: &'a str,
    /// Bytes.
    pub size: u64,
    /// Sent, microseconds since the Unix epoch.
    pub send_unix_us: u64,
    /// Accepted, the same.
    pub accept_unix_us: Option<u64>,
    /// Committed, the same.
    pub commit_unix_us: Option<u64>,
    /// Rejected or given up as an error, the same.
    pub error_unix_us: Option<u64>,
    /// Due, since the origin.
    pub due: Nanos,
    /// Sent, since the origin.
    pub sent: Nanos,
    /// Accepted, since the origin.
    pub accepted: Option<Nanos>,
    /// Committed, since the origin.
    pub committed: Option<Nanos>,
    /// Height of its block.
    pub height: Option<u64>,
    /// The code that decided its fate.
    pub code: Option<i64>,
    /// Position in the manifest's `endpoints`.
    pub endpoint: u16,
    /// Step in which it was due.
    pub step: u32,
}

/// The one end of a transaction, as its row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxFate {
    /// In a block with code 0.
    Committed,
    /// In a block with another code.
    CommitFailed,
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
    /// Its fate. A transaction in a block counts as committed whatever its answer was; that it had
    /// not been accepted shows in `accepted`.
    #[must_use]
    pub const fn fate(&self) -> TxFate {
        match (self.committed, self.accepted, self.error_unix_us, self.code) {
            (Some(_), _, _, Some(0)) => TxFate::Committed,
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
        let mut lines = Lines::new(FILE, reader);
        let columns = Columns::read(&mut lines, TXS_HEADER, COLUMNS)?;
        Ok(Self { lines, columns })
    }

    /// The next transaction; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read or the row is not one of a transaction.
    pub fn next_row(&mut self) -> Result<Option<TxRow<'_>>, ReadError> {
        if !self.lines.advance()? {
            return Ok(None);
        }
        let mut fields = self.columns.fields(&self.lines)?;
        row(self.lines.line(), &mut fields).map(Some)
    }

    /// At the end: whether the last row was cut off and therefore left out.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.lines.is_torn()
    }
}

fn row<'a>(line: &'a [u8], fields: &mut Fields<'a>) -> Result<TxRow<'a>, ReadError> {
    let txid = fields.take();
    let txid = std::str::from_utf8(txid).map_err(|_| fields.bad(txid, "a hash in hex"))?;
    Ok(TxRow {
        line,
        txid,
        size: fields.integer()?,
        send_unix_us: wall(fields)?.ok_or_else(|| fields.bad(b"", WALL))?,
        accept_unix_us: wall(fields)?,
        commit_unix_us: wall(fields)?,
        error_unix_us: wall(fields)?,
        due: stamp(fields)?.ok_or_else(|| fields.bad(b"", STAMP))?,
        sent: stamp(fields)?.ok_or_else(|| fields.bad(b"", STAMP))?,
        accepted: stamp(fields)?,
        committed: stamp(fields)?,
        height: fields.integer_or_empty()?,
        code: fields.integer_or_empty()?,
        endpoint: fields.integer()?,
        step: fields.integer()?,
    })
}

/// Milliseconds with up to three decimals, as microseconds.
fn wall(fields: &mut Fields<'_>) -> Result<Option<u64>, ReadError> {
    let field = fields.take();
    if field.is_empty() {
        return Ok(None);
    }
    let micros = || {
        let dot = field.iter().position(|byte| *byte == b'.');
        let (whole, rest) = field.split_at(dot.unwrap_or(field.len()));
        let millis = unsigned(whole)?;
        let decimals = rest.get(1..).unwrap_or_default();
        let micros = match decimals.len() {
            0 => 0,
            1 => unsigned(decimals)? * 100,
            2 => unsigned(decimals)? * 10,
            3 => unsigned(decimals)?,
            _ => return None,
        };
        millis.checked_mul(1_000)?.checked_add(micros)
    };
    micros().map_or_else(|| Err(fields.bad(field, WALL)), |micros| Ok(Some(micros)))
}

fn stamp(fields: &mut Fields<'_>) -> Result<Option<Nanos>, ReadError> {
    let field = fields.take();
    if field.is_empty() {
        return Ok(None);
    }
    let nanos = unsigned(field).ok_or_else(|| fields.bad(field, STAMP))?;
    Ok(Some(Nanos::from_nanos(nanos)))
}

const FILE: &str = "txs.csv";
const COLUMNS: usize = 14;
const WALL: &str = "milliseconds since the Unix epoch";
const STAMP: &str = "nanoseconds since the origin";
