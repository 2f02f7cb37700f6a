//! HTTP/1.1 as a node's RPC speaks it: the request's head, and answers out of a byte stream.

use wire::http::{BodyReader, Framing, ReplyFraming, ReplyHead, ReplyReader};

use super::buffer::InBuffer;
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
