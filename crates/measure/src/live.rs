//! What a progress line shows.

use serde::Serialize;

use crate::rows::SeriesRow;

/// The last closed second and the totals so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveView {
    /// The last closed second; `None` before the first.
    pub second: Option<SeriesRow>,
    /// Totals so far, of everything that was reported.
    pub totals: Totals,
    /// Sent, and answer or block still awaited.
    pub pending: u64,
}

/// Totals so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Handed to a socket.
    pub sent: u64,
    /// Given up.
    pub unsent: u64,
    /// Answered with code 0.
    pub accepted: u64,
    /// Answered with another code or a JSON-RPC error.
    pub rejected: u64,
    /// Without a usable answer.
    pub errors: u64,
    /// Own transactions seen in blocks, any code.
    pub in_blocks: u64,
    /// Blocks.
    pub blocks: u64,
}
