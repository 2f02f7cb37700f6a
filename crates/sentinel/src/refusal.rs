//! Why a request was not served, as a value; `respond` turns it into the node's dialect.

use std::time::Duration;

/// Why a request was not served, and when it makes sense to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When to try again, from the backlog; none when trying again does not help.
    pub retry_after: Option<Duration>,
    /// Whether the node may have seen the transaction.
    pub forwarded: Forwarded,
    /// A few words for the human who reads the error, lower case, without full stop.
    pub detail: String,
}

/// Whether the node may have seen a refused transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// It has not.
    No,
    /// It may have: look for the hash before sending again.
    Unknown,
}

/// Why a request was not served. The names are label values of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Over a rate of the read lane or over a share.
    Rate,
    /// The client's own queue is full.
    QueueFull,
    /// It would wait, or has waited, longer than the deadline.
    QueueTimeout,
    /// The byte ledger is full.
    Bytes,
    /// Too many elements in a batch.
    Batch,
    /// Body, head, target or message too large.
    Body,
    /// Too many connections.
    Connections,
    /// Not HTTP, not JSON-RPC, or too deep.
    Parse,
    /// The proxy is going down.
    Shutdown,
    /// No node can be reached, or it did not answer.
    Upstream,
    /// The client's network is not allowed.
    Denied,
    /// The method is not allowed.
    Method,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Rate,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::Bytes,
        Self::Batch,
        Self::Body,
        Self::Connections,
        Self::Parse,
        Self::Shutdown,
        Self::Upstream,
        Self::Denied,
        Self::Method,
    ];

    /// The name in metrics and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::Bytes => "bytes",
            Self::Batch => "batch",
            Self::Body => "body",
            Self::Connections => "conns",
            Self::Parse => "parse",
            Self::Shutdown => "shutdown",
            Self::Upstream => "upstream",
            Self::Denied => "denied",
            Self::Method => "method",
        }
    }
}

/// When room may be there again: a second's worth of forwarded writes.
const ROOM_RETRY: Duration = Duration::from_secs(1);

impl Refusal {
    /// A refusal before anything was forwarded.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self {
            reason,
            retry_after: None,
            forwarded: Forwarded::No,
            detail: detail.into(),
        }
    }

    /// There is no room in the ledger of buffered bytes.
    pub fn buffers_full() -> Self {
        Self::new(Reason::Bytes, "the buffers are full").retry_after(ROOM_RETRY)
    }

    /// With a time after which trying again makes sense.
    #[must_use]
    pub const fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// The node may have seen the transaction.
    #[must_use]
    pub const fn maybe_forwarded(mut self) -> Self {
        self.forwarded = Forwarded::Unknown;
        self
    }
}
