//! What a connection tells its event loop, the bounds of what it reads, and how it ends.

use std::{fmt, io};

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
    /// The other side announced that this answer was its last (`Connection: close`); it was delivered.
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
    #[error(
        "the websocket upgrade failed: {reason}; check the path (CometBFT: /websocket) and that gateways pass upgrades"
    )]
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

/// Bounds of what is read, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) head: usize,
    pub(super) message: usize,
}

impl Limits {
    /// The length of a message, if it is within the bound.
    #[inline]
    pub(super) fn check_message(self, len: u64) -> Result<usize, ConnectionError> {
        match usize::try_from(len) {
            Ok(len) if len <= self.message => Ok(len),
            _ => Err(ConnectionError::TooLarge {
                what: "message",
                limit: self.message,
            }),
        }
    }
}

/// What the event loop should wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Wait until there is something to read.
    pub read: bool,
    /// Wait until there is room to write.
    pub write: bool,
}

/// How far a flush came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Every byte before this stream offset has been handed to the socket.
    pub written_to: u64,
    /// Whether something is left because the socket takes no more (or is not connected yet).
    pub blocked: bool,
}

/// One complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The HTTP body or the WebSocket message, not checked for being text or JSON.
    pub body: &'a [u8],
    /// The HTTP status; 200 for a WebSocket message.
    pub status: u16,
    /// When its last bytes reached the machine, in nanoseconds since the Unix epoch by the system's
    /// clock; with [`ConnectionOptions::arrival_stamps`](super::ConnectionOptions::arrival_stamps).
    pub arrived_unix_ns: Option<u64>,
}

impl<'a> Message<'a> {
    /// A message of which it is not known when it came.
    #[inline]
    pub(super) const fn new(body: &'a [u8], status: u16) -> Self {
        Self {
            body,
            status,
            arrived_unix_ns: None,
        }
    }
}

/// What one call of [`Connection::read`](super::Connection::read) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Messages handed over.
    pub messages: u32,
    /// Bytes taken from the socket (decrypted ones with TLS).
    pub bytes: usize,
    /// Whether the socket may have more: it gave all that there was room for. Under TLS until it gives nothing.
    pub has_more: bool,
}

/// What a connection has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages queued.
    pub messages_out: u64,
    /// Messages handed over.
    pub messages_in: u64,
    /// Bytes received after the handshakes.
    pub bytes_in: u64,
    /// WebSocket pings received.
    pub pings: u64,
    /// Pings left unanswered because more than 64 KiB were waiting to be written.
    pub pings_skipped: u64,
}
