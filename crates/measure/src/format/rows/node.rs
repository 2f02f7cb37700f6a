//! `nodes.csv`: one row a second of each observed node; `sights.csv`: when each node had a block or a transaction.

use serde::{Deserialize, Serialize};

use super::TableRow;

/// A second of an observed node. Empty is what it did not say; depths and sizes are the last ones said in it.
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
    /// The fewest transactions in its mempool that an answer in this second told of.
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
