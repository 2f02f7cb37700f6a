//! `series.csv`: one row a second.

use serde::{Deserialize, Serialize};

use super::{LatencyColumns, TableRow};
use crate::format::counts::{Counts, adds_up};

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
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Sent and not answered at the row's end.
    pub in_flight: u64,
    /// Accepted and not in a block at the row's end.
    pub backlog: u64,
    /// Transactions in the fullest mempool, last sample of the row.
    pub mempool_txs: Option<u64>,
    /// Bytes of the same.
    pub mempool_bytes: Option<u64>,
    /// Of the events of this second.
    #[serde(flatten)]
    pub latency: LatencyColumns,
    /// What people noted in this second, joined by `; `; empty normally.
    #[serde(default)]
    pub mark: String,
    /// Processor time of the generator's process over the row's length: 1 is one core all the time. A
    /// built-in node is part of the process.
    #[serde(default)]
    pub generator_cpu: Option<f64>,
    /// Fewest transactions in the fullest mempool, over the samples of the row.
    #[serde(default)]
    pub mempool_min: Option<u64>,
    /// Most of them.
    #[serde(default)]
    pub mempool_max: Option<u64>,
    /// The endpoints that gave no answer for a second or longer while requests to them waited, joined by
    /// `; `: address, since when and until when, requests, and whether an answer ended it.
    #[serde(default)]
    pub silent: String,
    /// What each endpoint did, in the manifest's order, joined by spaces: the tenths of the second with an answer (ten
    /// bits, hexadecimal, the first tenth lowest), requests without one at the end, requests given up.
    #[serde(default)]
    pub signs: String,
}

adds_up!(SeriesRow {
    sum: counts, in_flight, backlog;
    max: span_s, mempool_txs, mempool_bytes, mempool_max, generator_cpu
});

impl TableRow for SeriesRow {
    const FILE: &'static str = "series.csv";
    const HEADER: &'static str = "second,span_s,step,offered,sent,unsent,accepted,rejected,errors,committed,commit_failed,blocks,in_flight,backlog,mempool_txs,mempool_bytes,lateness_p99_ms,lateness_max_ms,accept_p50_ms,accept_p99_ms,service_p50_ms,service_p99_ms,commit_p50_ms,commit_p99_ms,mark,generator_cpu,unverified,mempool_min,mempool_max,at_least,silent,signs\n";
    const FIRST_LATER: Option<&'static str> = Some("mark");
}
