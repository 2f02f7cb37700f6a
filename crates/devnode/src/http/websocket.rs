//! The frames of a connection that became a WebSocket.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use wire::ws::{Event, FrameReader, Step, WsError, WsLimits};

use super::Upgrade;

/// What a client sends, frame by frame.
#[derive(Debug)]
pub struct Frames {
    stream: OwnedReadHalf,
    buffer: BytesMut,
    /// Bytes of the buffer that the last event took.
    used: usize,
    reader: FrameReader,
}

impl Frames {
    /// The two halves of a connection; messages have at most `limit` bytes.
    pub fn of(upgrade: Upgrade, limit: usize) -> (Self, OwnedWriteHalf) {
        let (stream, writer) = upgrade.stream.into_split();
        let frames = Self {
            stream,
            buffer: BytesMut::from(upgrade.read.as_slice()),
            used: 0,
            reader: FrameReader::new(WsLimits {
                message: limit,
                fragments: MAX_FRAGMENTS,
            }),
        };
        (frames, writer)
    }

    /// The next event of what was read; none while a frame is incomplete.
    ///
    /// # Errors
    /// When what was read is no frame, or too long.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, WsError> {
        self.buffer.advance(std::mem::take(&mut self.used));
        Ok(match self.reader.next(&mut self.buffer)? {
            Step::Incomplete { .. } => None,
            Step::Event { used, event } => {
                self.used = used;
                Some(event)
            }
        })
    }

    /// Reads once; false at the end of the stream.
    ///
    /// # Errors
    /// When the connection breaks.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }
}

/// Room for one read.
const READ_BYTES: usize = 16 << 10;
/// Fragments of a message.
const MAX_FRAGMENTS: usize = 1024;
