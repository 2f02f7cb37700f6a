//! The state of the lane in numbers, for metrics and the operator's pages.

use control::{Bound, BreakState};
use pacing::Rate;

use super::accounts::Accounts;
use super::scarcity::Shortage;

/// The state of the lane. Published by the worker twenty times a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The node that takes the writes, by its place in the list.
    pub node: Option<usize>,
    /// Whether the write connections are up.
    pub connected: bool,
    /// Write connections that are up.
    pub connections: usize,
    /// Writes under way on them.
    pub in_flight: usize,
    /// Bytes of accepted transactions that no block has shown yet.
    pub retained_bytes: usize,
    /// `broadcast_tx_commit` calls that wait for a block.
    pub commits: usize,
    /// The state of the break controller.
    pub state: BreakState,
    /// Transactions a second that the chain commits, smoothed.
    pub committed_rate: f64,
    /// Whether neither blocks nor the mempool's depth are known, so that only answers and refusals count.
    pub blind: bool,
    /// Writes a second that may be sent.
    pub rate: Rate,
    /// What shares are counted in.
    pub shortage: Shortage,
    /// Writes a second that leave while some wait all the time.
    pub served: Rate,
    /// What holds the next write back.
    pub bound: Bound,
    /// Writes in the queue.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Clients that have any.
    pub backlogged_clients: usize,
    /// Clients in the table.
    pub known_clients: usize,
    /// Clients that were evicted from the table.
    pub evictions: u64,
    /// How admitted writes ended.
    pub accounts: Accounts,
}
