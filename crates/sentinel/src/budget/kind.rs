//! What is counted of each client.

use std::time::Duration;

use crate::refusal::{Reason, Refusal};

/// What is counted while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A connection, or a request on one of a trusted proxy's.
    Connection,
    Read,
    /// A query of this client alone.
    Query,
    Subscription,
    /// A `broadcast_tx_commit` that is under way or waits for its block.
    Commit,
    /// A TLS handshake.
    Handshake,
}

pub(super) const KINDS: usize = 6;

impl Kind {
    /// The text for a client that has as many as it may.
    pub(super) fn refusal(self, held: u32) -> Refusal {
        let (reason, text) = match self {
            Self::Connection => (
                Reason::Connections,
                format!("this client has too many connections: {held}"),
            ),
            Self::Read => (
                Reason::Rate,
                format!("{held} reads of this client are under way"),
            ),
            Self::Query => (
                Reason::Connections,
                format!("this client has brought {held} of the distinct queries already"),
            ),
            Self::Subscription => (
                Reason::Connections,
                format!("this client has {held} subscriptions already"),
            ),
            Self::Commit => (
                Reason::Rate,
                format!(
                    "{held} broadcast_tx_commit calls of this client wait for a block; use broadcast_tx_sync"
                ),
            ),
            Self::Handshake => (
                Reason::Connections,
                format!("{held} TLS handshakes of this client are under way"),
            ),
        };
        let refusal = Refusal::new(reason, text);
        match self {
            Self::Connection | Self::Read | Self::Commit | Self::Handshake => {
                refusal.retry_after(BUSY_PAUSE)
            }
            Self::Query | Self::Subscription => refusal,
        }
    }
}

/// A read takes some milliseconds, and connections end when their clients please: a guess.
pub(super) const BUSY_PAUSE: Duration = Duration::from_secs(1);
