//! What goes wrong on the way to a node.

use std::time::Duration;

use crate::refusal::{Reason, Refusal};

/// Why a node gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// The endpoint cannot be used at all.
    #[error("{endpoint} cannot be used: {reason}")]
    Setup {
        /// The node.
        endpoint: String,
        /// What is in the way.
        reason: String,
    },
    /// No connection: nothing was sent.
    #[error("{endpoint} cannot be reached: {reason}")]
    Connect {
        /// The node.
        endpoint: String,
        /// What the system said.
        reason: String,
    },
    /// No answer within the limit; the node may have seen the request.
    #[error("{endpoint} did not answer in time")]
    Timeout {
        /// The node.
        endpoint: String,
    },
    /// The connection ended before the answer did; the node may have seen the request.
    #[error("{endpoint} broke the connection off: {reason}")]
    Broken {
        /// The node.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// The answer is no HTTP, or not the answer to the request.
    #[error("{endpoint} answered something unreadable: {reason}")]
    Garbage {
        /// The node.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The request cannot be put into HTTP.
    #[error("the request cannot be forwarded: {reason}")]
    Request {
        /// Why.
        reason: String,
    },
    /// The answer is longer than what may be held.
    #[error("the answer is longer than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The byte ledger is full.
    #[error("the buffers are full")]
    Memory,
    /// The node said no, in JSON-RPC.
    #[error("the node refused: {reason}")]
    Refused {
        /// The node's words.
        reason: String,
    },
}

impl UpstreamError {
    /// Whether the node may have seen the request.
    pub const fn is_ambiguous(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. } | Self::Broken { .. } | Self::Garbage { .. }
        )
    }

    /// What the client of a read is told.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Memory => Refusal::new(Reason::Bytes, self.to_string()).retry_after(SHORT_PAUSE),
            Self::Request { .. } => Refusal::new(Reason::Parse, self.to_string()),
            // The endpoint's address is the operator's business, not the client's.
            Self::Timeout { .. } => {
                Refusal::new(Reason::Upstream, "the node did not answer in time")
                    .retry_after(SHORT_PAUSE)
            }
            Self::Broken { .. } => {
                Refusal::new(Reason::Upstream, "the node broke the connection off")
                    .retry_after(SHORT_PAUSE)
            }
            Self::Garbage { .. } => Refusal::new(
                Reason::Upstream,
                "the node answered something that cannot be read",
            ),
            Self::Setup { .. } | Self::Connect { .. } => {
                Refusal::new(Reason::Upstream, "no node can be reached").retry_after(SHORT_PAUSE)
            }
            Self::TooLarge { .. } | Self::Refused { .. } => {
                Refusal::new(Reason::Upstream, self.to_string())
            }
        }
    }
}

/// A node that restarts is back within seconds.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
