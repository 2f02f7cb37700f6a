//! What goes wrong on the way to a node.

use std::time::Duration;

use rpc::Endpoint;

use crate::refusal::{Reason, Refusal};

/// Why a node gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// This endpoint cannot be used at all, and why.
    #[error("{0} cannot be used: {1}")]
    Setup(String, String),
    /// No connection to this endpoint, and why: nothing was sent.
    #[error("{0} cannot be reached: {1}")]
    Connect(String, String),
    /// No connection to this endpoint within the limit: nothing was sent.
    #[error("{0} took no connection in time")]
    ConnectTimeout(String),
    /// No answer of this endpoint within the limit; the node may have seen the request.
    #[error("{0} did not answer in time")]
    Timeout(String),
    /// The connection to this endpoint ended before the answer did, and why; the node may have seen
    /// the request.
    #[error("{0} broke the connection off: {1}")]
    Broken(String, String),
    /// The answer of this endpoint is no HTTP, or not the answer to the request, and why.
    #[error("{0} answered something unreadable: {1}")]
    Garbage(String, String),
    /// The request cannot be put into HTTP, and why.
    #[error("the request cannot be forwarded: {0}")]
    Request(String),
    /// The answer is longer than this many bytes, which may be held.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    /// The byte ledger is full.
    #[error("the buffers are full")]
    Memory,
    /// The node answered with a JSON-RPC error, and its text.
    #[error("the node refused: {0}")]
    Refused(String),
}

impl UpstreamError {
    /// This endpoint cannot be used, and why.
    pub(super) fn setup(endpoint: &Endpoint, reason: &impl ToString) -> Self {
        Self::Setup(endpoint.to_string(), reason.to_string())
    }

    /// Whether the node cannot have seen the request.
    pub(super) const fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(..) | Self::ConnectTimeout(_))
    }

    /// The text for the client of a read. The endpoint's address is left out: it is the operator's
    /// business.
    pub fn refusal(&self) -> Refusal {
        let upstream = |text: &str| Refusal::new(Reason::Upstream, text);
        match self {
            Self::Memory => Refusal::buffers_full(),
            Self::Request(_) => Refusal::new(Reason::Parse, self.to_string()),
            Self::Timeout(_) => {
                upstream("the node did not answer in time").retry_after(SHORT_PAUSE)
            }
            Self::Broken(..) => {
                upstream("the node broke the connection off").retry_after(SHORT_PAUSE)
            }
            Self::Garbage(..) => upstream("the node answered something that cannot be read"),
            Self::Setup(..) | Self::Connect(..) | Self::ConnectTimeout(_) => {
                upstream("no node can be reached").retry_after(SHORT_PAUSE)
            }
            Self::TooLarge(_) | Self::Refused(_) => upstream(&self.to_string()),
        }
    }
}

impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Self {
        error.refusal()
    }
}

/// A node that restarts is back within seconds.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
