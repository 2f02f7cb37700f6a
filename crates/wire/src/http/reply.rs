//! The head of a response, as a client reads it.
//!
//! `httparse` decodes it where it lies, in one pass: the senders read one head for each
//! transaction.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::Version;
use super::head::{Fields, decimal, has_token};

/// Reads the head of a response in a buffer that grows. Remembers how far it has looked, so that a
/// head that comes byte by byte is decoded once a line and not once a byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyReader {
    looked: usize,
}

/// What a client needs to know of a response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// Bytes of the head, empty line included.
    pub len: usize,
    /// The status.
    pub status: u16,
    /// How the body comes.
    pub framing: ReplyFraming,
    /// Whether the connection can be used again after the body.
    pub keep_alive: bool,
}

/// How the body of a response comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFraming {
    /// So many bytes; 0 for no body.
    Length(u64),
    /// In chunks.
    Chunked,
    /// Up to the end of the connection.
    UntilClose,
}

/// Why bytes are not the head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A line is malformed.
    #[error(transparent)]
    Syntax(#[from] httparse::Error),
    /// The length is not a decimal number.
    #[error("its Content-Length is not a number")]
    Length,
    /// There are two different lengths.
    #[error("it states two lengths")]
    TwoLengths,
    /// The body comes in a coding that is not understood.
    #[error("its transfer encoding is not 'chunked'")]
    Coding,
    /// The head is too large.
    #[error("its head is larger than {0} bytes")]
    TooLarge(usize),
}

impl ReplyReader {
    /// Decodes the head at the start of `bytes`, which may have `limit` bytes; none while it is
    /// incomplete. After a head or an error the reader is as new.
    ///
    /// # Errors
    /// [`ReplyError`] as soon as it is certain; the connection is of no further use.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], limit: usize) -> Result<Option<ReplyHead>, ReplyError> {
        let looked = std::mem::take(&mut self.looked);
        let may_be_complete =
            looked == 0 || memchr::memchr(b'\n', bytes.get(looked..).unwrap_or_default()).is_some();
        let head = if may_be_complete {
            decode(bytes)?
        } else {
            None
        };
        if head.map_or(bytes.len(), |head| head.len) > limit {
            return Err(ReplyError::TooLarge(limit));
        }
        if head.is_none() {
            self.looked = bytes.len();
        }
        Ok(head)
    }
}

impl ReplyHead {
    /// The words behind the status, in the bytes that the head was decoded from.
    pub fn reason<'b>(&self, bytes: &'b [u8]) -> &'b str {
        let line = bytes.split(|byte| *byte == b'\n').next();
        let words = line.and_then(|line| line.splitn(3, |byte| *byte == b' ').nth(2));
        words
            .and_then(|words| std::str::from_utf8(words).ok())
            .map_or("", str::trim)
    }

    /// The header lines, in the bytes that the head was decoded from.
    pub fn fields<'b>(&self, bytes: &'b [u8]) -> Fields<'b> {
        let head = &bytes[..self.len.min(bytes.len())];
        let first_line = memchr::memchr(b'\n', head).map_or(head.len(), |at| at + 1);
        Fields(&head[first_line..])
    }
}

#[inline]
fn decode(bytes: &[u8]) -> Result<Option<ReplyHead>, ReplyError> {
    let mut room = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_REPLY_FIELDS];
    let mut response = Response::new(&mut []);
    let config = ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut room);
    let Status::Complete(len) = parsed? else {
        return Ok(None);
    };
    let status = response.code.unwrap_or(0);
    let (mut length, mut chunked, mut close, mut keep_alive) = (None, false, false, false);
    for header in response.headers.iter() {
        let (name, value) = (header.name, header.value);
        // The length of the name rules out nearly every header before its text is compared.
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                close |= has_token(value, "close");
                keep_alive |= has_token(value, "keep-alive");
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                let value = decimal(value).ok_or(ReplyError::Length)?;
                if length.is_some_and(|other| other != value) {
                    return Err(ReplyError::TwoLengths);
                }
                length = Some(value);
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ReplyError::Coding);
                }
                chunked = true;
            }
            _ => {}
        }
    }
    let version = match response.version {
        Some(0) => Version::Http10,
        _ => Version::Http11,
    };
    Ok(Some(ReplyHead {
        len,
        status,
        framing: match (chunked, length) {
            (true, _) => ReplyFraming::Chunked,
            (false, _) if status == 204 || status == 304 => ReplyFraming::Length(0),
            (false, Some(length)) => ReplyFraming::Length(length),
            (false, None) => ReplyFraming::UntilClose,
        },
        keep_alive: !close && (keep_alive || version == Version::Http11),
    }))
}

/// Most header lines of a response; CometBFT sends four.
const MAX_REPLY_FIELDS: usize = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &str) -> Result<Option<ReplyHead>, ReplyError> {
        ReplyReader::default().read(bytes.as_bytes(), 200)
    }

    #[test]
    fn a_head_says_how_the_body_comes_and_whether_the_connection_stays() {
        let (length, chunked) = (ReplyFraming::Length(3), ReplyFraming::Chunked);
        for (head, status, framing, keep_alive) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\n",
                200,
                length,
                true,
            ),
            (
                "HTTP/1.1 500\r\nContent-Length: 3\r\nConnection: x, Close\r\n\r\n",
                500,
                length,
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n",
                200,
                length,
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\n",
                200,
                length,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                200,
                chunked,
                true,
            ),
            (
                "HTTP/1.1 204 No Content\r\n\r\n",
                204,
                ReplyFraming::Length(0),
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n",
                200,
                ReplyFraming::UntilClose,
                true,
            ),
        ] {
            let expected = ReplyHead {
                len: head.len(),
                status,
                framing,
                keep_alive,
            };
            assert_eq!(read(&format!("{head}abc")), Ok(Some(expected)), "{head}");
        }
    }

    #[test]
    fn a_malformed_head_is_named() {
        for (head, error) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
                ReplyError::Length,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                ReplyError::TwoLengths,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
                ReplyError::Coding,
            ),
            (
                &format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(200)),
                ReplyError::TooLarge(200),
            ),
        ] {
            assert_eq!(read(head), Err(error), "{head}");
        }
        assert!(matches!(
            read("SSH-2.0-OpenSSH\r\n"),
            Err(ReplyError::Syntax(_))
        ));
    }

    #[test]
    fn words_and_fields_are_found() {
        let bytes = b"HTTP/1.1 404 Not Found\r\nA: b\r\nC:d \r\n\r\nE: f\r\n";
        let head = ReplyReader::default().read(bytes, 200).unwrap().unwrap();
        assert_eq!(head.reason(bytes), "Not Found");
        let fields = head.fields(bytes);
        assert_eq!(
            (fields.first("c"), fields.first("e")),
            (Some(&b"d"[..]), None)
        );
    }

    proptest! {
        /// A head is the same however it comes.
        #[test]
        fn cuts_change_nothing(
            lines in prop::collection::vec("[A-Za-z-]{1,9}: [ -~]{0,12}", 0..5),
            cuts in prop::collection::vec(0_usize..120, 0..6),
        ) {
            let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
            let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
            let mut reader = ReplyReader::default();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % text.len()).collect();
            cuts.sort_unstable();
            for cut in cuts {
                prop_assert!(matches!(reader.read(&text.as_bytes()[..cut], 400), Ok(None) | Err(_)));
            }
            prop_assert_eq!(reader.read(text.as_bytes(), 400), ReplyReader::default().read(text.as_bytes(), 400));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some(head)) = ReplyReader::default().read(&bytes, 100) {
                prop_assert!(head.len <= bytes.len());
                let _ = (head.reason(&bytes), head.fields(&bytes).iter().count());
            }
        }
    }
}
