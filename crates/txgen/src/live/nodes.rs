//! The last reports of the followers on each node, for the views.

use pacing::Nanos;
use parking_lot::Mutex;

/// The latest of every node. Shared in an `Arc`; writing and looking are short locks.
#[derive(Debug, Default)]
pub struct NodeBoard {
    nodes: Mutex<Vec<NodeState>>,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// Its endpoint.
    pub name: String,
    /// The version it reports.
    pub version: String,
    /// The last block seen of it; 0 before the first.
    pub height: u64,
    /// When that was seen.
    pub block_at: Nanos,
    /// Transactions in that block.
    pub block_txs: u64,
    /// Transactions and bytes in its mempool, and when it said so.
    pub mempool: Option<(u64, u64, Nanos)>,
    /// Why its blocks cannot be followed at the moment.
    pub trouble: Option<String>,
}

impl NodeBoard {
    /// A board of nodes that nothing is known of.
    pub fn new(nodes: Vec<NodeState>) -> Self {
        Self {
            nodes: Mutex::new(nodes),
        }
    }

    /// The state of all, in the order of the endpoints.
    pub fn all(&self) -> Vec<NodeState> {
        self.nodes.lock().clone()
    }

    /// A block was seen.
    pub fn block(&self, node: u16, height: u64, txs: u64, at: Nanos) {
        self.change(node, |state| {
            if height > state.height {
                (state.height, state.block_txs, state.block_at) = (height, txs, at);
            }
            state.trouble = None;
        });
    }

    /// A node reported the depth of its mempool.
    pub fn mempool(&self, node: u16, txs: u64, bytes: u64, at: Nanos) {
        self.change(node, |state| state.mempool = Some((txs, bytes, at)));
    }

    /// Its blocks are followed, or follow again.
    pub fn connected(&self, node: u16) {
        self.change(node, |state| state.trouble = None);
    }

    /// Its blocks cannot be followed.
    pub fn lost(&self, node: u16, reason: &str) {
        self.change(node, |state| state.trouble = Some(reason.to_owned()));
    }

    fn change(&self, node: u16, change: impl FnOnce(&mut NodeState)) {
        if let Some(state) = self.nodes.lock().get_mut(usize::from(node)) {
            change(state);
        }
    }
}
