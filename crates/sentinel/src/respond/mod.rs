//! Answers and refusals as bytes: the one place with HTTP statuses and JSON-RPC codes.
//!
//! What the node would answer is written byte for byte as it would write it (CometBFT 0.38.17:
//! `rpc/jsonrpc/server/http_server.go`, and Go's `net/http` for the head). Refusals speak the
//! node's dialect too, so that clients which know how to wait for a full mempool wait for us.

mod refuse;

use std::borrow::Cow;

use compact_str::CompactString;
use hyper::header::{self, HeaderName};
pub use wire::http::HttpDate;
use wire::http::{
    BodyLength, LAST_CHUNK, ResponseHead, Version, write_chunk_end, write_chunk_start,
};
use wire::json::write::array;
use wire::ws::{HandshakeError, write_text_head};

pub(crate) use self::refuse::{GrpcStatus, http_status, whole_seconds};
pub use self::refuse::{malformed, refusal_member};

/// The text of an id that waits for its answer; short ones, as most are, need no memory of their own.
pub type KeptId = CompactString;

/// How an HTTP request wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// In which HTTP.
    pub version: Version,
    /// Whether the connection stays.
    pub keep_alive: bool,
    /// Whether the answer has a body: not one to HEAD.
    pub with_body: bool,
    /// When it was asked, in seconds since the Unix epoch: the node's `X-Server-Time`.
    pub at: u64,
}

/// How the client asked, and so the format of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// JSON-RPC in a body, with this id as it is echoed; none where the node has none either.
    Post(Option<&'a str>),
    /// A method in the target: the id is -1, and an error has a status of its own.
    Uri,
}

impl<'a> Form<'a> {
    const fn id(self) -> Option<&'a str> {
        match self {
            Self::Post(id) => id,
            Self::Uri => Some("-1"),
        }
    }
}

/// Writes one answer to an HTTP request.
#[derive(Debug)]
pub struct HttpAnswer<'o> {
    out: &'o mut Vec<u8>,
    asked: Asked,
    date: &'o HttpDate,
    allowed_origin: Option<&'o [u8]>,
}

impl<'o> HttpAnswer<'o> {
    /// An answer that is appended to `out` and dated `date`.
    pub const fn new(out: &'o mut Vec<u8>, asked: Asked, date: &'o HttpDate) -> Self {
        Self {
            out,
            asked,
            date,
            allowed_origin: None,
        }
    }

    /// With the headers that let a web page of this origin read it, spelt and placed as the node's (`rs/cors`,
    /// `handleActualRequest`).
    #[must_use]
    pub const fn allowing(mut self, origin: Option<&'o [u8]>) -> Self {
        self.allowed_origin = origin;
        self
    }

    /// Begins the head of an answer, up to the type of its body.
    fn start(&mut self, status: u16, content_type: Option<&[u8]>) -> ResponseHead<'_> {
        let mut head = ResponseHead::start(self.out, self.asked.version, status);
        if let Some(origin) = self.allowed_origin {
            head = head.field("Access-Control-Allow-Origin", origin);
        }
        if let Some(content_type) = content_type {
            head = head.field("Content-Type", content_type);
        }
        match self.allowed_origin {
            Some(_) => head.field("Vary", b"Origin"),
            None => head,
        }
    }

    /// The node's result or error: `member` is `"result":…` or `"error":…`.
    pub fn member(self, form: Form<'_>, member: &[u8]) {
        let status = match form {
            Form::Uri if is_error(member) => 500,
            _ => 200,
        };
        let len = answer_len(form.id(), member);
        self.json(status, len, |out| write_answer(out, form.id(), member));
    }

    /// The answers to a batch, each as [`write_answer`] made it: bare when it
    /// is one, none when there is none.
    pub fn batch(self, answers: &[Vec<u8>]) {
        match answers {
            [] => self.nothing(),
            [answer] => self.json(200, answer.len(), |out| out.extend_from_slice(answer)),
            answers => {
                let len = answers.iter().map(Vec::len).sum::<usize>() + answers.len() + 1;
                self.json(200, len, |out| {
                    array(out, answers, |out, answer| out.extend_from_slice(answer));
                });
            }
        }
    }

    /// To notifications: an empty 200 without a type.
    pub fn nothing(mut self) {
        let Self { asked, date, .. } = self;
        let head = self.start(200, None);
        head.number("X-Server-Time", asked.at)
            .field("Date", date.as_bytes())
            .finish(BodyLength::Known(0), asked.keep_alive);
    }

    /// The switch to a WebSocket.
    pub fn upgraded(self, accept: &str) {
        ResponseHead::start(self.out, Version::Http11, 101)
            .field("Upgrade", b"websocket")
            .field("Connection", b"Upgrade")
            .field("Sec-WebSocket-Accept", accept.as_bytes())
            .finish(BodyLength::Nothing, true);
    }

    /// A refused switch to a WebSocket, in the words of the node's server.
    pub fn not_upgraded(self, error: HandshakeError) {
        let (status, text) = match error {
            HandshakeError::Malformed => (400, "Bad Request\n"),
            HandshakeError::Method => (405, "Method Not Allowed\n"),
            HandshakeError::Origin => (403, "Forbidden\n"),
        };
        let Self {
            out, asked, date, ..
        } = self;
        ResponseHead::start(out, asked.version, status)
            .field("Content-Type", b"text/plain; charset=utf-8")
            .field("Sec-Websocket-Version", b"13")
            .field("X-Content-Type-Options", b"nosniff")
            .number("X-Server-Time", asked.at)
            .field("Date", date.as_bytes())
            .finish(BodyLength::Known(text.len() as u64), asked.keep_alive);
        if asked.with_body {
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// An answer with a body of `len` bytes, which `write` appends.
    fn json(mut self, status: u16, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let Self { asked, date, .. } = self;
        self.start(status, Some(b"application/json"))
            .number("X-Server-Time", asked.at)
            .field("Date", date.as_bytes())
            .finish(length_of(len, asked), asked.keep_alive);
        write_body(self.out, len, asked, write);
    }
}

/// Go's server sends what does not fit its buffer in chunks (`bufferBeforeChunkingSize` in
/// `net/http/server.go`).
const CHUNKED_ABOVE: usize = 2048;

fn length_of(len: usize, asked: Asked) -> BodyLength {
    let chunked = len > CHUNKED_ABOVE && asked.version == Version::Http11;
    match (chunked, asked.with_body) {
        (true, true) => BodyLength::Chunked,
        (true, false) => BodyLength::Nothing,
        (false, _) => BodyLength::Known(len as u64),
    }
}

/// Appends the body, if the request wants one.
fn write_body(out: &mut Vec<u8>, len: usize, asked: Asked, write: impl FnOnce(&mut Vec<u8>)) {
    if !asked.with_body {
        return;
    }
    let chunked = length_of(len, asked) == BodyLength::Chunked;
    out.reserve(len + 32);
    if chunked {
        write_chunk_start(out, len);
    }
    let start = out.len();
    write(out);
    debug_assert_eq!(out.len() - start, len, "the head states the body's length");
    if chunked {
        write_chunk_end(out);
        out.extend_from_slice(LAST_CHUNK);
    }
}

/// A name as Go's servers spell it: the library keeps names in lower case.
pub(crate) fn go_name(name: &HeaderName) -> Cow<'static, str> {
    match *name {
        header::CONTENT_TYPE => "Content-Type".into(),
        header::DATE => "Date".into(),
        header::CACHE_CONTROL => "Cache-Control".into(),
        header::VARY => "Vary".into(),
        _ => {
            let mut is_first = true;
            let spelt = |letter: char| {
                if std::mem::replace(&mut is_first, letter == '-') {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                }
            };
            name.as_str().chars().map(spelt).collect::<String>().into()
        }
    }
}

fn is_error(member: &[u8]) -> bool {
    member.starts_with(b"\"error\"")
}

const OPEN: &[u8] = br#"{"jsonrpc":"2.0""#;
const ID: &[u8] = br#","id":"#;

/// Appends an answer: `{"jsonrpc":"2.0","id":…,` the member, `}`.
pub fn write_answer(out: &mut Vec<u8>, id: Option<&str>, member: &[u8]) {
    out.extend_from_slice(OPEN);
    if let Some(id) = id {
        out.extend_from_slice(ID);
        out.extend_from_slice(id.as_bytes());
    }
    out.push(b',');
    out.extend_from_slice(member);
    out.push(b'}');
}

fn answer_len(id: Option<&str>, member: &[u8]) -> usize {
    let id = id.map_or(0, |id| ID.len() + id.len());
    OPEN.len() + id + 1 + member.len() + 1
}

/// Appends an answer as a WebSocket message.
pub fn write_ws_answer(out: &mut Vec<u8>, id: Option<&str>, member: &[u8]) {
    write_text_head(out, answer_len(id, member));
    write_answer(out, id, member);
}

#[cfg(test)]
mod tests;
