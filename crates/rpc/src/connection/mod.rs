//! A non-blocking connection for an event loop.

mod buffer;
mod error;
mod messages;
mod options;
mod stream;
mod task;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use rustls::pki_types::ServerName;
use wire::jsonrpc::{BroadcastMethod, broadcast_len, encode_broadcast};
use wire::ws::ClientHandshake;
use wire::ws::frame::{TEXT, write_masked};

use self::buffer::{InBuffer, OutBuffer};
use self::error::Limits;
pub use self::error::{ConnectionError, Counters, Flushed, Interest, Message, ReadProgress};
use self::messages::{AnswerReader, MessageReader, mask_keys};
pub use self::options::{ConnectionOptions, Trust, TrustError};
use self::stream::Stream;
pub use self::stream::keep_alive;
pub use self::task::TaskConnection;
use crate::endpoint::{Endpoint, Transport};

/// One connection to a node: HTTP/1.1 or WebSocket, plain or encrypted.
///
/// It never blocks, never retries and reads no clock; an event loop (level-triggered epoll) owns
/// it:
///
/// - register [`as_fd`](AsFd::as_fd) with [`interest`](Self::interest), and again whenever that
///   changes;
/// - when the socket is readable, writable or hung up and [`is_ready`](Self::is_ready) is false,
///   call [`drive`](Self::drive); otherwise [`read`](Self::read) when readable and
///   [`flush`](Self::flush) when writable;
/// - [`queue`](Self::queue) messages at any time, then [`flush`](Self::flush). A message has been
///   handed to the socket when [`Flushed::written_to`] has reached the offset `queue` gave.
///
/// HTTP: an answer belongs to the oldest request without one; queueing a request while another is
/// unanswered pipelines it, so callers that do not want that look at
/// [`unanswered`](Self::unanswered). WebSocket: answers are matched by id, by the caller.
///
/// Memory is bounded by [`ConnectionOptions`] on the way in; on the way out by the caller, who
/// sees [`unwritten`](Self::unwritten). The first error is final: drop the connection.
pub struct Connection {
    stream: Stream,
    phase: Phase,
    protocol: Protocol,
    output: OutBuffer,
    input: InBuffer,
    limits: Limits,
    /// The stream offset up to which everything reached the socket.
    handed_to: u64,
    counters: Counters,
}

enum Phase {
    Connecting,
    Securing,
    Upgrading,
    Ready,
}

// One lives in each connection, behind no further pointer: the hot path reads it for every message.
#[allow(clippy::large_enum_variant)]
enum Protocol {
    Http {
        reader: AnswerReader,
        request: messages::Request,
    },
    Ws {
        reader: MessageReader,
        handshake: ClientHandshake,
        /// Bytes of the handshake's request that were sent.
        sent: usize,
    },
}

impl Connection {
    /// Starts to connect. `address` is one of [`Endpoint::resolve`]'s.
    ///
    /// # Errors
    /// The system has no socket left, or knows at once that the address cannot be reached
    /// ([`ConnectionError::Connect`]); trust or server name cannot be used for TLS.
    pub fn open(
        endpoint: &Endpoint,
        address: SocketAddr,
        options: &ConnectionOptions,
    ) -> Result<Self, ConnectionError> {
        let tcp = stream::connect(address, options.source).map_err(ConnectionError::Connect)?;
        let stream = if endpoint.is_tls() {
            let host = endpoint.host();
            let name = ServerName::try_from(host.clone())
                .map_err(|_| ConnectionError::ServerName(host))?;
            Stream::secure(tcp, options.trust.client_config()?, name)?
        } else if options.arrival_stamps {
            Stream::stamped(tcp)
        } else {
            Stream::Plain(tcp)
        };
        let limits = Limits {
            head: options.max_head_bytes,
            message: options.max_message_bytes,
        };
        let mut keys = mask_keys();
        let protocol = match endpoint.transport() {
            Transport::Http => Protocol::Http {
                reader: AnswerReader::default(),
                request: if options.gets {
                    messages::Request::get(endpoint)
                } else {
                    messages::Request::post(endpoint, options.path.as_deref())
                },
            },
            Transport::Ws => Protocol::Ws {
                handshake: ClientHandshake::new(&endpoint.path(), &endpoint.authority(), &mut keys),
                sent: 0,
                reader: MessageReader::new(keys, limits),
            },
            Transport::P2p => {
                let unsupported = io::Error::from(ErrorKind::Unsupported);
                return Err(ConnectionError::Connect(unsupported));
            }
        };
        Ok(Self {
            stream,
            phase: Phase::Connecting,
            protocol,
            output: OutBuffer::default(),
            input: InBuffer::new(options.read_buffer_bytes),
            limits,
            handed_to: 0,
            counters: Counters::default(),
        })
    }

    /// What to wait for now.
    #[inline]
    pub fn interest(&self) -> Interest {
        match &self.phase {
            Phase::Connecting => Interest {
                read: false,
                write: true,
            },
            Phase::Securing => Interest {
                read: true,
                write: self.stream.holds_ciphertext(),
            },
            Phase::Upgrading => Interest {
                read: true,
                write: self.upgrade_unsent(),
            },
            Phase::Ready => Interest {
                read: true,
                write: self.unwritten() > 0,
            },
        }
    }

    /// Whether all handshakes are done.
    #[inline]
    pub const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Bytes that were queued and have not been handed to the socket; with TLS at least 1 while
    /// encrypted bytes wait.
    #[inline]
    pub fn unwritten(&self) -> usize {
        self.output.pending().len() + usize::from(self.stream.holds_ciphertext())
    }

    /// HTTP: requests without an answer yet. WebSocket: 0, the caller matches by id.
    #[inline]
    pub const fn unanswered(&self) -> u32 {
        match &self.protocol {
            Protocol::Http { reader, .. } => reader.unanswered,
            Protocol::Ws { .. } => 0,
        }
    }

    /// What was done so far.
    pub const fn counters(&self) -> Counters {
        match &self.protocol {
            Protocol::Http { .. } => self.counters,
            Protocol::Ws { reader, .. } => Counters {
                pings: reader.pings,
                pings_skipped: reader.pings_skipped,
                ..self.counters
            },
        }
    }

    /// The stream offset up to which everything has been handed to the socket.
    #[inline]
    pub const fn written_to(&self) -> u64 {
        self.handed_to
    }

    /// Appends one message, a complete JSON-RPC body, to what is to be written; the stream offset
    /// behind its last byte. Nothing is written before [`flush`](Self::flush).
    #[inline]
    pub fn queue(&mut self, body: &[u8]) -> u64 {
        self.queue_with(body.len(), |out| out.extend_from_slice(body))
    }

    /// Appends one broadcast, encoded in place: like [`queue`](Self::queue) with the output of
    /// [`encode_broadcast`], without the copy.
    #[inline]
    pub fn queue_broadcast(&mut self, id: u64, method: BroadcastMethod, tx: &[u8]) -> u64 {
        let len = broadcast_len(id, method, tx.len());
        self.queue_with(len, |out| encode_broadcast(out, id, method, tx))
    }

    #[inline]
    fn queue_with(&mut self, len: usize, write: impl FnOnce(&mut Vec<u8>)) -> u64 {
        self.counters.messages_out += 1;
        match &mut self.protocol {
            Protocol::Http { reader, request } => {
                reader.unanswered += 1;
                self.output.append(|out| request.write(out, len, write))
            }
            Protocol::Ws { reader, .. } => self.output.append(|out| {
                write_masked(out, TEXT, reader.keys.key(), len, write);
            }),
        }
    }

    /// Writes what the socket takes: one `write` for everything that is queued.
    ///
    /// Before the handshakes are done it only goes on with those.
    ///
    /// # Errors
    /// The connection is over; what was not covered by an earlier [`Flushed::written_to`] may or
    /// may not have reached the node.
    #[inline]
    pub fn flush(&mut self) -> Result<Flushed, ConnectionError> {
        if !self.is_ready() && !self.drive()? {
            return Ok(Flushed {
                written_to: 0,
                blocked: self.unwritten() > 0,
            });
        }
        self.write_out()
    }

    #[inline]
    fn write_out(&mut self) -> Result<Flushed, ConnectionError> {
        if self.unwritten() == 0 {
            return Ok(Flushed {
                written_to: self.handed_to,
                blocked: false,
            });
        }
        let written = self.stream.write(self.output.pending())?;
        self.output.take(written.taken);
        if written.handed {
            self.handed_to = self.output.taken_to();
        }
        Ok(Flushed {
            written_to: self.handed_to,
            blocked: self.unwritten() > 0,
        })
    }

    /// Reads once and hands every complete message to `on_message`, in order.
    ///
    /// One `read` of the socket; level-triggered epoll reports when there is more. With TLS it goes
    /// on until no decrypted bytes are left. It writes only to answer a ping. Before the
    /// handshakes are done it goes on with those.
    ///
    /// # Errors
    /// The connection is over, after every complete message was handed over. An orderly end is an
    /// error as well, by its variant: see [`ConnectionError`].
    #[inline]
    pub fn read(
        &mut self,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<ReadProgress, ConnectionError> {
        let mut progress = ReadProgress::default();
        if !self.is_ready() && !self.drive()? {
            return Ok(progress);
        }
        // What came in together with the end of the handshake is announced by no readiness.
        if !self.input.filled().is_empty() {
            progress.messages += self.parse(on_message)?;
        }
        loop {
            let space = self.input.space();
            let room = space.len();
            let Some(count) = self.stream.read(space)? else {
                progress.has_more = false;
                break;
            };
            if count == 0 {
                return Err(self.end(on_message));
            }
            self.input.filled_by(count);
            progress.bytes += count;
            progress.has_more = count == room || self.stream.is_tls();
            self.counters.bytes_in += count as u64;
            progress.messages += self.parse(on_message)?;
            if !self.stream.holds_plaintext() {
                break;
            }
        }
        self.input.shrink();
        Ok(progress)
    }

    #[inline]
    fn parse(&mut self, on_message: &mut impl FnMut(Message<'_>)) -> Result<u32, ConnectionError> {
        let arrived_unix_ns = self.stream.arrived_unix_ns();
        let counted = &mut |message: Message<'_>| {
            self.counters.messages_in += 1;
            on_message(Message {
                arrived_unix_ns,
                ..message
            });
        };
        match &mut self.protocol {
            Protocol::Http { reader, .. } => reader.parse(&mut self.input, self.limits, counted),
            Protocol::Ws { reader, .. } => {
                let before = reader.pings;
                let parsed = reader.parse(&mut self.input, &mut self.output, counted);
                let answers = reader.pings != before;
                // The goodbye of a close frame is sent if the socket takes it at once.
                if answers || parsed.is_err() {
                    let flushed = self.write_out();
                    return parsed.and_then(|messages| flushed.map(|_| messages));
                }
                parsed
            }
        }
    }

    fn end(&mut self, on_message: &mut impl FnMut(Message<'_>)) -> ConnectionError {
        match &mut self.protocol {
            Protocol::Http { reader, .. } => reader.end(&mut self.input, on_message),
            Protocol::Ws { reader, .. } => reader.end(&self.input),
        }
    }

    /// Goes on with connect, TLS and WebSocket upgrade; whether they are done.
    ///
    /// When it is true for the first time call [`read`](Self::read) once: the node's first bytes
    /// may have come with the last of the handshake.
    ///
    /// # Errors
    /// The connection cannot be made.
    pub fn drive(&mut self) -> Result<bool, ConnectionError> {
        loop {
            let (done, next) = match self.phase {
                Phase::Connecting => (connected(self.stream.tcp())?, Phase::Securing),
                Phase::Securing => (self.stream.handshake()?, self.after_securing()),
                Phase::Upgrading => (self.drive_upgrade()?, Phase::Ready),
                Phase::Ready => return Ok(true),
            };
            if !done {
                return Ok(false);
            }
            self.phase = next;
        }
    }

    const fn after_securing(&self) -> Phase {
        match &self.protocol {
            Protocol::Http { .. } => Phase::Ready,
            Protocol::Ws { .. } => Phase::Upgrading,
        }
    }

    fn upgrade_unsent(&self) -> bool {
        match &self.protocol {
            Protocol::Http { .. } => false,
            Protocol::Ws {
                handshake, sent, ..
            } => *sent < handshake.request().len() || self.stream.holds_ciphertext(),
        }
    }

    fn drive_upgrade(&mut self) -> Result<bool, ConnectionError> {
        let Protocol::Ws {
            handshake, sent, ..
        } = &mut self.protocol
        else {
            return Ok(true);
        };
        let unsent = &handshake.request()[*sent..];
        if !unsent.is_empty() || self.stream.holds_ciphertext() {
            *sent += self.stream.write(unsent)?.taken;
        }
        while *sent == handshake.request().len() {
            let Some(count) = self.stream.read(self.input.space())? else {
                break;
            };
            if count == 0 {
                let mid_message = !self.input.filled().is_empty();
                return Err(ConnectionError::Closed { mid_message });
            }
            self.input.filled_by(count);
            if let Some(len) = handshake.check(self.input.filled(), self.limits.head)? {
                self.input.consume(len);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a connect that was started is done.
fn connected(tcp: &TcpStream) -> Result<bool, ConnectionError> {
    if let Some(error) = tcp.take_error().map_err(ConnectionError::Connect)? {
        return Err(ConnectionError::Connect(error));
    }
    match tcp.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(ConnectionError::Connect(error)),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.tcp().as_fd()
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("socket", self.stream.tcp())
            .field("ready", &self.is_ready())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}
