//! What is counted of each client, and what it has done and seen at the nodes, where there are several.

use std::time::Duration;

use fairq::ClientKey;
use pacing::Nanos;

use super::Budget;
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

/// Of one client. It is forgotten with the rest of the client's state.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When it wrote last; 0 if it never did.
    wrote_at: Nanos,
    /// The height of the node that it read from last, and when.
    height: u64,
    read_at: Nanos,
}

/// Where a client's reads should go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reader {
    /// It writes, or has subscriptions: to the node that has these.
    pub(crate) stays: bool,
    /// To a node of this height at least.
    pub(crate) height: u64,
}

impl Budget {
    /// A client writes.
    pub(crate) fn note_write(&self, client: ClientKey) {
        self.with_seen(client, |seen, now| seen.wrote_at = now);
    }

    /// A client has read from a node of this height.
    pub(crate) fn note_read(&self, client: ClientKey, height: u64) {
        self.with_seen(client, |seen, now| {
            seen.height = height.max(seen.current(now));
            seen.read_at = now;
        });
    }

    /// Where a client's reads should go.
    pub(crate) fn reader(&self, client: ClientKey) -> Reader {
        let (state, now) = (self.0.state.lock(), self.now());
        let Some(usage) = state.clients.peek(&client) else {
            return Reader::default();
        };
        let seen = &usage.seen;
        let wrote = seen.wrote_at > Nanos::ZERO && now.saturating_sub(seen.wrote_at) < WRITER_FOR;
        Reader {
            stays: wrote || usage.held[Kind::Subscription as usize] > 0,
            height: seen.current(now),
        }
    }

    fn with_seen(&self, client: ClientKey, change: impl FnOnce(&mut Seen, Nanos)) {
        let (mut state, now) = (self.0.state.lock(), self.now());
        change(&mut state.clients.entry(client, now).state.seen, now);
    }
}

impl Seen {
    fn current(&self, now: Nanos) -> u64 {
        let is_recent = now.saturating_sub(self.read_at) < SEEN_FOR;
        if is_recent { self.height } else { 0 }
    }
}

/// A transaction is in a block of every node by then.
const WRITER_FOR: Nanos = Nanos::from_secs(30);
/// What no node has reached by then was no height of this chain, or is lost.
pub(crate) const SEEN_FOR: Nanos = Nanos::from_secs(30);
