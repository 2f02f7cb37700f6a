//! Counters and levels of a node.

use std::sync::atomic::{AtomicU64, Ordering};

use admission::Counters;
use serde::Serialize;

use crate::host::{Chain, Host};

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
    pub admission: Option<AdmissionCounts>,
}

/// What admission to the mempool has done since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct AdmissionCounts {
    /// Transactions taken in to be checked.
    pub submitted: u64,
    /// Accepted.
    pub accepted: u64,
    /// Rejected.
    pub rejected: u64,
    /// Told that they are orphans.
    pub orphaned: u64,
    /// Refused because they were being checked already.
    pub duplicates: u64,
    /// Refused because too many were under way.
    pub full: u64,
    /// Times that one waited for the next epoch because of what it spends.
    pub deferred: u64,
    /// Times that one waited for its parent.
    pub waited: u64,
    /// Commits, each the end of an epoch.
    pub commits: u64,
}

impl From<Counters> for AdmissionCounts {
    fn from(counted: Counters) -> Self {
        Self {
            submitted: counted.submitted,
            accepted: counted.accepted,
            rejected: counted.rejected,
            orphaned: counted.orphaned,
            duplicates: counted.duplicates,
            full: counted.full,
            deferred: counted.deferred,
            waited: counted.waited,
            commits: counted.commits,
        }
    }
}

impl Snapshot {
    /// What they are now.
    pub(crate) fn of(host: &Host, chain: &dyn Chain) -> Self {
        let counters = &host.counters;
        let mut now = Self {
            committed: read(&counters.committed),
            requests: read(&counters.requests),
            connections: read(&counters.connections),
            open_connections: read(&counters.open_connections),
            restarts: host.faults.now().restarts,
            ..Self::default()
        };
        chain.describe(&mut now);
        now
    }
}

/// The value of a counter.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
