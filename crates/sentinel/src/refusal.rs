//! Why a request was not served, as a value; `respond` turns it into the node's dialect.

use std::time::Duration;

use wire::calls::OverLimit;

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

base::named! {
    /// Why a request was not served. The names stand in metrics and in errors.
    pub enum Reason {
        /// Over a rate of the read lane or over a share.
        Rate => "rate",
        /// The client's own queue is full.
        QueueFull => "queue_full",
        /// As many clients have writes waiting as may, and this one is not among them.
        Clients => "clients",
        /// It would wait, or has waited, longer than the deadline.
        QueueTimeout => "queue_timeout",
        /// The byte ledger is full.
        Bytes => "bytes",
        /// Too many elements in a batch.
        Batch => "batch",
        /// Body, head, target or message too large.
        Body => "body",
        /// Too many connections.
        Connections => "conns",
        /// Not HTTP, not JSON-RPC, or too deep.
        Parse => "parse",
        /// The proxy is going down.
        Shutdown => "shutdown",
        /// No node can be reached, or it did not answer.
        Upstream => "upstream",
        /// The client's network is not allowed.
        Denied => "denied",
        /// The method is not allowed.
        Method => "method",
    }
}

/// When room may be there again: a second's worth of forwarded writes.
const ROOM_RETRY: Duration = Duration::from_secs(1);
/// After this another proxy or the restarted one may answer.
const ELSEWHERE_RETRY: Duration = Duration::from_secs(5);

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

    /// The proxy is going down; another one may answer, or the restarted one.
    pub fn going_down() -> Self {
        Self::new(Reason::Shutdown, "the proxy is going down").retry_after(ELSEWHERE_RETRY)
    }

    /// A broadcast whose transaction the node may read, in a form that is not read here.
    pub fn unreadable() -> Self {
        let text = "the transaction cannot be read: POST it in base64 to /, or GET it as tx=\"text\" or tx=0xHEX";
        Self::new(Reason::Parse, text)
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

impl From<OverLimit> for Refusal {
    fn from(over: OverLimit) -> Self {
        let reason = match over {
            OverLimit::Depth(_) => Reason::Parse,
            OverLimit::Batch(_) => Reason::Batch,
        };
        Self::new(reason, over.to_string())
    }
}
