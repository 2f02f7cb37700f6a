//! Heads of responses, with names and order of the lines as in Go's server, and the `Date` in them.

use jiff::SignedDuration;
use jiff::civil::{self, DateTime};

use super::Version;

/// Asks for the body of a request with `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Ends a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How the length of a response's body is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// So many bytes.
    Known(u64),
    /// In chunks; only in HTTP/1.1.
    Chunked,
    /// Up to the end of the connection, for HTTP/1.0.
    UntilClose,
    /// There is none, and no header for it: 1xx, 204, 304.
    Nothing,
}

/// Writes the head of an answer into a buffer, line by line.
///
/// Values must not contain line ends; they come from constants or from a decoded answer.
#[derive(Debug)]
#[must_use = "a head ends with `finish`"]
pub struct ResponseHead<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl<'o> ResponseHead<'o> {
    /// Writes the status line.
    pub fn start(out: &'o mut Vec<u8>, version: Version, status: u16) -> Self {
        out.extend_from_slice(match version {
            Version::Http10 => b"HTTP/1.0 ",
            Version::Http11 => b"HTTP/1.1 ",
        });
        out.extend_from_slice(itoa::Buffer::new().format(status).as_bytes());
        out.push(b' ');
        out.extend_from_slice(reason(status).as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out, version }
    }

    /// Writes a line.
    pub fn field(self, name: &str, value: &[u8]) -> Self {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Writes a line with a number.
    pub fn number(self, name: &str, value: u64) -> Self {
        self.field(name, itoa::Buffer::new().format(value).as_bytes())
    }

    /// Writes how long the body is and whether the connection stays, and the end of the head.
    ///
    /// The order is that of Go's server: length, `Connection`, coding. `Connection` is written only
    /// where it differs from the version's default.
    pub fn finish(self, length: BodyLength, keep_alive: bool) {
        let version = self.version;
        let head = match length {
            BodyLength::Known(length) => self.number("Content-Length", length),
            _ => self,
        };
        let head = match (version, keep_alive) {
            (Version::Http11, false) => head.field("Connection", b"close"),
            (Version::Http10, true) => head.field("Connection", b"keep-alive"),
            _ => head,
        };
        let head = match length {
            BodyLength::Chunked => head.field("Transfer-Encoding", b"chunked"),
            _ => head,
        };
        head.out.extend_from_slice(b"\r\n");
    }
}

/// Starts a chunk of `len` bytes, which must not be 0.
pub fn write_chunk_start(out: &mut Vec<u8>, len: usize) {
    use std::io::Write;
    write!(out, "{len:x}\r\n").expect("a Vec takes everything");
}

/// Ends a chunk.
pub fn write_chunk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The reason phrase; names as in Go's `net/http/status.go`, of the statuses that CometBFT or our
/// servers answer with.
const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Request Entity Too Large",
        414 => "Request URI Too Long",
        417 => "Expectation Failed",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

/// A date as HTTP writes it, such as `Sat, 21 Nov 2026 05:45:54 GMT`: made once a second, written
/// into every response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpDate {
    unix_seconds: u64,
    text: String,
}

impl HttpDate {
    /// The date of that second. What is past the year 9999 is written as its end.
    pub fn new(unix_seconds: u64) -> Self {
        let since = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
        let date = EPOCH.saturating_add(SignedDuration::from_secs(since));
        Self {
            unix_seconds,
            text: date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        }
    }

    /// Makes it the date of another second, if it is another.
    pub fn set(&mut self, unix_seconds: u64) {
        if self.unix_seconds != unix_seconds {
            *self = Self::new(unix_seconds);
        }
    }

    /// The second that it stands for.
    pub const fn unix_seconds(&self) -> u64 {
        self.unix_seconds
    }

    /// The text.
    pub const fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

const EPOCH: DateTime = civil::date(1970, 1, 1).at(0, 0, 0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: Version, length: BodyLength, keep_alive: bool) -> String {
        let mut out = Vec::new();
        ResponseHead::start(&mut out, version, 200)
            .field("A", b"b")
            .finish(length, keep_alive);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_connection_is_named_where_it_is_not_understood() {
        let known = BodyLength::Known(5);
        assert_eq!(
            head(Version::Http11, known, true),
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\n"
        );
        assert_eq!(
            head(Version::Http11, known, false),
            "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            head(Version::Http10, known, true),
            "HTTP/1.0 200 OK\r\nA: b\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"
        );
        assert_eq!(
            head(Version::Http10, BodyLength::UntilClose, false),
            "HTTP/1.0 200 OK\r\nA: b\r\n\r\n"
        );
        assert_eq!(
            head(Version::Http11, BodyLength::Chunked, true),
            "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
    }

    #[test]
    fn chunks_are_framed() {
        let mut out = Vec::new();
        write_chunk_start(&mut out, 26);
        write_chunk_end(&mut out);
        out.extend_from_slice(LAST_CHUNK);
        assert_eq!(out, b"1a\r\n\r\n0\r\n\r\n");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (1_795_239_954, "Sat, 21 Nov 2026 05:45:54 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let date = HttpDate::new(seconds);
            assert_eq!(std::str::from_utf8(date.as_bytes()), Ok(text));
        }
        let mut date = HttpDate::new(u64::MAX);
        assert!(date.as_bytes().ends_with(b" GMT"));
        date.set(0);
        assert_eq!(date, HttpDate::new(0));
    }
}
