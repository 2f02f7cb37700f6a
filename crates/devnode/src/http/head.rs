//! Decodes the head of a request and the framing of its body.

use super::message::Request;

/// Most header lines.
const MAX_HEADERS: usize = 128;

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// A decoded head: the request without its body, how the body comes, and the bytes of the head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) request: Request,
    pub(super) framing: Framing,
    pub(super) len: usize,
}

/// A request that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Decodes a head; none if it is not complete yet.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let len = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Malformed),
    };
    let headers: Vec<(String, String)> = parsed
        .headers
        .iter()
        .map(|header| {
            (
                header.name.to_ascii_lowercase(),
                String::from_utf8_lossy(header.value).trim().to_owned(),
            )
        })
        .collect();
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: origin_form(parsed.path.unwrap_or_default()),
        modern: parsed.version == Some(1),
        headers,
        body: Vec::new(),
        broken_body: None,
    };
    if request.modern && request.header("host").is_none() {
        return Err(Malformed);
    }
    let framing = framing(&request)?;
    Ok(Some(Head {
        request,
        framing,
        len,
    }))
}

/// The path and query of a target that may be a whole URL.
fn origin_form(target: &str) -> String {
    match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]).to_owned(),
        None => target.to_owned(),
    }
}

fn framing(request: &Request) -> Result<Framing, Malformed> {
    let mut lengths = request
        .headers
        .iter()
        .filter(|(name, _)| name == "content-length")
        .map(|(_, value)| value);
    let length = lengths.next();
    if lengths.any(|other| Some(other) != length) {
        return Err(Malformed);
    }
    match request.header("transfer-encoding") {
        Some(coding) if coding.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        Some(_) => Err(Malformed),
        None => match length {
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map(Framing::Length).map_err(|_| Malformed)
            }
            Some(_) => Err(Malformed),
            None => Ok(Framing::Length(0)),
        },
    }
}

/// What the start of the bytes of a chunked body says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// More bytes are needed.
    Partial,
    /// A chunk of data: where it starts, and how long it is (a line end follows).
    Data { start: usize, len: usize },
    /// The end, with this many bytes up to it.
    End(usize),
}

/// Longest line of a chunk's size.
const MAX_CHUNK_LINE: usize = 4096;

/// Decodes the next chunk.
pub(super) fn chunk(bytes: &[u8]) -> Result<Chunk, Malformed> {
    let Some(line) = line_end(bytes) else {
        return if bytes.len() > MAX_CHUNK_LINE {
            Err(Malformed)
        } else {
            Ok(Chunk::Partial)
        };
    };
    let size = bytes[..line]
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    let size = std::str::from_utf8(size).map_err(|_| Malformed)?.trim();
    if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Malformed);
    }
    let len = usize::from_str_radix(size, 16).map_err(|_| Malformed)?;
    let start = line + 2;
    if len > 0 {
        return Ok(Chunk::Data { start, len });
    }
    // Trailers are read over up to their empty line.
    let mut at = start;
    loop {
        match line_end(&bytes[at..]) {
            Some(0) => return Ok(Chunk::End(at + 2)),
            Some(length) => at += length + 2,
            None if bytes.len() > start + MAX_CHUNK_LINE => return Err(Malformed),
            None => return Ok(Chunk::Partial),
        }
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|two| two == b"\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_in_a_uri_are_taken() {
        let bytes = b"GET /check_tx?tx=\"a=1\" HTTP/1.1\r\nHost: x\r\n\r\nrest";
        let head = decode(bytes).unwrap().unwrap();
        assert_eq!(head.request.query(), "tx=\"a=1\"");
        assert_eq!(&bytes[head.len..], b"rest");
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        let decode = |headers: &str| {
            decode(format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())
        };
        assert_eq!(
            decode("Content-Length: 5\r\n").unwrap().unwrap().framing,
            Framing::Length(5)
        );
        assert_eq!(
            decode("Transfer-Encoding: chunked\r\n")
                .unwrap()
                .unwrap()
                .framing,
            Framing::Chunked
        );
        assert_eq!(
            decode("Content-Length: 5\r\nContent-Length: 6\r\n"),
            Err(Malformed)
        );
        assert_eq!(decode("Content-Length: -5\r\n"), Err(Malformed));
        assert_eq!(decode("Transfer-Encoding: gzip\r\n"), Err(Malformed));
    }

    #[test]
    fn a_host_is_required() {
        assert_eq!(decode(b"GET / HTTP/1.1\r\n\r\n"), Err(Malformed));
        assert!(decode(b"GET / HTTP/1.0\r\n\r\n").unwrap().is_some());
        assert_eq!(decode(b"GET / HT").unwrap(), None);
    }

    #[test]
    fn chunks_are_read_over_extensions_and_trailers() {
        assert_eq!(
            chunk(b"5;x=y\r\nhello\r\n"),
            Ok(Chunk::Data { start: 7, len: 5 })
        );
        assert_eq!(chunk(b"0\r\nTrailer: 1\r\n\r\nrest"), Ok(Chunk::End(17)));
        assert_eq!(chunk(b"0\r\n"), Ok(Chunk::Partial));
        assert_eq!(chunk(b"x\r\n"), Err(Malformed));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = chunk(&bytes);
        }
    }
}
