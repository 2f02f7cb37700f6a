//! HTTP/1.0 and 1.1, both sides.
//!
//! A server finds and checks the head of a request with [`HeadReader`]; [`Head`] has what matters
//! in it, [`ResponseHead`] writes the head of the response. A client reads that with
//! [`ReplyReader`]. [`BodyReader`] takes a body off the stream for both.

mod body;
mod head;
mod reply;
mod write;

pub use self::body::{BodyProgress, BodyReader, MAX_CHUNK_EXCESS};
pub use self::head::{
    Expect, Field, Fields, Framing, Head, HeadLimits, HeadReader, HeadView, MAX_FIELDS, Version,
};
pub use self::reply::{ReplyError, ReplyFraming, ReplyHead, ReplyReader};
pub use self::write::{
    BodyLength, CONTINUE, HttpDate, LAST_CHUNK, ResponseHead, write_chunk_end, write_chunk_start,
};

/// Why a request is malformed or refused. Which status answers it is the server's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The first line is not `METHOD target HTTP/1.x`.
    #[error("the request line is malformed")]
    RequestLine,
    /// A line ends in a bare line feed or has a bare carriage return in it.
    #[error("a line of the head does not end in CRLF")]
    LineEnd,
    /// A header line is folded, has white space before its colon or a byte that must not be there.
    #[error("a header line is malformed")]
    Field,
    /// An HTTP/1.1 request has no `Host`, or several, or one that is none.
    #[error("exactly one well-formed Host header is required")]
    Host,
    /// The body's length is stated twice, in two ways, or malformed.
    #[error("the framing of the body is ambiguous")]
    Framing,
    /// A chunk of the body is malformed, or the chunks are mostly not data.
    #[error("the chunked body is malformed")]
    Chunk,
    /// `Expect` asks for something else than `100-continue`.
    #[error("the expectation cannot be met")]
    Expectation,
    /// The head is too large.
    #[error("the head is larger than {0} bytes")]
    HeadTooLarge(usize),
    /// The head has too many lines.
    #[error("the head has more than {0} header lines")]
    TooManyFields(usize),
    /// The target is too long.
    #[error("the request target is longer than {0} bytes")]
    TargetTooLong(usize),
    /// The body is too large.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// The head did not come in time.
    #[error("the head did not arrive in time")]
    HeadTimeout,
    /// The body did not come in time.
    #[error("the body did not arrive in time")]
    BodyTimeout,
}
