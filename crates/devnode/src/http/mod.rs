//! A small HTTP/1.1 server for one connection at a time, its requests and responses.
//!
//! It is not hyper's because clients of CometBFT write quotes into URIs (`?tx="a=1"`), which Go's
//! server takes and hyper's refuses; and so that answers look like Go's down to their chunks.

mod server;

pub use server::{Frames, Handler, Limits, Upgrade, serve, serve_plainly};

use std::time::{SystemTime, UNIX_EPOCH};

use wire::http::HttpDate;
use wire::http::{
    BodyLength, Head, HeadView, LAST_CHUNK, ResponseHead, Version, write_chunk_end,
    write_chunk_start,
};

/// Bodies above this go out in chunks, as Go's server sends what does not fit its buffer.
const CHUNKED_ABOVE: usize = 2048;

/// A request that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    head: Head,
    /// The bytes of the head.
    bytes: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
    /// Why the body could not be read, if it could not.
    pub broken_body: Option<&'static str>,
}

impl Request {
    /// The request whose head stands at the start of `bytes`, without its body.
    fn new(head: Head, bytes: &[u8]) -> Self {
        Self {
            bytes: bytes[..head.len].to_vec(),
            head,
            body: Vec::new(),
            broken_body: None,
        }
    }

    /// Its head.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// Its head with the bytes.
    pub fn view(&self) -> HeadView<'_> {
        self.head.view(&self.bytes)
    }

    /// Its method.
    pub fn method(&self) -> &str {
        text(self.view().method)
    }

    /// The path and the query, not decoded, of a target that may be a whole URL.
    fn target(&self) -> &str {
        let target = text(self.view().target);
        match target.strip_prefix("http://") {
            Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => target,
        }
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target().split('?').next().unwrap_or_default()
    }

    /// The query, empty if there is none.
    pub fn query(&self) -> &str {
        self.target().split_once('?').map_or("", |(_, query)| query)
    }

    /// The first header of a name; empty if there is none, or if it is no text.
    pub fn header(&self, name: &'static str) -> &str {
        text(self.view().first(name).unwrap_or_default())
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// A response. Headers are written in the order in which they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the connection ends with it.
    pub close: bool,
}

impl Response {
    /// A response with a body of this type.
    pub fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", content_type.to_owned())],
            body,
            close: false,
        }
    }

    /// Text as Go's `http.Error` sends it.
    pub fn text(status: u16, text: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into())
    }

    /// The same with one more header behind the others.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Appends the response as it goes over the wire.
    pub fn write(&self, out: &mut Vec<u8>, request: &Request, keep_alive: bool) {
        let version = request.head.version;
        let mut head = ResponseHead::start(out, version, self.status);
        for (name, value) in &self.headers {
            head = head.field(name, value.as_bytes());
        }
        if self.status == 101 {
            return head.finish(BodyLength::Nothing, true);
        }
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let is_chunked = version == Version::Http11 && self.body.len() > CHUNKED_ABOVE;
        let length = if is_chunked {
            BodyLength::Chunked
        } else {
            BodyLength::Known(self.body.len() as u64)
        };
        head.field("Date", HttpDate::new(seconds).as_bytes())
            .finish(length, keep_alive);
        if request.view().method == b"HEAD" {
            return;
        }
        if is_chunked {
            write_chunk_start(out, self.body.len());
        }
        out.extend_from_slice(&self.body);
        if is_chunked {
            write_chunk_end(out);
            out.extend_from_slice(LAST_CHUNK);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::http::{HeadLimits, HeadReader};

    use super::*;

    fn request(line: &str) -> Request {
        let bytes = format!("{line}\r\nHost: x\r\nConnection: Upgrade, Keep-Alive\r\n\r\n");
        let limits = HeadLimits {
            bytes: 1000,
            fields: 10,
            target: 100,
        };
        let head = HeadReader::new().read(bytes.as_bytes(), &limits);
        Request::new(head.unwrap().unwrap(), bytes.as_bytes())
    }

    fn written(body: Vec<u8>, request: &Request) -> String {
        let mut out = Vec::new();
        Response::new(200, "text/html", body).write(&mut out, request, true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn large_bodies_are_chunked_for_those_who_understand_it() {
        assert!(
            written(vec![b'x'; 2048], &request("GET / HTTP/1.1"))
                .contains("Content-Length: 2048\r\n")
        );
        assert!(
            written(vec![b'x'; 2049], &request("GET / HTTP/1.1"))
                .contains("chunked\r\n\r\n801\r\nx")
        );
        assert!(
            written(vec![b'x'; 2049], &request("GET / HTTP/1.0"))
                .contains("Content-Length: 2049\r\n")
        );
    }

    #[test]
    fn a_head_has_the_length_but_not_the_body() {
        let text = written(b"body".to_vec(), &request("HEAD / HTTP/1.1"));
        assert!(text.ends_with("Content-Length: 4\r\n\r\n"));
    }

    #[test]
    fn parts_of_a_request_are_told_apart() {
        let quoted = request("GET /a?b=\"c\" HTTP/1.0");
        assert_eq!((quoted.path(), quoted.query()), ("/a", "b=\"c\""));
        assert_eq!((quoted.method(), quoted.header("host")), ("GET", "x"));
        assert!(quoted.head().keep_alive);
        let whole = request("POST http://x:1/a?b HTTP/1.1");
        assert_eq!((whole.path(), whole.query()), ("/a", "b"));
        assert_eq!(request("GET http://x HTTP/1.1").path(), "/");
    }
}
