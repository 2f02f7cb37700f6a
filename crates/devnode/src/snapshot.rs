//! Counters and levels of a node.

use std::sync::atomic::{AtomicU64, Ordering};

use admission::Counters;
use serde::Serialize;

use crate::host::{BlockMaker, Host};

/// What a node has done and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Newest height.
    pub height: u64,
    /// Lowest height that is kept.
    pub base: u64,
    /// Transactions in the mempool.
    pub mempool_txs: usize,
    /// Their bytes.
    pub mempool_bytes: u64,
    /// Transactions in blocks since the start.
    pub committed: u64,
    /// Broadcasts received since the start.
    pub broadcasts: u64,
    /// Broadcasts that the mempool refused.
    pub refused: u64,
    /// Requests received since the start: HTTP requests and WebSocket messages.
    pub requests: u64,
    /// Connections accepted since the start.
    pub connections: u64,
    /// Connections open now.
    pub open_connections: u64,
    /// Times the node was restarted.
    pub restarts: u64,
    /// What admission did, if the configuration has one.
    pub admission: Option<Counters>,
}

impl Snapshot {
    /// What they are now.
    pub(crate) fn of(host: &Host, maker: &dyn BlockMaker) -> Self {
        let counters = &host.counters;
        let mut now = Self {
            committed: read(&counters.committed),
            requests: read(&counters.requests),
            connections: read(&counters.connections),
            open_connections: read(&counters.open_connections),
            restarts: host.faults.now().restarts,
            ..Self::default()
        };
        maker.describe(&mut now);
        now
    }
}

/// The value of a counter.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
