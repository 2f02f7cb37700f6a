//! What is counted of each client and the rule by which it is shared, and what it has done and seen at the nodes.

use std::time::Duration;

use pacing::Nanos;

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

/// Whether one who holds `own` of `all` while so much is free keeps to its share; it may hold `least` in any case.
pub(super) const fn is_fair(own: usize, free: usize, all: usize, least: usize) -> bool {
    own <= least || own.saturating_add(all / RESERVE) <= free
}

/// The part of all there is, one in so many, that is left to clients that hold little.
pub(super) const RESERVE: usize = 16;

/// Of one client. It is forgotten with the rest of the client's state.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When it wrote last; 0 if it never did.
    pub(super) wrote_at: Nanos,
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

impl Seen {
    /// It has read from a node of this height.
    pub(super) fn read(&mut self, height: u64, now: Nanos) {
        self.height = height.max(self.current(now));
        self.read_at = now;
    }

    /// Where its reads should go; it may have subscriptions.
    pub(super) fn reader(&self, is_subscribed: bool, now: Nanos) -> Reader {
        let wrote = self.wrote_at > Nanos::ZERO && now.saturating_sub(self.wrote_at) < WRITER_FOR;
        Reader {
            stays: wrote || is_subscribed,
            height: self.current(now),
        }
    }

    fn current(&self, now: Nanos) -> u64 {
        let is_recent = now.saturating_sub(self.read_at) < SEEN_FOR;
        if is_recent { self.height } else { 0 }
    }
}

/// A transaction is in a block of every node by then.
const WRITER_FOR: Nanos = Nanos::from_secs(30);
/// What no node has reached by then was no height of this chain, or is lost.
pub(crate) const SEEN_FOR: Nanos = Nanos::from_secs(30);
