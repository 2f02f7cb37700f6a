//! One HTTP exchange, every byte of the answer's head as it came.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer as it came, chunks put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The status line.
    pub(crate) line: String,
    /// Header lines as they were written, in their order.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Sends `bytes` over a new connection and reads until its end.
pub(crate) fn exchange(address: SocketAddr, bytes: &[u8]) -> Exchange {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    // Who refuses a large body may close before it has read all of it.
    let _ = stream.write_all(bytes);
    let mut raw = Vec::new();
    let end = stream.read_to_end(&mut raw);
    assert!(end.is_ok() || !raw.is_empty(), "no answer: {end:?}");
    parse(&raw).unwrap_or_else(|| panic!("not HTTP: {}", String::from_utf8_lossy(&raw)))
}

fn parse(raw: &[u8]) -> Option<Exchange> {
    let end = raw.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let is_chunked = headers
        .iter()
        .any(|(name, value)| name == "Transfer-Encoding" && value == "chunked");
    let rest = &raw[end + 4..];
    let body = if is_chunked {
        unchunk(rest)?
    } else {
        rest.to_vec()
    };
    Some(Exchange {
        line,
        headers,
        body,
    })
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
        rest = rest.get(line + 2 + size + 2..)?;
    }
}
