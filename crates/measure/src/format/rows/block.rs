//! `blocks.csv`: one row a block.

use serde::{Deserialize, Serialize};

use super::TableRow;

/// One block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockRow {
    /// The chain's height.
    pub height: u64,
    /// The header's time, nanoseconds since the Unix epoch.
    #[serde(rename = "header_time_ns")]
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
    /// Of the own transactions, those whose results the node did not give.
    #[serde(default)]
    pub own_unverified: u64,
    /// How much earlier the node may have had the block, where it was found by polling; empty when the
    /// node announced it.
    #[serde(default)]
    pub resolution_ms: Option<f64>,
    /// Gas that its transactions wanted; empty where their results were not read.
    #[serde(default)]
    pub gas_wanted: Option<u64>,
    /// Gas that they used.
    #[serde(default)]
    pub gas_used: Option<u64>,
}

impl BlockRow {
    /// Own transactions with code 0.
    pub const fn committed(&self) -> u64 {
        self.own_txs
            .saturating_sub(self.own_failed + self.own_unverified)
    }
}

impl TableRow for BlockRow {
    const FILE: &'static str = "blocks.csv";
    const HEADER: &'static str = "height,header_time_ns,observed_ns,interval_ms,txs,own_txs,own_failed,bytes,commit_p50_ms,commit_max_ms,own_unverified,resolution_ms,gas_wanted,gas_used\n";
    const FIRST_LATER: Option<&'static str> = Some("own_unverified");
}
