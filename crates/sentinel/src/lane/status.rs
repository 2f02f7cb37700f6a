//! How the lane stands, for those who watch it.

use pacing::Rate;

use super::state::Accounts;
use crate::metrics::ControllerState;

/// How the lane stands. Published by the pump twenty times a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The node that takes the writes, by its place in the list.
    pub node: Option<usize>,
    /// Whether the write connections are up.
    pub connected: bool,
    /// Writes under way on them.
    pub in_flight: usize,
    /// Writes that wait to be offered again.
    pub waiting_again: usize,
    /// Whether a break is being dealt with.
    pub recovering: bool,
    /// Accepted transactions that no block has shown yet.
    pub retained: usize,
    /// Their bytes.
    pub retained_bytes: usize,
    /// `broadcast_tx_commit` calls that wait for a block.
    pub commits: usize,
    /// Acknowledged writes that the node refused later.
    pub broken_promises: u64,
    /// Where the break controller stands.
    pub state: ControllerState,
    /// Transactions a second that the chain commits, smoothed.
    pub committed_rate: f64,
    /// Whether the pace has neither blocks nor mempool to go by.
    pub blind: bool,
    /// Writes a second that the pace allows.
    pub rate: Rate,
    /// Writes in the queue.
    pub queued: usize,
    /// Their bytes.
    pub queued_bytes: usize,
    /// Clients that have any.
    pub backlogged_clients: usize,
    /// Clients that are remembered.
    pub known_clients: usize,
    /// Clients that were forgotten for others.
    pub evictions: u64,
    /// Clients that share overflow flows, because the table is full.
    pub overflow_clients: usize,
    /// How admitted writes ended.
    pub accounts: Accounts,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            node: None,
            connected: false,
            in_flight: 0,
            waiting_again: 0,
            recovering: false,
            retained: 0,
            retained_bytes: 0,
            commits: 0,
            broken_promises: 0,
            state: ControllerState::Running,
            committed_rate: 0.0,
            blind: true,
            rate: Rate::ZERO,
            queued: 0,
            queued_bytes: 0,
            backlogged_clients: 0,
            known_clients: 0,
            evictions: 0,
            overflow_clients: 0,
            accounts: Accounts::default(),
        }
    }
}
