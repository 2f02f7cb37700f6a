//! The rows of the run folder's tables and how each is written.
//!
//! Rows of seconds, steps and blocks are structs (they also go into JSON); rows of transactions are
//! written straight from the pending record.

mod kept;
mod step;

pub use kept::{IdText, KeptRows, KeptRowsError, TXS_HEADER};
pub use step::StepRow;

use pacing::Nanos;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::counts::{Counts, adds_up};
use crate::format::latency::{LatencyFigure, LatencyKind, LatencySet};

/// A row of one of the run folder's tables.
pub trait TableRow: Serialize + DeserializeOwned + Default {
    /// The file's name inside the run folder.
    const FILE: &'static str;
    /// The first line as it is written, with its line break.
    const HEADER: &'static str;
    /// From this column on they came later: files of earlier versions lack some or all of them.
    const FIRST_LATER: Option<&'static str> = None;

    /// The names of the columns, in their order.
    fn columns() -> impl Iterator<Item = &'static str> + Clone {
        Self::HEADER.trim_end().split(',')
    }
}

/// Appends a row: numbers that are not whole have three decimals, what is missing is empty, a flag is
/// 0 or 1, and a text is quoted where RFC 4180 asks for it.
pub fn write_row<T: TableRow>(row: &T, out: &mut Vec<u8>) {
    let row = serde_json::to_value(row).expect("a row is a struct of numbers and texts");
    let mut writer = csv::WriterBuilder::new()
        .buffer_capacity(ROW_BYTES)
        .from_writer(out);
    writer
        .write_record(T::columns().map(|column| field(&row[column])))
        .and_then(|()| writer.flush().map_err(csv::Error::from))
        .expect("a vector takes every write");
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

/// A row of the widest table has some fifty fields.
const ROW_BYTES: usize = 512;

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

/// Defines the columns from one list: the field of each, its latency and its quantile.
macro_rules! columns {
    ($($(#[$doc:meta])* $column:ident: $kind:ident at $quantile:literal,)*) => {
        /// Quantiles of the events of a row, in milliseconds; empty where nothing happened. `series.csv`
        /// has those that change within seconds, `steps.csv` all of them.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        pub struct LatencyColumns {
            $($(#[$doc])* pub $column: Option<f64>,)*
            /// The columns among these that are lower bounds, apart by blanks: so many others had waited
            /// longer at the end of the row, and were not answered or in no block yet.
            #[serde(default)]
            pub at_least: String,
        }

        impl LatencyColumns {
            pub(crate) fn of(latencies: &LatencySet) -> Self {
                let at = |kind, quantile| {
                    let value = latencies.of(kind).quantile(quantile);
                    value.map(Nanos::as_millis_f64)
                };
                Self {
                    $($column: at(LatencyKind::$kind, $quantile),)*
                    at_least: String::new(),
                }
            }

            /// A column by its name; `None` when it is empty.
            pub fn figure(&self, name: &str) -> Option<LatencyFigure> {
                let millis = match name {
                    $(stringify!($column) => self.$column,)*
                    _ => None,
                }?;
                let raised = self.at_least.split(' ').any(|raised| raised == name);
                Some(LatencyFigure {
                    without_own: None,
                    millis,
                    at_most: (!raised).then_some(millis),
                })
            }
        }

        pub(crate) const LATENCY_COLUMNS: &[(&str, LatencyKind, f64)] =
            &[$((stringify!($column), LatencyKind::$kind, $quantile)),*];
    };
}

columns! {
    /// Median of sent − due.
    lateness_p50_ms: Lateness at 0.50,
    /// 99 % of sent − due.
    lateness_p99_ms: Lateness at 0.99,
    /// Maximum of sent − due.
    lateness_max_ms: Lateness at 1.0,
    /// Median of accepted − due.
    accept_p50_ms: AcceptResponse at 0.50,
    /// 95 % of accepted − due.
    accept_p95_ms: AcceptResponse at 0.95,
    /// 99 % of accepted − due.
    accept_p99_ms: AcceptResponse at 0.99,
    /// Median of accepted − sent.
    service_p50_ms: AcceptService at 0.50,
    /// 99 % of accepted − sent.
    service_p99_ms: AcceptService at 0.99,
    /// Median of committed − due.
    commit_p50_ms: CommitFromDue at 0.50,
    /// 95 % of committed − due.
    commit_p95_ms: CommitFromDue at 0.95,
    /// 99 % of committed − due.
    commit_p99_ms: CommitFromDue at 0.99,
}

/// A second of an observed node. A field is empty that it did not report; depths and sizes are the last ones of the second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Seconds since the origin.
    pub second: u64,
    /// Its name.
    pub node: String,
    /// Questions for its mempool in this second.
    pub asked: u64,
    /// Those that it answered.
    pub answered: u64,
    /// The newest block seen of it.
    pub height: Option<u64>,
    /// Transactions in its mempool.
    pub mempool_txs: Option<u64>,
    /// Their bytes.
    pub mempool_bytes: Option<u64>,
    /// Blocks that it showed in this second.
    pub blocks: u64,
    /// Transactions in them.
    pub block_txs: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Transactions a second that it took into its mempool: what the mempool grew by and what blocks took out of
    /// it, between the last answer of the second before and the last of this one.
    pub admitted_tps: Option<f64>,
    /// Processor time of its process over this second, in cores.
    pub cpu: Option<f64>,
    /// The same of its busiest thread.
    pub busiest_thread: Option<f64>,
    /// Processor time of everything on its machine, in cores.
    pub machine_cpu: Option<f64>,
    /// Memory that it holds.
    pub rss_bytes: Option<u64>,
    /// Its threads.
    pub threads: Option<u64>,
    /// Bytes that it had fetched from disk since the row before.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that it had written to disk since then.
    pub disk_written_bytes: Option<u64>,
    /// Bytes that came in over the interfaces that its process sees, since then.
    pub net_received_bytes: Option<u64>,
    /// Bytes that went out over them.
    pub net_sent_bytes: Option<u64>,
    /// Bits a second in the busier direction of the link that is nearest its capacity, of those whose capacity the
    /// system knows.
    pub link_bits: Option<f64>,
    /// What that link carries in a direction, in bits a second.
    pub link_capacity_bits: Option<f64>,
    /// The fewest transactions in its mempool that an answer in this second reported.
    pub mempool_min: Option<u64>,
    /// The most.
    pub mempool_max: Option<u64>,
    /// Calls of `CheckTx` that ended since the row before, by the node's own metrics.
    pub checks: Option<u64>,
    /// Of them, those of transactions that a block left in the mempool.
    pub rechecks: Option<u64>,
    /// The time of these calls, in seconds, with what they waited for the application.
    pub checking_s: Option<f64>,
    /// The time of the calls that execute and commit blocks.
    pub executing_s: Option<f64>,
    /// The time of consensus' step Commit, in which blocks are stored and executed, and the mempool is checked again.
    pub commit_step_s: Option<f64>,
}

impl TableRow for NodeRow {
    const FILE: &'static str = "nodes.csv";
    const HEADER: &'static str = "second,node,asked,answered,height,mempool_txs,mempool_bytes,blocks,block_txs,block_bytes,admitted_tps,cpu,busiest_thread,machine_cpu,rss_bytes,threads,disk_read_bytes,disk_written_bytes,net_received_bytes,net_sent_bytes,link_bits,link_capacity_bits,mempool_min,mempool_max,checks,rechecks,checking_s,executing_s,commit_step_s\n";
}

/// A node had a block, or one of the sampled transactions, for the first time; or a block left its best chain.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SightRow {
    /// `block`, `tx` or `left`.
    pub kind: String,
    /// The block's hash (its height, on a chain that identifies blocks by it), or the transaction's id.
    pub id: String,
    /// The node's name.
    pub node: String,
    /// When it was seen there, nanoseconds since the origin.
    pub seen_ns: u64,
    /// How much earlier it may have been there; empty where the node announced it.
    pub resolution_ms: Option<f64>,
    /// Bytes of the block.
    pub bytes: Option<u64>,
    /// Transactions in the block.
    pub txs: Option<u64>,
    /// When the transaction was sent, nanoseconds since the origin.
    pub sent_ns: Option<u64>,
    /// The block's height.
    pub height: Option<u64>,
}

impl SightRow {
    /// The kind of a block's sight.
    pub const BLOCK: &'static str = "block";
    /// The kind of a block that left the best chain of a node.
    pub const LEFT: &'static str = "left";
    /// The kind of a transaction's sight.
    pub const TX: &'static str = "tx";
}

impl TableRow for SightRow {
    const FILE: &'static str = "sights.csv";
    const HEADER: &'static str = "kind,id,node,seen_ns,resolution_ms,bytes,txs,sent_ns,height\n";
}
