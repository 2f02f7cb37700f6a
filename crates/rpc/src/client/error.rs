//! Why a query has no result.

use std::error::Error;
use std::io;

use crate::endpoint::{Endpoint, Transport};

/// Why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// The client cannot be built.
    #[error("{endpoint} cannot be used: {reason}")]
    Setup {
        /// The node.
        endpoint: String,
        /// What is in the way.
        reason: String,
    },
    /// The address does not answer, or the connection broke.
    #[error(
        "{endpoint} cannot be reached: {reason}; check that the node runs and that host and port are right"
    )]
    Unreachable {
        /// The node.
        endpoint: String,
        /// The innermost cause.
        reason: String,
    },
    /// TLS was wanted, and what answers speaks none.
    #[error(
        "{endpoint} answers without TLS; write {plain}:// in place of {tls}://, or check the port"
    )]
    NotTls {
        /// The node.
        endpoint: String,
        /// The scheme that would do.
        plain: &'static str,
        /// The scheme that was given.
        tls: &'static str,
    },
    /// No complete answer within the limit.
    #[error("{endpoint} did not answer in time; the node hangs, is overloaded or is not a node")]
    Timeout {
        /// The node.
        endpoint: String,
    },
    /// Something answers, but not JSON-RPC.
    #[error("{endpoint} is not a node's RPC: it answered {answer}; check host, port and path")]
    NotRpc {
        /// Whom was asked.
        endpoint: String,
        /// What it answered, cut short.
        answer: String,
    },
    /// The node wants a user and a password, or others.
    #[error(
        "{endpoint} refuses the user or the password (HTTP 401); write them into the URL, as in http://user:password@host:port"
    )]
    Unauthorized {
        /// Whom was asked.
        endpoint: String,
    },
    /// Something answers, but not BigchainDB's HTTP API.
    #[error(
        "{endpoint} is not BigchainDB's HTTP API: it answered {answer}; check host and port (9984 unless it was configured otherwise)"
    )]
    NotBigchaindb {
        /// Whom was asked.
        endpoint: String,
        /// What it answered, cut short.
        answer: String,
    },
    /// The answer is longer than [`ClientOptions::max_answer_bytes`](crate::ClientOptions).
    #[error("{endpoint} answered more than {limit} bytes; raise the limit or make blocks smaller")]
    TooLarge {
        /// The node.
        endpoint: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// A Bitcoin node does not speak with us as its peers do.
    #[error("{endpoint}: {reason}")]
    Peer {
        /// The node.
        endpoint: String,
        /// What is the matter.
        reason: String,
    },
    /// A JSON-RPC error.
    #[error("the node refused {method}: {message}{}{data} (code {code})", if data.is_empty() { "" } else { ": " })]
    Rpc {
        /// The method called.
        method: String,
        /// The JSON-RPC code, such as -32603.
        code: i64,
        /// The short message.
        message: String,
        /// The detail; CometBFT puts the real text here.
        data: String,
    },
    /// A JSON-RPC result of another shape than CometBFT's.
    #[error(
        "{endpoint} answered {method} in another form than Tendermint 0.20 to CometBFT 1.0: {reason}"
    )]
    Unexpected {
        /// The node.
        endpoint: String,
        /// The method called.
        method: String,
        /// What does not fit.
        reason: String,
    },
}

impl ClientError {
    pub(super) fn of_request(endpoint: &Endpoint, error: &reqwest::Error) -> Self {
        let (plain, tls) = match endpoint.transport() {
            Transport::Http | Transport::P2p => ("http", "https"),
            Transport::Ws => ("ws", "wss"),
        };
        let endpoint = endpoint.to_string();
        if error.is_timeout() {
            return Self::Timeout { endpoint };
        }
        let reason = cause(error);
        if causes(error).any(is_not_tls) {
            return Self::NotTls {
                endpoint,
                plain,
                tls,
            };
        }
        // What cannot be parsed as HTTP is an answer, only not one of a node.
        if causes(error).any(|cause| cause.downcast_ref().is_some_and(hyper::Error::is_parse)) {
            return Self::NotRpc {
                endpoint,
                answer: format!("something that is not HTTP ({reason})"),
            };
        }
        Self::Unreachable { endpoint, reason }
    }

    pub(super) fn not_rpc(endpoint: &Endpoint, status: Option<u16>, body: &[u8]) -> Self {
        if status == Some(UNAUTHORIZED) {
            return Self::Unauthorized {
                endpoint: endpoint.to_string(),
            };
        }
        Self::NotRpc {
            endpoint: endpoint.to_string(),
            answer: quoted(status, body),
        }
    }

    /// An answer that is none of a BigchainDB.
    pub fn not_bigchaindb(endpoint: &Endpoint, status: u16, body: &[u8]) -> Self {
        Self::NotBigchaindb {
            endpoint: endpoint.to_string(),
            answer: quoted(Some(status), body),
        }
    }

    /// Whether something came back, from the node or from what stands in its place.
    pub const fn is_an_answer(&self) -> bool {
        self.is_from_node()
            || matches!(
                self,
                Self::NotRpc { .. } | Self::NotBigchaindb { .. } | Self::Unauthorized { .. }
            )
    }

    /// Whether the node itself said no, so that the way to it is fine.
    pub const fn is_from_node(&self) -> bool {
        matches!(
            self,
            Self::Rpc { .. } | Self::Unexpected { .. } | Self::TooLarge { .. }
        )
    }
}

/// The last cause, which names what the system or the server did.
pub(super) fn cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

/// Whether the other side answered a TLS handshake with something else.
fn is_not_tls(mut error: &(dyn Error + 'static)) -> bool {
    // The source of an I/O error is that of what it carries.
    while let Some(carried) = error.downcast_ref().and_then(io::Error::get_ref) {
        error = carried;
    }
    let invalid = rustls::InvalidMessage::InvalidContentType;
    error.downcast_ref() == Some(&rustls::Error::InvalidMessage(invalid))
}

/// A foreign answer as an error quotes it.
fn quoted(status: Option<u16>, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN * 4)]);
    if text.trim_start().starts_with('<') {
        let status = status.map_or(String::new(), |status| format!(" (HTTP {status})"));
        return format!("with a web page{status}, so a web server or a proxy listens there");
    }
    let mut shown: String = text
        .chars()
        .filter(|char| !char.is_control())
        .take(SHOWN)
        .collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let status = status
        .map(|status| format!("HTTP {status} with "))
        .unwrap_or_default();
    format!("{status}'{shown}'")
}

const UNAUTHORIZED: u16 = 401;
/// Characters of a foreign answer that an error quotes.
const SHOWN: usize = 80;
