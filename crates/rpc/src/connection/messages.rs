//! Messages between a connection and a node's RPC: requests and answers of HTTP/1.1, and messages out of the frames of a
//! WebSocket with the answers to its pings and closes.

use std::hash::{BuildHasher, RandomState};

use wire::http::{BodyReader, Framing, ReplyFraming, ReplyHead, ReplyReader};
use wire::ws::frame::{CLOSE, MaskKeys, PONG, write_masked};
use wire::ws::{Event, FrameReader, Step, WsLimits};

use super::buffer::{InBuffer, OutBuffer};
use super::error::{ConnectionError, Limits, Message, http};
use crate::endpoint::Endpoint;

/// The parts of a request that never change.
#[derive(Debug)]
pub(super) enum Request {
    /// Up to the digits of the length; a message is the body.
    Post(Vec<u8>),
    /// Before and after a message, which is the path.
    Get([Vec<u8>; 2]),
}

impl Request {
    /// Posted to `path`, or to the endpoint's.
    pub(super) fn post(endpoint: &Endpoint, path: Option<&str>) -> Self {
        let path = path.map_or_else(|| endpoint.path(), ToOwned::to_owned);
        let fields = fields(endpoint);
        let head = format!(
            "POST {path} HTTP/1.1\r\n{fields}Content-Type: application/json\r\nContent-Length: "
        );
        Self::Post(head.into_bytes())
    }

    /// Of paths behind the endpoint's own.
    pub(super) fn get(endpoint: &Endpoint) -> Self {
        let base = endpoint.path();
        let before = format!("GET {}", base.trim_end_matches('/'));
        let after = format!(" HTTP/1.1\r\n{}\r\n", fields(endpoint));
        Self::Get([before, after].map(String::into_bytes))
    }

    /// Appends the request of a message of `len` bytes.
    #[inline]
    pub(super) fn write(&self, out: &mut Vec<u8>, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Post(head) => {
                out.extend_from_slice(head);
                out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
                out.extend_from_slice(b"\r\n\r\n");
                write(out);
            }
            Self::Get([before, after]) => {
                out.extend_from_slice(before);
                write(out);
                out.extend_from_slice(after);
            }
        }
    }
}

fn fields(endpoint: &Endpoint) -> String {
    let host = endpoint.authority();
    let authorization = endpoint.authorization();
    let authorization =
        authorization.map_or_else(String::new, |value| format!("Authorization: {value}\r\n"));
    format!("Host: {host}\r\n{authorization}")
}

/// Cuts a byte stream into answers.
#[derive(Debug, Default)]
pub(super) struct AnswerReader {
    heads: ReplyReader,
    /// The answer whose body is being read.
    under_way: Option<ReplyHead>,
    /// Reads a chunked body.
    chunks: Option<BodyReader>,
    /// A chunked body, put together here.
    body: Vec<u8>,
    /// Requests without an answer yet.
    pub(super) unanswered: u32,
}

impl AnswerReader {
    /// Hands over every complete answer in the buffer; how many.
    #[inline]
    pub(super) fn parse(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<u32, ConnectionError> {
        let mut messages = 0;
        loop {
            let head = match self.under_way {
                Some(head) => head,
                None => match self.head(input, limits)? {
                    Some(head) => head,
                    None => return Ok(messages),
                },
            };
            if !self.body(input, limits, head, on_message)? {
                self.under_way = Some(head);
                return Ok(messages);
            }
            messages += 1;
            self.under_way = None;
            self.unanswered -= 1;
            if !head.keep_alive {
                return Err(ConnectionError::ClosedAfterAnswer);
            }
        }
    }

    /// The stream ended: the error to report, after a body that only the end delimits.
    pub(super) fn end(
        &mut self,
        input: &mut InBuffer,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> ConnectionError {
        match self.under_way.take() {
            Some(head) if head.framing == ReplyFraming::UntilClose => {
                on_message(Message::new(input.filled(), head.status));
                self.unanswered -= 1;
                input.consume(input.filled().len());
                ConnectionError::ClosedAfterAnswer
            }
            Some(_) => ConnectionError::Closed { mid_message: true },
            None => ConnectionError::Closed {
                mid_message: !input.filled().is_empty(),
            },
        }
    }

    #[inline]
    fn head(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
    ) -> Result<Option<ReplyHead>, ConnectionError> {
        loop {
            let filled = input.filled();
            if filled.is_empty() {
                return Ok(None);
            }
            if self.unanswered == 0 {
                return Err(ConnectionError::Unsolicited);
            }
            let Some(head) = self.heads.read(filled, limits.head)? else {
                return Ok(None);
            };
            input.consume(head.len);
            match head.status {
                101 => return Err(http(&"it switches protocols without being asked")),
                // Informational responses precede the answer (RFC 9110, section 15.2).
                100..200 => {}
                _ => return Ok(Some(head)),
            }
        }
    }

    /// Goes on with a body; whether it was handed over.
    #[inline]
    fn body(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
        head: ReplyHead,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<bool, ConnectionError> {
        let status = head.status;
        match head.framing {
            ReplyFraming::Length(len) => {
                let len = limits.check_message(len)?;
                let Some(body) = input.filled().get(..len) else {
                    input.want(len);
                    return Ok(false);
                };
                on_message(Message::new(body, status));
                input.consume(len);
                Ok(true)
            }
            ReplyFraming::UntilClose => {
                let len = limits.check_message(input.filled().len() as u64)?;
                input.want(len + 1);
                Ok(false)
            }
            ReplyFraming::Chunked => {
                let reader = match &mut self.chunks {
                    Some(reader) => reader,
                    none => none.insert(BodyReader::new(Framing::Chunked, limits.message)?),
                };
                let progress = reader.read(input.filled(), &mut self.body)?;
                input.consume(progress.used);
                if !progress.done {
                    return Ok(false);
                }
                self.chunks = None;
                on_message(Message::new(&self.body, status));
                self.body.clear();
                self.body.shrink_to(KEPT_BODY_BYTES);
                Ok(true)
            }
        }
    }
}

/// Storage of chunked bodies up to this size is kept between answers.
const KEPT_BODY_BYTES: usize = 256 << 10;

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
