//! RFC 6455 frames, the client's side.

use super::buffer::{InBuffer, OutBuffer};
use super::error::{ConnectionError, websocket};
use super::{Limits, Message};
use wire::ws::frame::{
    BINARY, CLOSE, CONTINUATION, FIN, MASKED, MAX_CONTROL, OPCODE, PING, PONG, RESERVED, TEXT,
    mask, write_head,
};

/// A stream of masking keys. Masking keeps hostile page scripts from choosing the bytes on the
/// wire (RFC 6455, section 10.3); there are none here, so a small generator seeded once from the
/// system's randomness is enough.
#[derive(Debug)]
pub(super) struct Masks(u64);

impl Masks {
    pub(super) fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self(RandomState::new().hash_one(0x7469_6465_u64) | 1)
    }

    /// The next 64 bits (xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
    /// generators, scrambled", 2016).
    #[inline]
    pub(super) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Appends one masked frame whose payload of exactly `len` bytes is what `write` appends.
#[inline]
pub(super) fn write_frame(
    out: &mut Vec<u8>,
    opcode: u8,
    masks: &mut Masks,
    len: usize,
    write: impl FnOnce(&mut Vec<u8>),
) {
    let key = ((masks.next() >> 32) as u32).to_le_bytes();
    write_head(out, opcode, len, Some(key));
    let start = out.len();
    write(out);
    debug_assert_eq!(
        out.len() - start,
        len,
        "the frame's head states the payload's length"
    );
    mask(&mut out[start..], key);
}

/// Cuts a byte stream into messages.
#[derive(Debug)]
pub(super) struct FrameReader {
    /// A message in fragments, put together here.
    fragments: Vec<u8>,
    /// Whether a fragmented message is under way.
    continued: bool,
    pub(super) masks: Masks,
    pub(super) pings: u64,
    /// Pings left without an answer because earlier ones still wait to be written; RFC 6455,
    /// section 5.5.3, allows to answer only the last.
    pub(super) pings_skipped: u64,
}

struct Frame {
    opcode: u8,
    fin: bool,
    head: usize,
    payload: usize,
}

impl FrameReader {
    pub(super) const fn new(masks: Masks) -> Self {
        Self {
            fragments: Vec::new(),
            continued: false,
            masks,
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
        limits: Limits,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<u32, ConnectionError> {
        let mut messages = 0;
        while let Some(frame) = parse_frame(input.filled())? {
            let total = frame.head + frame.payload;
            if frame.payload.saturating_add(self.fragments.len()) > limits.message {
                return Err(ConnectionError::TooLarge {
                    what: "message",
                    limit: limits.message,
                });
            }
            let filled = input.filled();
            if filled.len() < total {
                input.want(total);
                break;
            }
            let payload = &filled[frame.head..total];
            // The rule: a whole message in one frame, handed over where it lies.
            if frame.fin && !self.continued && matches!(frame.opcode, TEXT | BINARY) {
                on_message(Message {
                    body: payload,
                    status: 200,
                });
                messages += 1;
            } else if frame.opcode >= CLOSE {
                self.control(frame.opcode, payload, out)?;
            } else if self.fragment(&frame, payload)? {
                on_message(Message {
                    body: &self.fragments,
                    status: 200,
                });
                messages += 1;
                self.fragments.clear();
                self.fragments.shrink_to(KEEP_FRAGMENTS);
            }
            input.consume(total);
        }
        Ok(messages)
    }

    /// The stream ended without a close frame.
    pub(super) fn end(&self, input: &InBuffer) -> ConnectionError {
        ConnectionError::Closed {
            mid_message: self.continued || !input.filled().is_empty(),
        }
    }

    /// Adds a fragment; whether the message is complete.
    fn fragment(&mut self, frame: &Frame, payload: &[u8]) -> Result<bool, ConnectionError> {
        match (frame.opcode, self.continued) {
            (CONTINUATION, true) | (TEXT | BINARY, false) => {}
            (CONTINUATION, false) => return Err(websocket("a fragment continues nothing")),
            (TEXT | BINARY, true) => return Err(websocket("a message begins inside another")),
            (opcode, _) => return Err(websocket(&format_args!("opcode {opcode} is unknown"))),
        }
        self.fragments.extend_from_slice(payload);
        self.continued = !frame.fin;
        Ok(frame.fin)
    }

    fn control(
        &mut self,
        opcode: u8,
        payload: &[u8],
        out: &mut OutBuffer,
    ) -> Result<(), ConnectionError> {
        match opcode {
            PING => {
                self.pings += 1;
                if out.pending().len() > MAX_PENDING_FOR_PONG {
                    self.pings_skipped += 1;
                } else {
                    self.reply(PONG, payload, out);
                }
                Ok(())
            }
            PONG => Ok(()),
            CLOSE => {
                self.reply(CLOSE, &payload[..payload.len().min(2)], out);
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                let reason = payload.get(2..).unwrap_or_default();
                let reason = String::from_utf8_lossy(reason).into_owned();
                Err(ConnectionError::CloseFrame { code, reason })
            }
            _ => Err(websocket(&format_args!("opcode {opcode} is unknown"))),
        }
    }

    fn reply(&mut self, opcode: u8, payload: &[u8], out: &mut OutBuffer) {
        out.append(|bytes| {
            write_frame(bytes, opcode, &mut self.masks, payload.len(), |bytes| {
                bytes.extend_from_slice(payload);
            });
        });
    }
}

/// Reads a frame's head; `None` while it is incomplete.
#[inline]
fn parse_frame(bytes: &[u8]) -> Result<Option<Frame>, ConnectionError> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    if first & RESERVED != 0 {
        return Err(websocket(
            "a frame uses an extension that was not agreed on",
        ));
    }
    if second & MASKED != 0 {
        return Err(websocket("a frame from the server is masked"));
    }
    let (opcode, fin) = (first & OPCODE, first & FIN != 0);
    let short = second & !MASKED;
    if opcode >= CLOSE && (usize::from(short) > MAX_CONTROL || !fin) {
        return Err(websocket("a control frame is too long or in fragments"));
    }
    let (head, payload) = match short {
        126 => match rest.first_chunk() {
            Some(len) => (4, u64::from(u16::from_be_bytes(*len))),
            None => return Ok(None),
        },
        127 => match rest.first_chunk() {
            Some(len) => (10, u64::from_be_bytes(*len)),
            None => return Ok(None),
        },
        len => (2, u64::from(len)),
    };
    // A length beyond any limit stays beyond it, and adding the head cannot overflow.
    let payload = usize::try_from(payload)
        .unwrap_or(usize::MAX)
        .min(usize::MAX / 2);
    Ok(Some(Frame {
        opcode,
        fin,
        head,
        payload,
    }))
}

/// Pings go unanswered while more than this many bytes wait: a peer that floods pings and reads
/// nothing must not grow the buffer.
const MAX_PENDING_FOR_PONG: usize = 64 << 10;
/// A store for fragments up to this size is kept between messages.
const KEEP_FRAGMENTS: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_state_their_length(len in prop_oneof![0usize..300, 65_500usize..65_600]) {
            let mut out = Vec::new();
            let mut masks = Masks::new();
            write_frame(&mut out, TEXT, &mut masks, len, |out| out.resize(out.len() + len, 0));
            // Without the mask bit it reads as a frame from a server, with four more bytes.
            out[1] &= !MASKED;
            let frame = parse_frame(&out).unwrap().unwrap();
            prop_assert_eq!((frame.payload, frame.head + 4 + len), (len, out.len()));
            prop_assert!(frame.fin && frame.opcode == TEXT);
        }
    }

    #[test]
    fn keys_differ() {
        let mut masks = Masks::new();
        let keys: std::collections::HashSet<_> = (0..1000).map(|_| masks.next() >> 32).collect();
        assert!(keys.len() > 990);
    }
}
