//! A connection to a node over which messages come: a WebSocket, every byte of which is charged to the ledger
//! before it is read.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rpc::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use wire::ws::ClientHandshake;
use wire::ws::frame::{FrameHead, MaskKeys, PONG, TEXT, Writer, write_masked};
use wire::ws::{Event, FrameReader, Step, WsLimits};

use crate::budget::{Ledger, Reservation};
use crate::upstream::UpstreamError;
use crate::upstream::body::charged;
use crate::upstream::dial::{Dialer, Stream};

/// Connects, and carries requests to the node and its messages back. It ends with the connection, or when
/// `requests` does.
///
/// # Errors
/// Why the connection broke, or could not be made.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn carry(
    dialer: Dialer,
    ledger: Ledger,
    mut requests: mpsc::Receiver<Vec<u8>>,
    (number, messages): (u64, mpsc::Sender<(u64, Bytes)>),
) -> Result<(), UpstreamError> {
    let mut socket = NodeSocket::open(dialer, &ledger).await?;
    loop {
        tokio::select! {
            request = requests.recv() => match request {
                Some(text) => socket.write(TEXT, &text).await?,
                None => return Ok(()),
            },
            frame = socket.read() => match frame? {
                Frame::Message(text) => if messages.send((number, text)).await.is_err() {
                    return Ok(());
                },
                Frame::Ping(payload) => socket.write(PONG, &payload).await?,
                Frame::Other | Frame::Incomplete(_) => {}
            },
        }
    }
}

/// An open WebSocket.
struct NodeSocket {
    dialer: Dialer,
    stream: Stream,
    keys: MaskKeys,
    /// Longest message in bytes.
    limit: usize,
    frames: FrameReader,
    /// Read and not taken apart yet.
    input: BytesMut,
    /// What the message that is being read is charged to.
    charge: Reservation,
    /// Whether the payload of the frame at the start of the input is charged.
    is_charged: bool,
    _buffers: Reservation,
}

/// What the frame at the start of the input came to.
enum Frame {
    Message(Bytes),
    Ping(Vec<u8>),
    /// A pong or a fragment.
    Other,
    /// So many bytes are needed.
    Incomplete(usize),
}

impl NodeSocket {
    async fn open(dialer: Dialer, ledger: &Ledger) -> Result<Self, UpstreamError> {
        let buffers = ledger.reserve(BUFFER_BYTES).ok_or(UpstreamError::Memory)?;
        let limit = ledger.capacity() / MESSAGE_SHARE;
        let stream = dialer.connect().await?;
        let mut socket = Self {
            stream,
            keys: MaskKeys::new(RandomState::new().hash_one(0_u64)),
            limit,
            frames: FrameReader::of_server(WsLimits {
                message: limit,
                fragments: usize::MAX,
            }),
            input: BytesMut::with_capacity(INPUT_BYTES),
            charge: ledger.nothing(),
            is_charged: false,
            _buffers: buffers,
            dialer,
        };
        let patience = socket.dialer.limit();
        let shaken = timeout(patience, socket.shake_hands()).await;
        shaken.unwrap_or_else(|_| Err(socket.dialer.timeout()))?;
        Ok(socket)
    }

    async fn shake_hands(&mut self) -> Result<(), UpstreamError> {
        let endpoint = self.dialer.endpoint().with_transport(Transport::Ws);
        let (path, host) = (endpoint.path(), endpoint.authority());
        let handshake = ClientHandshake::new(&path, &host, &mut self.keys);
        self.send(handshake.request()).await?;
        loop {
            self.fill(0).await?;
            let checked = handshake.check(&self.input, MAX_HEAD_BYTES);
            if let Some(used) = checked.map_err(|error| self.dialer.garbage(&error))? {
                self.input.advance(used);
                return Ok(());
            }
        }
    }

    /// Writes a frame. A node that takes none for long is given up.
    async fn write(&mut self, opcode: u8, payload: &[u8]) -> Result<(), UpstreamError> {
        let mut frame = Vec::new();
        let key = self.keys.key();
        write_masked(&mut frame, opcode, key, payload.len(), |out| {
            out.extend_from_slice(payload);
        });
        let sent = timeout(self.dialer.limit(), self.send(&frame)).await;
        sent.unwrap_or_else(|_| Err(self.dialer.timeout()))
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), UpstreamError> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let sent: io::Result<()> = sent.await;
        sent.map_err(|error| self.dialer.broken(&error))
    }

    /// The next frame, once it is whole.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn read(&mut self) -> Result<Frame, UpstreamError> {
        loop {
            // While there is no room nothing is read, so TCP holds the node back.
            if !self.charge_payload()? {
                sleep(FULL_LEDGER_PAUSE).await;
                continue;
            }
            match self.take_frame()? {
                Frame::Incomplete(needed) => self.fill(needed).await?,
                frame => return Ok(frame),
            }
        }
    }

    /// Charges the payload of the next frame before it is read; whether there was room.
    fn charge_payload(&mut self) -> Result<bool, UpstreamError> {
        if self.is_charged {
            return Ok(true);
        }
        let head = FrameHead::parse(&self.input, Writer::Server);
        let Ok(head) = head.map_err(|error| self.dialer.garbage(&error))? else {
            return Ok(true);
        };
        // Control frames fit into the buffers, and a frame beyond the limit is refused by its head.
        let is_free = head.is_control() || head.payload > self.limit;
        self.is_charged = is_free || self.charge.grow(head.payload);
        Ok(self.is_charged)
    }

    fn take_frame(&mut self) -> Result<Frame, UpstreamError> {
        let in_fragments = self.frames.is_mid_message();
        let step = self.frames.next(&mut self.input);
        let (used, event) = match step.map_err(|error| self.dialer.garbage(&error))? {
            Step::Event { used, event } => (used, event),
            Step::Incomplete { needed } => return Ok(Frame::Incomplete(needed)),
        };
        self.is_charged = false;
        let frame = match event {
            Event::Text(message) | Event::Binary(message) => {
                let charge = self.charge.split(usize::MAX);
                let len = message.len();
                if len >= INPUT_BYTES && !in_fragments {
                    // A long message in one frame lies alone in its buffer, which goes with it.
                    let frame = self.input.split_to(used).freeze();
                    return Ok(Frame::Message(charged(frame.slice(used - len..), charge)));
                }
                Frame::Message(charged(message.to_vec(), charge))
            }
            Event::Ping(payload) => Frame::Ping(payload.to_vec()),
            Event::Fragment | Event::Pong => Frame::Other,
            Event::Close { .. } => {
                return Err(self.dialer.broken(&"the node closed the websocket"));
            }
        };
        self.input.advance(used);
        Ok(frame)
    }

    /// Reads some of what needs so many bytes in all.
    ///
    /// # Cancel safety
    /// What was read is in the buffer when the future is dropped.
    async fn fill(&mut self, needed: usize) -> Result<(), UpstreamError> {
        let missing = needed.saturating_sub(self.input.len());
        self.input.reserve(missing.max(MIN_READ_BYTES));
        match timeout(SILENCE_LIMIT, self.stream.read_buf(&mut self.input)).await {
            Ok(Ok(0)) => Err(self.dialer.broken(&"the node closed the connection")),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.dialer.broken(&error)),
            Err(_) => Err(self.dialer.timeout()),
        }
    }
}

/// Room for what is read, at first.
const INPUT_BYTES: usize = 16 << 10;
/// What a socket's buffers are charged with: the input, a ping and its answer.
const BUFFER_BYTES: usize = 2 * INPUT_BYTES;
/// Fewer free bytes than this are not worth a system call.
const MIN_READ_BYTES: usize = 2 << 10;
/// An answer to a handshake has some 150 bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// One message takes at most this part of the ledger.
const MESSAGE_SHARE: usize = 4;
/// How long a payload waits before the ledger is asked again for room.
const FULL_LEDGER_PAUSE: Duration = Duration::from_millis(50);
/// The node pings every 27 s: after a longer silence the connection is taken for broken.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
