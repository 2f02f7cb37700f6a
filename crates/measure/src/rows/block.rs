//! `blocks.csv`: one row a block.

use super::csv::Row;
use crate::read::{Fields, ReadError, TableRow};

/// One block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockRow {
    /// The chain's height.
    pub height: u64,
    /// The header's time, nanoseconds since the Unix epoch.
    pub header_time_unix_ns: i64,
    /// When it was first observed, nanoseconds since the origin.
    pub observed_ns: u64,
    /// Header time since the previous height's; empty when that one was not seen.
    pub interval_ms: Option<f64>,
    /// Transactions.
    pub txs: u64,
    /// Of those, of this run.
    pub own_txs: u64,
    /// Of those, executed with another code than 0.
    pub own_failed: u64,
    /// Bytes.
    pub bytes: u64,
    /// Median of committed − due of the own transactions.
    pub commit_p50_ms: Option<f64>,
    /// Maximum of the same.
    pub commit_max_ms: Option<f64>,
}

pub(crate) const BLOCKS_HEADER: &str = "height,header_time_ns,observed_ns,interval_ms,txs,own_txs,own_failed,bytes,commit_p50_ms,commit_max_ms\n";

impl BlockRow {
    pub(crate) fn write_csv(&self, out: &mut Vec<u8>) {
        Row::new(out)
            .integer(self.height)
            .integer(self.header_time_unix_ns)
            .integer(self.observed_ns)
            .decimal(self.interval_ms)
            .integer(self.txs)
            .integer(self.own_txs)
            .integer(self.own_failed)
            .integer(self.bytes)
            .decimal(self.commit_p50_ms)
            .decimal(self.commit_max_ms)
            .end();
    }
}

impl TableRow for BlockRow {
    const FILE: &'static str = "blocks.csv";
    const HEADER: &'static str = BLOCKS_HEADER;
    const REQUIRED: usize = 10;

    fn read(fields: &mut Fields<'_>) -> Result<Self, ReadError> {
        Ok(Self {
            height: fields.integer()?,
            header_time_unix_ns: fields.integer()?,
            observed_ns: fields.integer()?,
            interval_ms: fields.decimal_or_empty()?,
            txs: fields.integer()?,
            own_txs: fields.integer()?,
            own_failed: fields.integer()?,
            bytes: fields.integer()?,
            commit_p50_ms: fields.decimal_or_empty()?,
            commit_max_ms: fields.decimal_or_empty()?,
        })
    }
}
