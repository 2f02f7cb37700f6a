//! Messages out of the frames of a node, and the answers to its pings and closes.

use std::hash::{BuildHasher, RandomState};

use wire::ws::frame::{CLOSE, MaskKeys, PONG, write_masked};
use wire::ws::{Event, FrameReader, Step, WsLimits};

use super::buffer::{InBuffer, OutBuffer};
use super::error::{ConnectionError, Limits, Message};

/// Cuts a byte stream into messages.
#[derive(Debug)]
pub(super) struct MessageReader {
    frames: FrameReader,
    pub(super) keys: MaskKeys,
    pub(super) pings: u64,
    /// Pings left without an answer because earlier ones still wait to be written; RFC 6455,
    /// section 5.5.3, allows to answer only the last.
    pub(super) pings_skipped: u64,
}

impl MessageReader {
    pub(super) const fn new(keys: MaskKeys, limits: Limits) -> Self {
        Self {
            frames: FrameReader::of_server(WsLimits {
                message: limits.message,
                fragments: usize::MAX,
            }),
            keys,
            pings: 0,
            pings_skipped: 0,
        }
    }

    /// Hands over every complete message in the buffer; how many. Pongs go to `out`.
    #[inline]
    pub(super) fn parse(
        &mut self,
        input: &mut InBuffer,
        out: &mut OutBuffer,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<u32, ConnectionError> {
        let mut messages = 0;
        loop {
            let (used, event) = match self.frames.next(input.filled_mut())? {
                Step::Event { used, event } => (used, event),
                Step::Incomplete { needed } => {
                    input.want(needed);
                    return Ok(messages);
                }
            };
            let body = match event {
                Event::Text(message) | Event::Binary(message) => Some(message),
                Event::Fragment | Event::Pong => None,
                Event::Ping(payload) => {
                    self.pings += 1;
                    if out.pending().len() > MAX_PENDING_FOR_PONG {
                        self.pings_skipped += 1;
                    } else {
                        write_control(out, &mut self.keys, PONG, payload);
                    }
                    None
                }
                Event::Close { code, reason } => {
                    let payload = code.map(u16::to_be_bytes);
                    let payload = payload.as_ref().map_or(&[][..], |code| &code[..]);
                    write_control(out, &mut self.keys, CLOSE, payload);
                    let reason = reason.to_owned();
                    return Err(ConnectionError::CloseFrame { code, reason });
                }
            };
            if let Some(body) = body {
                on_message(Message::new(body, 200));
                messages += 1;
            }
            input.consume(used);
        }
    }

    /// The stream ended without a close frame.
    pub(super) fn end(&self, input: &InBuffer) -> ConnectionError {
        ConnectionError::Closed {
            mid_message: self.frames.is_mid_message() || !input.filled().is_empty(),
        }
    }
}

/// Keys seeded from the system's randomness.
pub(super) fn mask_keys() -> MaskKeys {
    MaskKeys::new(RandomState::new().hash_one(0_u64))
}

fn write_control(out: &mut OutBuffer, keys: &mut MaskKeys, opcode: u8, payload: &[u8]) {
    out.append(|bytes| {
        write_masked(bytes, opcode, keys.key(), payload.len(), |bytes| {
            bytes.extend_from_slice(payload);
        });
    });
}

/// Pings go unanswered while more than this many bytes wait: a peer that floods pings and reads
/// nothing must not grow the buffer.
const MAX_PENDING_FOR_PONG: usize = 64 << 10;
