//! A WebSocket to a node: whole messages in, masked texts out, every byte charged to the ledger
//! before it is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use wire::ws::frame;

use super::super::dial::Stream;
use super::super::query::charged;
use crate::ledger::{Ledger, Reservation};

/// An open WebSocket.
pub(super) struct NodeSocket {
    stream: Stream,
    /// Longest message in bytes.
    limit: usize,
    /// Read and not taken apart yet: `input[start..end]`.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// The message being put together.
    message: Vec<u8>,
    charge: Reservation,
    state: Reading,
    masks: Masks,
    output: Vec<u8>,
    written: usize,
    /// What the output's bytes are charged to; given back when all of them are written.
    output_charges: Vec<Reservation>,
    /// When something was last heard.
    heard: Instant,
    _buffers: Reservation,
}

/// How far a message was read.
enum Reading {
    /// A frame's head comes next; whether it goes on with a message.
    Head { continued: bool },
    /// So much of a frame's payload is to come; there is no room for it yet.
    Starved(Pin<Box<Sleep>>, Payload),
    /// So much of a frame's payload is to come.
    Payload(Payload),
}

#[derive(Clone, Copy)]
struct Payload {
    missing: usize,
    fin: bool,
}

/// What a frame's head says.
struct Head {
    first: u8,
    len: usize,
    /// Bytes of the head itself.
    used: usize,
}

/// Why a socket is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the node closed the websocket")]
    Closed,
    #[error("the node's frames cannot be read: {0}")]
    Protocol(&'static str),
    #[error("a message of {len} bytes is longer than {limit}")]
    TooLarge { len: usize, limit: usize },
}

impl NodeSocket {
    /// A socket whose handshake is done; `read` has come after it.
    pub(super) fn new(
        stream: Stream,
        read: &[u8],
        ledger: &Ledger,
        buffers: Reservation,
    ) -> Option<Self> {
        let mut input = vec![0; INPUT_BYTES].into_boxed_slice();
        input.get_mut(..read.len())?.copy_from_slice(read);
        Some(Self {
            stream,
            limit: ledger.capacity() / MESSAGE_SHARE,
            input,
            start: 0,
            end: read.len(),
            message: Vec::new(),
            charge: ledger.reserve(0)?,
            state: Reading::Head { continued: false },
            masks: Masks::new(),
            output: Vec::new(),
            written: 0,
            output_charges: Vec::new(),
            heard: Instant::now(),
            _buffers: buffers,
        })
    }

    /// When something was last heard.
    pub(super) const fn heard(&self) -> Instant {
        self.heard
    }

    /// The node is not to blame for the silence up to now.
    pub(super) const fn touch(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether another message should be put into the output.
    pub(super) const fn takes_more(&self) -> bool {
        self.output.len() - self.written < OUTPUT_ENOUGH
    }

    /// Puts a text into the output. `charge` is given back when it is written.
    pub(super) fn write_text(&mut self, text: &[u8], charge: Reservation) {
        // What is no UTF-8 came in a binary message; the node takes either.
        let opcode = match std::str::from_utf8(text) {
            Ok(_) => frame::TEXT,
            Err(_) => frame::BINARY,
        };
        self.write_frame(opcode, text);
        self.output_charges.push(charge);
    }

    fn write_frame(&mut self, opcode: u8, payload: &[u8]) {
        let key = self.masks.next();
        frame::write_head(&mut self.output, opcode, payload.len(), Some(key));
        let start = self.output.len();
        self.output.extend_from_slice(payload);
        frame::mask(&mut self.output[start..], key);
    }

    /// Writes what is in the output.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.output.len() {
            let stream = Pin::new(&mut self.stream);
            let taken = ready!(stream.poll_write(context, &self.output[self.written..]))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += taken;
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_ENOUGH);
        self.written = 0;
        self.output_charges.clear();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// The next message. Pings are answered into the output on the way.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, SocketError>> {
        loop {
            match &mut self.state {
                Reading::Head { continued } => {
                    let continued = *continued;
                    match self.head()? {
                        None => ready!(self.poll_read(context))?,
                        Some(head) => self.begin(&head, continued)?,
                    }
                }
                Reading::Starved(pause, payload) => {
                    ready!(pause.as_mut().poll(context));
                    let payload = *payload;
                    self.make_room(payload);
                }
                Reading::Payload(payload) => {
                    let payload = *payload;
                    if payload.missing > 0 {
                        let left = ready!(self.poll_payload(context, payload.missing))?;
                        self.state = Reading::Payload(Payload {
                            missing: left,
                            ..payload
                        });
                        continue;
                    }
                    self.state = Reading::Head {
                        continued: !payload.fin,
                    };
                    if payload.fin {
                        return Poll::Ready(Ok(self.take_message()));
                    }
                }
            }
        }
    }

    /// The head of the next frame, and the payload too if it is a control frame.
    fn head(&self) -> Result<Option<Head>, SocketError> {
        let input = &self.input[self.start..self.end];
        let [first, second, rest @ ..] = input else {
            return Ok(None);
        };
        if second & frame::MASKED != 0 {
            return Err(SocketError::Protocol("a frame is masked"));
        }
        let (len, used) = match second & !frame::MASKED {
            126 => match rest.first_chunk() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 4),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 10),
                None => return Ok(None),
            },
            short => (u64::from(short), 2),
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let head = Head {
            first: *first,
            len,
            used,
        };
        let is_control = first & frame::OPCODE >= frame::CLOSE;
        if is_control && len > frame::MAX_CONTROL {
            return Err(SocketError::Protocol("a control frame is too long"));
        }
        let whole = !is_control || input.len() >= used + len;
        Ok(whole.then_some(head))
    }

    fn begin(&mut self, head: &Head, continued: bool) -> Result<(), SocketError> {
        if head.first & frame::RESERVED != 0 {
            return Err(SocketError::Protocol("reserved bits are set"));
        }
        let fin = head.first & frame::FIN != 0;
        let opcode = head.first & frame::OPCODE;
        self.start += head.used;
        match opcode {
            frame::TEXT | frame::BINARY if continued => {
                return Err(SocketError::Protocol("a message begins inside another"));
            }
            frame::CONTINUATION if !continued => {
                return Err(SocketError::Protocol("a fragment without a beginning"));
            }
            frame::TEXT | frame::BINARY | frame::CONTINUATION => {}
            frame::CLOSE | frame::PING | frame::PONG if !fin => {
                return Err(SocketError::Protocol("a control frame is fragmented"));
            }
            frame::CLOSE => return Err(SocketError::Closed),
            frame::PING | frame::PONG => {
                let payload = self.start..self.start + head.len;
                self.start = payload.end;
                // A node that reads nothing gets no more pongs than fit.
                if opcode == frame::PING && self.takes_more() {
                    let payload = self.input[payload].to_vec();
                    self.write_frame(frame::PONG, &payload);
                }
                return Ok(());
            }
            _ => return Err(SocketError::Protocol("an unknown opcode")),
        }
        let len = self.message.len().saturating_add(head.len);
        if len > self.limit {
            return Err(SocketError::TooLarge {
                len,
                limit: self.limit,
            });
        }
        self.make_room(Payload {
            missing: head.len,
            fin,
        });
        Ok(())
    }

    /// Charges a payload before it is read; while there is no room the node is kept waiting.
    fn make_room(&mut self, payload: Payload) {
        self.state = if self.charge.grow(payload.missing) {
            self.message.reserve_exact(payload.missing);
            Reading::Payload(payload)
        } else {
            Reading::Starved(Box::pin(sleep(STARVED_PAUSE)), payload)
        };
    }

    /// Reads some of a payload; how much of it is still missing.
    fn poll_payload(
        &mut self,
        context: &mut Context<'_>,
        missing: usize,
    ) -> Poll<Result<usize, SocketError>> {
        let there = &self.input[self.start..self.end];
        if !there.is_empty() {
            let taken = &there[..missing.min(there.len())];
            self.message.extend_from_slice(taken);
            self.start += taken.len();
            return Poll::Ready(Ok(missing - taken.len()));
        }
        if missing < INPUT_BYTES {
            ready!(self.poll_read(context))?;
            return Poll::Ready(Ok(missing));
        }
        // A long one goes straight to its place.
        let len = self.message.len();
        self.message.resize(len + missing.min(DIRECT_BYTES), 0);
        let mut buffer = ReadBuf::new(&mut self.message[len..]);
        let read = Pin::new(&mut self.stream).poll_read(context, &mut buffer);
        let filled = buffer.filled().len();
        self.message.truncate(len + filled);
        ready!(read)?;
        if filled == 0 {
            return Poll::Ready(Err(SocketError::Closed));
        }
        self.heard = Instant::now();
        Poll::Ready(Ok(missing - filled))
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        self.input.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // A head or a control frame is shorter than the buffer, so there is always room.
        let mut buffer = ReadBuf::new(&mut self.input[self.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let filled = buffer.filled().len();
        if filled == 0 {
            return Poll::Ready(Err(SocketError::Closed));
        }
        self.end += filled;
        self.heard = Instant::now();
        Poll::Ready(Ok(()))
    }

    fn take_message(&mut self) -> Bytes {
        let charge = self.charge.split(usize::MAX);
        charged(std::mem::take(&mut self.message), charge)
    }
}

impl std::fmt::Debug for NodeSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodeSocket")
    }
}

/// Masking keys. They keep hostile scripts in browsers from choosing bytes on the wire (RFC 6455,
/// section 10.3), which is no danger between a proxy and its node: a counter that begins somewhere
/// is enough.
#[derive(Debug)]
struct Masks(u64);

impl Masks {
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(0_u64))
    }

    const fn next(&mut self) -> [u8; 4] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((self.0 >> 32) as u32).to_le_bytes()
    }
}

/// Bytes read at once.
const INPUT_BYTES: usize = 16 << 10;
/// Bytes of a long message read at once.
const DIRECT_BYTES: usize = 256 << 10;
/// Bytes in the output above which nothing is added.
const OUTPUT_ENOUGH: usize = 64 << 10;
/// What a socket's buffers are charged with.
pub(super) const BUFFER_BYTES: usize = INPUT_BYTES + OUTPUT_ENOUGH;
/// One message takes at most this part of the ledger.
const MESSAGE_SHARE: usize = 4;
/// How long a payload waits before it is tried again to find room.
const STARVED_PAUSE: Duration = Duration::from_millis(50);
