//! A WebSocket to a node: whole messages in, masked texts out, every byte charged to the ledger
//! before it is read.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep};
use wire::ws::frame::{FrameHead, MaskKeys, PONG, TEXT, Writer, write_masked};
use wire::ws::{Event, FrameReader, Step, WsError, WsLimits};

use crate::ledger::{Ledger, Reservation};
use crate::upstream::dial::Stream;
use crate::upstream::query::charged;

/// An open WebSocket.
pub(super) struct NodeSocket {
    stream: Stream,
    /// Longest message in bytes.
    limit: usize,
    frames: FrameReader,
    /// Read and not taken apart yet.
    input: BytesMut,
    /// What the message that is being read is charged to.
    charge: Reservation,
    /// Whether the payload of the frame at the start of the input is charged.
    is_charged: bool,
    /// Set while the ledger has no room for a payload.
    pause: Option<Pin<Box<Sleep>>>,
    output: Output,
    /// When something was last read.
    last_read: Instant,
    _buffers: Reservation,
}

/// Frames on their way to the node.
struct Output {
    keys: MaskKeys,
    bytes: Vec<u8>,
    written: usize,
}

/// Why a socket is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum SocketError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the node closed the websocket")]
    Closed,
    #[error("the node's frames cannot be read: {0}")]
    Frames(#[from] WsError),
}

/// What the frame at the start of the input came to.
enum Taken {
    Message(Bytes),
    /// A control frame or a fragment.
    Other,
    /// So many bytes are needed.
    Incomplete(usize),
}

impl NodeSocket {
    /// A socket whose handshake is done; `input` has come after it.
    pub(super) fn new(
        stream: Stream,
        input: BytesMut,
        keys: MaskKeys,
        ledger: &Ledger,
        buffers: Reservation,
    ) -> Self {
        let limit = ledger.capacity() / MESSAGE_SHARE;
        Self {
            stream,
            limit,
            frames: FrameReader::of_server(WsLimits {
                message: limit,
                fragments: usize::MAX,
            }),
            input,
            charge: ledger.nothing(),
            is_charged: false,
            pause: None,
            output: Output {
                keys,
                bytes: Vec::new(),
                written: 0,
            },
            last_read: Instant::now(),
            _buffers: buffers,
        }
    }

    /// When something was last read.
    pub(super) const fn last_read(&self) -> Instant {
        self.last_read
    }

    /// Puts a text into the output.
    pub(super) fn write_text(&mut self, text: &[u8]) {
        self.output.write(TEXT, text);
    }

    /// Writes what is in the output.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let output = &mut self.output;
        while output.written < output.bytes.len() {
            let stream = Pin::new(&mut self.stream);
            let taken = ready!(stream.poll_write(context, &output.bytes[output.written..]))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.written += taken;
        }
        output.clear();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    /// The next message. Pings are answered into the output on the way.
    pub(super) fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, SocketError>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            if !self.charge_payload()? {
                self.pause = Some(Box::pin(sleep(FULL_LEDGER_PAUSE)));
                continue;
            }
            match self.take_frame()? {
                Taken::Message(message) => return Poll::Ready(Ok(message)),
                Taken::Other => {}
                Taken::Incomplete(needed) => ready!(self.poll_read(context, needed))?,
            }
        }
    }

    /// Charges the payload of the next frame before it is read; whether there was room. While there
    /// is none nothing is read, so TCP holds the node back.
    fn charge_payload(&mut self) -> Result<bool, SocketError> {
        if self.is_charged {
            return Ok(true);
        }
        let Ok(head) = FrameHead::parse(&self.input, Writer::Server)? else {
            return Ok(true);
        };
        // Control frames fit into the buffers, and a frame beyond the limit is refused by its head.
        let is_free = head.is_control() || head.payload > self.limit;
        self.is_charged = is_free || self.charge.grow(head.payload);
        Ok(self.is_charged)
    }

    fn take_frame(&mut self) -> Result<Taken, SocketError> {
        let in_fragments = self.frames.is_mid_message();
        let (used, payload) = match self.frames.next(&mut self.input)? {
            Step::Incomplete { needed } => return Ok(Taken::Incomplete(needed)),
            Step::Event { used, event } => match event {
                Event::Text(message) | Event::Binary(message) => (used, Some(message)),
                Event::Fragment | Event::Pong => (used, None),
                Event::Ping(payload) => {
                    // A node that reads nothing gets no more pongs than fit.
                    if self.output.has_room() {
                        self.output.write(PONG, payload);
                    }
                    (used, None)
                }
                Event::Close { .. } => return Err(SocketError::Closed),
            },
        };
        self.is_charged = false;
        let Some(payload) = payload else {
            self.input.advance(used);
            return Ok(Taken::Other);
        };
        let charge = self.charge.split(usize::MAX);
        let len = payload.len();
        // A long message in one frame lies alone in its buffer, which goes with it.
        let message = if len >= INPUT_BYTES && !in_fragments {
            let frame = self.input.split_to(used).freeze();
            charged(frame.slice(used - len..), charge)
        } else {
            let message = charged(payload.to_vec(), charge);
            self.input.advance(used);
            message
        };
        Ok(Taken::Message(message))
    }

    /// Reads some of a frame that needs so many bytes in all.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        needed: usize,
    ) -> Poll<Result<(), SocketError>> {
        let missing = needed.saturating_sub(self.input.len());
        self.input.reserve(missing.max(MIN_READ_BYTES));
        // Reading into a buffer leaves nothing behind in a future that is dropped.
        let read = pin!(self.stream.read_buf(&mut self.input));
        if ready!(read.poll(context))? == 0 {
            return Poll::Ready(Err(SocketError::Closed));
        }
        self.last_read = Instant::now();
        Poll::Ready(Ok(()))
    }
}

impl Output {
    const fn has_room(&self) -> bool {
        self.bytes.len() - self.written < OUTPUT_ENOUGH
    }

    fn write(&mut self, opcode: u8, payload: &[u8]) {
        let key = self.keys.key();
        write_masked(&mut self.bytes, opcode, key, payload.len(), |out| {
            out.extend_from_slice(payload);
        });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(OUTPUT_ENOUGH);
        self.written = 0;
    }
}

/// Room for what is read, at first.
pub(super) const INPUT_BYTES: usize = 16 << 10;
/// Fewer free bytes than this are not worth a system call.
const MIN_READ_BYTES: usize = 2 << 10;
/// Bytes in the output above which no pong is added.
const OUTPUT_ENOUGH: usize = 64 << 10;
/// What a socket's buffers are charged with.
pub(super) const BUFFER_BYTES: usize = INPUT_BYTES + OUTPUT_ENOUGH;
/// One message takes at most this part of the ledger.
const MESSAGE_SHARE: usize = 4;
/// How long a payload waits before the ledger is asked again for room.
const FULL_LEDGER_PAUSE: Duration = Duration::from_millis(50);
