//! HTTP/1.1 as a node's RPC speaks it: the request's head, and answers out of a byte stream.

use std::mem::MaybeUninit;

use httparse::{ParserConfig, Response, Status};

use super::buffer::InBuffer;
use super::error::{ConnectionError, http};
use super::{Limits, Message};
use crate::endpoint::Endpoint;

/// The part of a request's head that never changes, up to the digits of the length.
pub(super) fn request_head(endpoint: &Endpoint, path: Option<&str>) -> Vec<u8> {
    let path = path.map_or_else(|| endpoint.path(), ToOwned::to_owned);
    format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: ",
        path,
        endpoint.authority(),
    )
    .into_bytes()
}

/// Appends the head of a request with a body of `len` bytes.
#[inline]
pub(super) fn write_head(out: &mut Vec<u8>, head: &[u8], len: usize) {
    out.extend_from_slice(head);
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
}

/// Cuts a byte stream into answers.
#[derive(Debug, Default)]
pub(super) struct HttpReader {
    state: State,
    /// Bytes of an incomplete head that were looked at already.
    seen: usize,
    /// A chunked body, put together here.
    chunks: Vec<u8>,
    /// Requests without an answer yet.
    pub(super) unanswered: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Head,
    Body(Head, Framing),
}

#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    /// Whether the connection ends with this answer.
    last: bool,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length(usize),
    ChunkSize,
    ChunkData(usize),
    ChunkEnd,
    Trailers,
    UntilClose,
}

impl HttpReader {
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
            let (head, framing) = match self.state {
                State::Body(head, framing) => (head, framing),
                State::Head => match self.head(input, limits)? {
                    Some(found) => found,
                    None => return Ok(messages),
                },
            };
            self.state = State::Body(head, framing);
            if !self.body(input, limits, head, framing, on_message)? {
                return Ok(messages);
            }
            messages += 1;
            self.state = State::Head;
            self.unanswered -= 1;
            if head.last {
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
        match self.state {
            State::Body(Head { status, .. }, Framing::UntilClose) => {
                on_message(Message {
                    body: input.filled(),
                    status,
                });
                self.unanswered -= 1;
                self.state = State::Head;
                input.consume(input.filled().len());
                ConnectionError::ClosedAfterAnswer
            }
            State::Body(..) => ConnectionError::Closed { mid_message: true },
            State::Head => ConnectionError::Closed {
                mid_message: !input.filled().is_empty(),
            },
        }
    }

    #[inline]
    fn head(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
    ) -> Result<Option<(Head, Framing)>, ConnectionError> {
        loop {
            let filled = input.filled();
            // A head that trickles in is read again once per line, not once per byte.
            if self.seen > 0 && !filled[self.seen..].contains(&b'\n') {
                self.seen = filled.len();
                return check_head(filled.len(), limits).map(|()| None);
            }
            if filled.is_empty() {
                return Ok(None);
            }
            if self.unanswered == 0 {
                return Err(ConnectionError::Unsolicited);
            }
            let Some((len, status, parsed)) = parse_head(filled)? else {
                self.seen = filled.len();
                return check_head(filled.len(), limits).map(|()| None);
            };
            check_head(len, limits)?;
            self.seen = 0;
            input.consume(len);
            match status {
                101 => return Err(http("it switches protocols without being asked")),
                // "100 Continue" and its kin precede the answer (RFC 9110, section 15.2).
                100..200 => {}
                _ => return Ok(Some(parsed)),
            }
        }
    }

    /// Goes on with a body; whether it was handed over.
    #[inline]
    fn body(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
        head: Head,
        framing: Framing,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<bool, ConnectionError> {
        let status = head.status;
        match framing {
            Framing::Length(len) => {
                let filled = input.filled();
                if filled.len() < len {
                    check_message(len, limits)?;
                    input.want(len);
                    return Ok(false);
                }
                check_message(len, limits)?;
                on_message(Message {
                    body: &filled[..len],
                    status,
                });
                input.consume(len);
                Ok(true)
            }
            Framing::UntilClose => {
                let len = input.filled().len();
                check_message(len, limits)?;
                input.want(len + 1);
                Ok(false)
            }
            _ => {
                if !self.chunked(input, limits, head, framing)? {
                    return Ok(false);
                }
                on_message(Message {
                    body: &self.chunks,
                    status,
                });
                self.chunks.clear();
                self.chunks.shrink_to(KEEP_CHUNKS);
                Ok(true)
            }
        }
    }

    /// Puts chunks together; whether the last one is there.
    fn chunked(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
        head: Head,
        mut framing: Framing,
    ) -> Result<bool, ConnectionError> {
        while let Some(next) = self.chunk_step(input, limits, framing)? {
            let Some(following) = next else {
                return Ok(true);
            };
            framing = following;
            self.state = State::Body(head, framing);
        }
        Ok(false)
    }

    /// One step through a chunked body: `None` = more bytes are needed, `Some(None)` = done.
    fn chunk_step(
        &mut self,
        input: &mut InBuffer,
        limits: Limits,
        framing: Framing,
    ) -> Result<Option<Option<Framing>>, ConnectionError> {
        let filled = input.filled();
        let (used, next) = match framing {
            Framing::ChunkSize => match httparse::parse_chunk_size(filled) {
                Ok(Status::Complete((used, size))) => {
                    let size = usize::try_from(size).unwrap_or(usize::MAX);
                    check_message(self.chunks.len().saturating_add(size), limits)?;
                    let next = if size == 0 {
                        Framing::Trailers
                    } else {
                        Framing::ChunkData(size)
                    };
                    (used, Some(next))
                }
                Ok(Status::Partial) => return check_head(filled.len(), limits).map(|()| None),
                Err(_) => return Err(http("a chunk has no valid size")),
            },
            Framing::ChunkData(left) => {
                let used = left.min(filled.len());
                if used == 0 {
                    return Ok(None);
                }
                self.chunks.extend_from_slice(&filled[..used]);
                let next = if used == left {
                    Framing::ChunkEnd
                } else {
                    Framing::ChunkData(left - used)
                };
                (used, Some(next))
            }
            Framing::ChunkEnd => match filled {
                [b'\r', b'\n', ..] => (2, Some(Framing::ChunkSize)),
                [] | [b'\r'] => return Ok(None),
                _ => return Err(http("a chunk is longer than its size")),
            },
            Framing::Trailers => match filled.iter().position(|byte| *byte == b'\n') {
                None => return check_head(filled.len(), limits).map(|()| None),
                Some(0) => (1, None),
                Some(1) if filled[0] == b'\r' => (2, None),
                Some(line) => (line + 1, Some(Framing::Trailers)),
            },
            Framing::Length(_) | Framing::UntilClose => return Ok(None),
        };
        input.consume(used);
        Ok(Some(next))
    }
}

type ParsedHead = (usize, u16, (Head, Framing));

/// Reads a head: its length, its status and what follows; `None` while it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<ParsedHead>, ConnectionError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let len = match parsed {
        Ok(Status::Complete(len)) => len,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(http(&error)),
    };
    let status = response.code.unwrap_or(0);
    let mut last = response.version == Some(0);
    let (mut length, mut chunked) = (None, false);
    for header in response.headers.iter() {
        let name = header.name;
        // The length of the name rules out nearly every header before its text is compared.
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => {
                let value = content_length(header.value)?;
                if length.is_some_and(|other| other != value) {
                    return Err(http("it states two lengths"));
                }
                length = Some(value);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(http("its transfer encoding is not 'chunked'"));
                }
                chunked = true;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                last = closes(header.value, last);
            }
            _ => {}
        }
    }
    let framing = match (chunked, length) {
        (true, _) => Framing::ChunkSize,
        (false, _) if status == 204 || status == 304 => Framing::Length(0),
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::UntilClose,
    };
    Ok(Some((len, status, (Head { status, last }, framing))))
}

fn content_length(value: &[u8]) -> Result<usize, ConnectionError> {
    let refuse = || http("its Content-Length is not a number");
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(refuse());
    }
    Ok(value
        .iter()
        .fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

/// Whether a `Connection` header ends the connection; `default` when it says neither.
fn closes(value: &[u8], default: bool) -> bool {
    let mut last = default;
    for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if token.eq_ignore_ascii_case(b"close") {
            return true;
        }
        if token.eq_ignore_ascii_case(b"keep-alive") {
            last = false;
        }
    }
    last
}

const fn check_head(len: usize, limits: Limits) -> Result<(), ConnectionError> {
    if len > limits.head {
        return Err(ConnectionError::TooLarge {
            what: "head",
            limit: limits.head,
        });
    }
    Ok(())
}

#[inline]
const fn check_message(len: usize, limits: Limits) -> Result<(), ConnectionError> {
    if len > limits.message {
        return Err(ConnectionError::TooLarge {
            what: "message",
            limit: limits.message,
        });
    }
    Ok(())
}

/// More headers than this are refused; CometBFT sends four.
const MAX_HEADERS: usize = 64;
/// A chunk store up to this size is kept between messages.
const KEEP_CHUNKS: usize = 256 << 10;
