//! What a connection tells its event loop, and the bounds of what it reads.

use super::error::ConnectionError;

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
