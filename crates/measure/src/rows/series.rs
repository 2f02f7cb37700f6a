//! `series.csv`: one row a second.

use serde::{Deserialize, Serialize};

use super::csv::Row;
use crate::read::{Fields, ReadError, TableRow};

/// One second of the run. Counts are of events stamped within the second; `offered` is what fell
/// due in it. Latencies are of the events of this second, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Begin of the row, seconds since the origin.
    pub second: u64,
    /// How long the row is, in seconds: 1, except for the last row.
    pub span_s: f64,
    /// The step that the row begins in.
    pub step: Option<u32>,
    /// Due.
    pub offered: u64,
    /// Handed to a socket.
    pub sent: u64,
    /// Given up.
    pub unsent: u64,
    /// Answered with code 0.
    pub accepted: u64,
    /// Answered with another code or a JSON-RPC error.
    pub rejected: u64,
    /// Without a usable answer.
    pub errors: u64,
    /// Own transactions seen in blocks, code 0.
    pub committed: u64,
    /// Own transactions seen in blocks, other code.
    pub commit_failed: u64,
    /// Blocks observed.
    pub blocks: u64,
    /// Sent and not answered at the row's end.
    pub in_flight: u64,
    /// Accepted and not in a block at the row's end.
    pub backlog: u64,
    /// Transactions in the fullest mempool, last sample of the row.
    pub mempool_txs: Option<u64>,
    /// Bytes of the same.
    pub mempool_bytes: Option<u64>,
    /// Lateness.
    pub lateness_p99_ms: Option<f64>,
    /// Lateness.
    pub lateness_max_ms: Option<f64>,
    /// accepted − due.
    pub accept_p50_ms: Option<f64>,
    /// accepted − due.
    pub accept_p99_ms: Option<f64>,
    /// accepted − sent.
    pub service_p50_ms: Option<f64>,
    /// accepted − sent.
    pub service_p99_ms: Option<f64>,
    /// committed − due.
    pub commit_p50_ms: Option<f64>,
    /// committed − due.
    pub commit_p99_ms: Option<f64>,
    /// What people noted in this second, joined by `; `; empty normally.
    #[serde(default)]
    pub mark: String,
}

pub(crate) const SERIES_HEADER: &str = "second,span_s,step,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,in_flight,backlog,mempool_txs,mempool_bytes,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p99_ms,mark\n";

impl SeriesRow {
    pub(crate) fn write_csv(&self, out: &mut Vec<u8>) {
        Row::new(out)
            .integer(self.second)
            .decimal(Some(self.span_s))
            .integer_or_empty(self.step)
            .integer(self.offered)
            .integer(self.sent)
            .integer(self.unsent)
            .integer(self.accepted)
            .integer(self.rejected)
            .integer(self.errors)
            .integer(self.committed)
            .integer(self.commit_failed)
            .integer(self.blocks)
            .integer(self.in_flight)
            .integer(self.backlog)
            .integer_or_empty(self.mempool_txs)
            .integer_or_empty(self.mempool_bytes)
            .decimal(self.lateness_p99_ms)
            .decimal(self.lateness_max_ms)
            .decimal(self.accept_p50_ms)
            .decimal(self.accept_p99_ms)
            .decimal(self.service_p50_ms)
            .decimal(self.service_p99_ms)
            .decimal(self.commit_p50_ms)
            .decimal(self.commit_p99_ms)
            .text(&self.mark)
            .end();
    }
}

impl TableRow for SeriesRow {
    const FILE: &'static str = "series.csv";
    const HEADER: &'static str = SERIES_HEADER;
    const REQUIRED: usize = 24;

    fn read(fields: &mut Fields<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            second: fields.integer()?,
            span_s: fields.decimal()?,
            step: fields.integer_or_empty()?,
            offered: fields.integer()?,
            sent: fields.integer()?,
            unsent: fields.integer()?,
            accepted: fields.integer()?,
            rejected: fields.integer()?,
            errors: fields.integer()?,
            committed: fields.integer()?,
            commit_failed: fields.integer()?,
            blocks: fields.integer()?,
            in_flight: fields.integer()?,
            backlog: fields.integer()?,
            mempool_txs: fields.integer_or_empty()?,
            mempool_bytes: fields.integer_or_empty()?,
            lateness_p99_ms: fields.decimal_or_empty()?,
            lateness_max_ms: fields.decimal_or_empty()?,
            accept_p50_ms: fields.decimal_or_empty()?,
            accept_p99_ms: fields.decimal_or_empty()?,
            service_p50_ms: fields.decimal_or_empty()?,
            service_p99_ms: fields.decimal_or_empty()?,
            commit_p50_ms: fields.decimal_or_empty()?,
            commit_p99_ms: fields.decimal_or_empty()?,
            mark: fields.text()?.into_owned(),
        })
    }
}
