//! A blocking HTTP/1.1 client of a few lines: one request, one connection, the answer as it came.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Asks one server over plain HTTP/1.1, a new connection for each request.
#[derive(Debug, Clone, Copy)]
pub struct Http {
    address: SocketAddr,
    timeout: Duration,
}

/// An HTTP answer as it came off the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status code.
    pub status: u16,
    /// Header lines in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body, chunks put together.
    pub body: Vec<u8>,
}

impl Http {
    /// A client of the server at `address`; every socket operation may take `timeout`.
    pub fn new(address: SocketAddr, timeout: Duration) -> Self {
        Self { address, timeout }
    }

    /// Sends `GET path`; `path` starts with a slash and is already escaped.
    ///
    /// # Errors
    /// The socket's error, or `InvalidData` for an answer that is not HTTP.
    pub fn get(&self, path: &str) -> io::Result<HttpAnswer> {
        self.request("GET", path, &[], b"")
    }

    /// Sends `POST path` with a JSON body.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn post(&self, path: &str, body: &[u8]) -> io::Result<HttpAnswer> {
        self.request("POST", path, &[("Content-Type", "application/json")], body)
    }

    /// Sends a request with any method and further headers.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<HttpAnswer> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.address
        );
        if method != "GET" || !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let mut message = head.into_bytes();
        message.extend_from_slice(body);
        exchange(self.address, &message, self.timeout).and_then(|raw| {
            raw.answer()
                .ok_or_else(|| not_http("the status line has no status"))
        })
    }
}

/// An HTTP answer with its head as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// The status line.
    pub line: String,
    /// Header lines as they were written, in their order.
    pub headers: Vec<(String, String)>,
    /// Body, chunks put together.
    pub body: Vec<u8>,
}

/// Sends `bytes` over a new connection and reads until the server closes it; every socket
/// operation may take `timeout`.
///
/// # Errors
/// The socket's error, or `InvalidData` for an answer that is not HTTP/1.1.
pub fn exchange(address: SocketAddr, bytes: &[u8], timeout: Duration) -> io::Result<RawAnswer> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    // A server that refuses a large body answers and closes before it has read everything.
    let written = stream.write_all(bytes);
    let mut raw = Vec::new();
    match stream.read_to_end(&mut raw) {
        Err(error) if raw.is_empty() => return Err(written.err().unwrap_or(error)),
        _ => {}
    }
    parse(&raw).ok_or_else(|| not_http("the answer is not HTTP/1.1"))
}

fn not_http(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl RawAnswer {
    /// The same with the status as a number and names in lower case.
    fn answer(self) -> Option<HttpAnswer> {
        Some(HttpAnswer {
            status: self.line.split(' ').nth(1)?.parse().ok()?,
            headers: self
                .headers
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect(),
            body: self.body,
        })
    }
}

impl HttpAnswer {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text, broken characters replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn parse(raw: &[u8]) -> Option<RawAnswer> {
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let rest = &raw[end + 4..];
    let chunked = headers
        .iter()
        .any(|(name, value)| name.eq_ignore_ascii_case("transfer-encoding") && value == "chunked");
    let body = if chunked {
        unchunk(rest)?
    } else {
        rest.to_vec()
    };
    Some(RawAnswer {
        line,
        headers,
        body,
    })
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size =
            usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
        rest = rest.get(line + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_put_together() {
        let answer = parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap().answer().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "abcde"));
    }

    #[test]
    fn headers_are_found_by_lower_case_name() {
        let answer = parse(b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\n\r\nx")
            .unwrap()
            .answer()
            .unwrap();
        assert_eq!(answer.header("content-type"), Some("text/html"));
        assert_eq!(answer.status, 500);
    }

    #[test]
    fn half_an_answer_is_refused() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nContent"), None);
        assert_eq!(
            parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"),
            None
        );
    }
}
