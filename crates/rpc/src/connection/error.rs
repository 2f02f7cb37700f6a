//! How a connection ends.

use std::fmt;
use std::io;

use wire::http::{HttpError, ReplyError};
use wire::ws::{UpgradeError, WsError};

use super::options::TrustError;

/// Why a connection cannot be used any more; every variant is final.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The connect failed: the port is closed, or the address cannot be reached.
    #[error("cannot connect: {0}; check that the node runs and its RPC listens on this address")]
    Connect(#[source] io::Error),
    /// The socket broke: reset, network gone.
    #[error("the connection broke: {0}")]
    Broken(#[source] io::Error),
    /// TLS failed: an untrusted certificate, another protocol.
    #[error("TLS failed: {0}; check the scheme (http or https) and the trusted roots")]
    Tls(#[source] rustls::Error),
    /// The trusted roots could not be loaded.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The host cannot be used as a TLS server name.
    #[error("'{0}' cannot be checked against a certificate; use the node's host name")]
    ServerName(String),
    /// The other side closed without a close frame or an announcement.
    #[error("the node closed the connection{}", if *mid_message { " in the middle of an answer" } else { "" })]
    Closed {
        /// Whether part of an answer had arrived.
        mid_message: bool,
    },
    /// The other side said that this answer was its last (`Connection: close`); it was delivered.
    #[error("the node closed the connection after its answer")]
    ClosedAfterAnswer,
    /// A WebSocket close frame.
    #[error("the node closed the websocket (code {}, reason '{reason}')", .code.map_or("none".into(), |code| code.to_string()))]
    CloseFrame {
        /// The status code of RFC 6455, section 7.4; `None` when the frame had none.
        code: Option<u16>,
        /// The reason, often empty.
        reason: String,
    },
    /// The WebSocket upgrade was refused.
    #[error("the websocket upgrade failed: {reason}; check the path (CometBFT serves /websocket)")]
    Upgrade {
        /// What was wrong with the answer.
        reason: String,
    },
    /// Bytes that are not the protocol.
    #[error("the node does not speak {protocol}: {reason}; check that the endpoint is its RPC")]
    Malformed {
        /// `HTTP` or `WebSocket`.
        protocol: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// A head or a message beyond the limit in [`ConnectionOptions`](super::ConnectionOptions).
    #[error("the node's {what} is larger than {limit} bytes")]
    TooLarge {
        /// `head` or `message`.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// An HTTP answer without a request.
    #[error("the node sent an answer without a request")]
    Unsolicited,
}

pub(super) fn http(reason: &impl fmt::Display) -> ConnectionError {
    ConnectionError::Malformed {
        protocol: "HTTP",
        reason: reason.to_string(),
    }
}

const fn too_large(what: &'static str, limit: usize) -> ConnectionError {
    ConnectionError::TooLarge { what, limit }
}

impl From<ReplyError> for ConnectionError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::TooLarge(limit) => too_large("head", limit),
            error => http(&error),
        }
    }
}

impl From<HttpError> for ConnectionError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::BodyTooLarge(limit) => too_large("message", limit),
            HttpError::Chunk => http(&"a chunk has no valid size or a wrong end"),
            error => http(&error),
        }
    }
}

impl From<WsError> for ConnectionError {
    fn from(error: WsError) -> Self {
        match error {
            WsError::TooLarge(limit) => too_large("message", limit),
            error => Self::Malformed {
                protocol: "WebSocket",
                reason: error.to_string(),
            },
        }
    }
}

impl From<UpgradeError> for ConnectionError {
    fn from(error: UpgradeError) -> Self {
        match error {
            UpgradeError::Http(ReplyError::TooLarge(limit)) => too_large("head", limit),
            error => Self::Upgrade {
                reason: error.to_string(),
            },
        }
    }
}
