//! The head of a request, decoded strictly.
//!
//! `httparse` decodes lines and tokens; on top of it everything is refused that two readers might
//! understand differently (RFC 9112, sections 2.2, 5.1, 5.2, 6.1 and 11.2): bare CR or LF, folded
//! lines, white space before the colon, two lengths, a length beside a transfer coding, codings
//! other than exactly `chunked`, codings in HTTP/1.0.

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Header, Request, Status};

use super::HttpError;

/// Bounds of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head.
    pub bytes: usize,
    /// Header lines, at most [`MAX_FIELDS`].
    pub fields: usize,
    /// Bytes of the target.
    pub target: usize,
}

/// Most header lines that can be allowed.
pub const MAX_FIELDS: usize = 256;

/// Looks for the end of a request's head in a buffer that grows. Remembers how far it has looked, so that a
/// head that comes byte by byte costs no more than one that comes at once.
#[derive(Debug, Default)]
pub struct HeadReader {
    looked: usize,
    line: usize,
}

impl HeadReader {
    /// For the next head.
    pub const fn new() -> Self {
        Self { looked: 0, line: 0 }
    }

    /// Decodes the head at the start of `bytes`; none while it is incomplete. After a head or an
    /// error the reader is as new.
    ///
    /// # Errors
    /// [`HttpError`] as soon as it is certain; the connection is of no further use.
    pub fn read(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<Head>, HttpError> {
        let result = match self.end(bytes) {
            Ok(Some(len)) if len <= limits.bytes => decode(&bytes[..len], limits).map(Some),
            Ok(Some(_)) => Err(too_large(bytes, limits)),
            Ok(None) if bytes.len() >= limits.bytes => Err(too_large(bytes, limits)),
            Ok(None) => return Ok(None),
            Err(error) => Err(error),
        };
        *self = Self::new();
        result
    }

    /// The length of the head, if it ends in `bytes`.
    fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, HttpError> {
        while let Some(found) =
            memchr::memchr2(b'\r', b'\n', bytes.get(self.looked..).unwrap_or_default())
        {
            let at = self.looked + found;
            match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) if at == self.line => {
                    // An empty first line is no head.
                    return if at == 0 {
                        Err(HttpError::RequestLine)
                    } else {
                        Ok(Some(at + 2))
                    };
                }
                (b'\r', Some(b'\n')) => {
                    self.looked = at + 2;
                    self.line = at + 2;
                }
                (b'\r', None) => {
                    self.looked = at;
                    return Ok(None);
                }
                _ => return Err(HttpError::LineEnd),
            }
        }
        self.looked = bytes.len();
        Ok(None)
    }
}

/// Which part made a head too large: a long target has a status of its own.
fn too_large(bytes: &[u8], limits: &HeadLimits) -> HttpError {
    let first_line = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
    if first_line > limits.target {
        HttpError::TargetTooLong(limits.target)
    } else {
        HttpError::HeadTooLarge(limits.bytes)
    }
}

/// What a server needs to know of a request's head. It does not borrow from the buffer; [`Head::view`] reads the rest while
/// the bytes are still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head, empty line included.
    pub len: usize,
    /// The version of HTTP.
    pub version: Version,
    /// How the body comes.
    pub framing: Framing,
    /// Whether the client wants another request on this connection.
    pub keep_alive: bool,
    /// `Connection: upgrade` and `Upgrade: websocket` are there.
    pub upgrade: bool,
    /// What the client waits for before it sends the body.
    pub expect: Expect,
    /// Whether there is an `X-Forwarded-For`.
    pub forwarded: bool,
    method: Range<usize>,
    target: Range<usize>,
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How a body comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes; 0 for no body.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// What a client waits for before it sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Nothing,
    /// `100 Continue`.
    Continue,
}

impl Head {
    /// The parts of the head in the bytes that it was decoded from.
    pub fn view<'b>(&self, bytes: &'b [u8]) -> HeadView<'b> {
        let text = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        HeadView {
            method: text(&self.method),
            target: text(&self.target),
            fields: Fields(text(&(self.target.end + " HTTP/1.1\r\n".len()..self.len))),
        }
    }

    /// Whether a body follows.
    pub const fn has_body(&self) -> bool {
        !matches!(self.framing, Framing::Length(0))
    }
}

/// The parts of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadView<'b> {
    /// The method, a token.
    pub method: &'b [u8],
    /// The target as it came, not decoded; raw quotes and bytes above 0x7f may be in it.
    pub target: &'b [u8],
    fields: Fields<'b>,
}

/// The header lines of a head.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'b>(pub(super) &'b [u8]);

/// A header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'b> {
    /// The name as it was written.
    pub name: &'b str,
    /// The value without white space around it.
    pub value: &'b [u8],
}

impl Field<'_> {
    /// Whether it has that name, whatever the case.
    pub const fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl<'b> Fields<'b> {
    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'b>> + use<'b> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let colon = memchr::memchr(b':', rest)?;
            let end = colon + memchr::memchr(b'\r', &rest[colon..])?;
            let field = Field {
                name: std::str::from_utf8(&rest[..colon]).ok()?,
                value: rest[colon + 1..end].trim_ascii(),
            };
            rest = rest.get(end + 2..).unwrap_or_default();
            Some(field)
        })
    }

    /// The values of all lines of that name, in order.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        self.iter()
            .filter(move |field| field.is(name))
            .map(|field| field.value)
    }

    /// The value of the first line of that name.
    pub fn first(&self, name: &'static str) -> Option<&'b [u8]> {
        self.all(name).next()
    }

    /// Whether the comma-separated list in the lines of that name has a word, whatever its case.
    pub fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.all(name).any(|list| has_token(list, token))
    }
}

impl<'b> HeadView<'b> {
    /// The header lines in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'b>> + use<'b> {
        self.fields.iter()
    }

    /// The values of all lines of that name, in order.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        self.fields.all(name)
    }

    /// The value of the first line of that name.
    pub fn first(&self, name: &'static str) -> Option<&'b [u8]> {
        self.fields.first(name)
    }

    /// Whether the comma-separated list in the lines of that name has a word, whatever its case.
    pub fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.fields.has_token(name, token)
    }

    /// The lines that may be forwarded: without those that concern this connection only (RFC 9110,
    /// section 7.6.1) and without those that frame the body.
    pub fn end_to_end(&self) -> impl Iterator<Item = Field<'b>> + use<'b> {
        let view = *self;
        self.fields().filter(move |field| {
            !HOP_BY_HOP.iter().any(|name| field.is(name))
                && !view
                    .all("connection")
                    .any(|list| has_token(list, field.name))
        })
    }
}

/// What is never forwarded.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a comma-separated list has that word, whatever the case.
pub(super) fn has_token(list: &[u8], token: &str) -> bool {
    list.split(|byte| *byte == b',')
        .any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Decodes a head that is complete.
fn decode(bytes: &[u8], limits: &HeadLimits) -> Result<Head, HttpError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_FIELDS];
    let most = limits.fields.min(MAX_FIELDS);
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut room[..most]) {
        Ok(Status::Complete(len)) if len == bytes.len() => {}
        Ok(_) => return Err(HttpError::Field),
        Err(httparse::Error::TooManyHeaders) => return Err(HttpError::TooManyFields(most)),
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            return Err(HttpError::Field);
        }
        Err(_) => return Err(HttpError::RequestLine),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(HttpError::RequestLine);
    };
    if target.len() > limits.target {
        return Err(HttpError::TargetTooLong(limits.target));
    }
    let version = if version == 0 {
        Version::Http10
    } else {
        Version::Http11
    };
    let mut seen = HeaderLines::default();
    for header in request.headers.iter() {
        seen.note(header)?;
    }
    let start = method.len() + 1;
    Ok(Head {
        len: bytes.len(),
        version,
        framing: seen.framing(version)?,
        keep_alive: seen.keep_alive(version),
        upgrade: seen.connection_upgrade && seen.upgrade_websocket,
        expect: seen.expect(version)?,
        forwarded: seen.forwarded,
        method: 0..method.len(),
        target: start..start + target.len(),
    })
}

/// What the header lines contain.
#[derive(Default)]
struct HeaderLines<'b> {
    length: Option<&'b [u8]>,
    coding: Option<&'b [u8]>,
    expect: Option<&'b [u8]>,
    hosts: usize,
    connection_close: bool,
    connection_keep_alive: bool,
    connection_upgrade: bool,
    upgrade_websocket: bool,
    forwarded: bool,
}

const fn is_continue(expected: &[u8]) -> bool {
    expected.eq_ignore_ascii_case(b"100-continue")
}

/// Whether a host with its port may have this byte (RFC 3986, section 3.2.2).
const fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'$' | b'%' | b'&'..=b'.' | b':' | b';' | b'=' | b'[' | b']' | b'_' | b'~'
        )
}

impl<'b> HeaderLines<'b> {
    fn note(&mut self, header: &Header<'b>) -> Result<(), HttpError> {
        let (name, value) = (header.name, header.value.trim_ascii());
        // The length distinguishes most names before a letter is compared.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                self.hosts += 1;
                if !value.iter().all(|byte| is_of_host(*byte)) {
                    return Err(HttpError::Host);
                }
            }
            // Of several, one that cannot be met.
            6 if name.eq_ignore_ascii_case("expect") && self.expect.is_none_or(is_continue) => {
                self.expect = Some(value);
            }
            7 if name.eq_ignore_ascii_case("upgrade") => {
                self.upgrade_websocket |= has_token(value, "websocket");
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                self.connection_close |= has_token(value, "close");
                self.connection_keep_alive |= has_token(value, "keep-alive");
                self.connection_upgrade |= has_token(value, "upgrade");
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                once(&mut self.length, value)?;
            }
            15 if name.eq_ignore_ascii_case("x-forwarded-for") => self.forwarded = true,
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                once(&mut self.coding, value)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn framing(&self, version: Version) -> Result<Framing, HttpError> {
        if version == Version::Http11 && self.hosts != 1 || self.hosts > 1 {
            return Err(HttpError::Host);
        }
        match (self.length, self.coding) {
            (None, None) => Ok(Framing::Length(0)),
            (Some(length), None) => decimal(length)
                .map(Framing::Length)
                .ok_or(HttpError::Framing),
            (None, Some(coding))
                if version == Version::Http11 && coding.eq_ignore_ascii_case(b"chunked") =>
            {
                Ok(Framing::Chunked)
            }
            _ => Err(HttpError::Framing),
        }
    }

    fn keep_alive(&self, version: Version) -> bool {
        match version {
            Version::Http10 => self.connection_keep_alive && !self.connection_close,
            Version::Http11 => !self.connection_close,
        }
    }

    fn expect(&self, version: Version) -> Result<Expect, HttpError> {
        match self.expect {
            Some(value) if is_continue(value) => Ok(match version {
                Version::Http11 => Expect::Continue,
                Version::Http10 => Expect::Nothing,
            }),
            Some(_) => Err(HttpError::Expectation),
            None => Ok(Expect::Nothing),
        }
    }
}

/// Notes a header line that may occur once.
fn once<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8]) -> Result<(), HttpError> {
    match slot.replace(value) {
        Some(_) => Err(HttpError::Framing),
        None => Ok(()),
    }
}

/// The value of decimal digits and nothing else; [`u64::MAX`] for what does not fit into 64 bits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests;
