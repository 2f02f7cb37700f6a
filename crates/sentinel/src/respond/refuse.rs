//! Refusals, as the node's JSON-RPC writes them, and as gRPC and its gateway to REST do.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use wire::doors::NoBroadcast;
use wire::encoding::escape;
use wire::http::HttpError;
use wire::json::write::{Int, Text, filled};

use super::{Form, HttpAnswer, answer_len, length_of, write_answer, write_body};
use crate::refusal::{Forwarded, Reason, Refusal};

/// How the outside sees a reason.
struct Face {
    status: u16,
    /// JSON-RPC's code, with its words.
    error: (i32, &'static str),
    /// What the text begins with, for clients that look for it.
    prefix: &'static str,
}

/// The words of a full mempool: clients and SDKs look for them and try again later.
const FULL: &str = "mempool is full: ";

const fn face(reason: Reason) -> Face {
    let (status, error, prefix) = match reason {
        Reason::Rate | Reason::QueueFull | Reason::QueueTimeout => (429, INTERNAL, FULL),
        Reason::Connections => (429, INTERNAL, ""),
        Reason::Bytes | Reason::Clients => (503, INTERNAL, FULL),
        Reason::Shutdown | Reason::Upstream => (503, INTERNAL, ""),
        // The node's own answer.
        Reason::Batch => (200, INVALID_REQUEST, ""),
        Reason::Body => (413, INVALID_REQUEST, ""),
        Reason::Parse => (400, INVALID_REQUEST, ""),
        Reason::Denied => (403, INVALID_REQUEST, ""),
        Reason::Method => (403, METHOD_NOT_FOUND, ""),
    };
    Face {
        status,
        error,
        prefix,
    }
}

const INVALID_REQUEST: (i32, &str) = (-32_600, "Invalid Request");
const METHOD_NOT_FOUND: (i32, &str) = (-32_601, "Method not found");
const INTERNAL: (i32, &str) = (-32_603, "Internal error");

/// The `"error":{…}` of a refusal.
pub fn refusal_member(refusal: &Refusal) -> Vec<u8> {
    let face = face(refusal.reason);
    error_member(&face, &refusal_text(refusal))
}

fn error_member(face: &Face, data: &str) -> Vec<u8> {
    let template = r#""error":{"code":?,"message":?,"data":?}"#;
    let (code, message) = face.error;
    filled(template, &[&Int(code), &Text(message), &Text(data)])
}

/// The text for a human, and for the programs that read it.
fn refusal_text(refusal: &Refusal) -> String {
    if refusal.reason == Reason::Batch {
        return refusal.detail.clone();
    }
    let forwarded = match refusal.forwarded {
        Forwarded::No => "not forwarded",
        Forwarded::Unknown => "forwarded, outcome unknown",
    };
    let (detail, reason) = (&refusal.detail, refusal.reason.name());
    let prefix = face(refusal.reason).prefix;
    match refusal.retry_after {
        Some(after) => format!(
            "{prefix}{detail} (reason: {reason}, retry_after_ms: {}, {forwarded})",
            after.as_millis()
        ),
        None => format!("{prefix}{detail} (reason: {reason}, {forwarded})"),
    }
}

impl HttpAnswer<'_> {
    /// A refusal of a request that was understood.
    pub fn refused(self, form: Form<'_>, refusal: &Refusal) {
        let status = face(refusal.reason).status;
        write(self, form, (status, refusal), &refusal_member(refusal));
    }

    /// A refusal of something that is no request, or too much of one. The connection ends with it.
    pub fn malformed(mut self, error: HttpError) {
        let refusal = malformed(error);
        let member = match error {
            // The node's words.
            HttpError::BodyTooLarge(limit) => error_member(
                &face(refusal.reason),
                &format!(
                    "error reading request body: http: request body too large (max: {limit} bytes, not forwarded)"
                ),
            ),
            _ => refusal_member(&refusal),
        };
        self.asked.keep_alive = false;
        let (status, _) = malformed_face(error);
        write(self, Form::Post(None), (status, &refusal), &member);
    }
}

fn write(
    mut answer: HttpAnswer<'_>,
    form: Form<'_>,
    (status, refusal): (u16, &Refusal),
    member: &[u8],
) {
    let HttpAnswer { asked, date, .. } = answer;
    let len = answer_len(form.id(), member);
    let is_nodes_own = refusal.reason == Reason::Batch;
    let mut head = answer.start(status, Some(b"application/json"));
    if let Some(after) = refusal.retry_after {
        head = head.number("Retry-After", whole_seconds(after));
    }
    if !is_nodes_own {
        head = head
            .field("X-Sentinel-Reason", refusal.reason.name().as_bytes())
            .number("X-Server-Time", asked.at);
    }
    head.field("Date", date.as_bytes())
        .finish(length_of(len, asked), asked.keep_alive);
    write_body(answer.out, len, asked, |out| {
        write_answer(out, form.id(), member);
    });
}

/// Rounded up, so that a client that waits as long does not come too early.
pub(crate) fn whole_seconds(after: Duration) -> u64 {
    after.as_secs() + u64::from(after.subsec_nanos() > 0)
}

/// The HTTP status of what is no request, and the reason that it is refused for.
const fn malformed_face(error: HttpError) -> (u16, Reason) {
    match error {
        HttpError::RequestLine
        | HttpError::LineEnd
        | HttpError::Field
        | HttpError::Host
        | HttpError::Framing
        | HttpError::Chunk => (400, Reason::Parse),
        HttpError::HeadTimeout | HttpError::BodyTimeout => (408, Reason::Parse),
        HttpError::BodyTooLarge(_) => (413, Reason::Body),
        HttpError::TargetTooLong(_) => (414, Reason::Body),
        HttpError::Expectation => (417, Reason::Parse),
        HttpError::HeadTooLarge(_) | HttpError::TooManyFields(_) => (431, Reason::Body),
    }
}

/// The refusal of what is no request.
pub fn malformed(error: HttpError) -> Refusal {
    Refusal::new(malformed_face(error).1, error.to_string())
}

/// How a call of gRPC ended: code, message, and when it makes sense to try again
/// (<https://grpc.github.io/grpc/core/md_doc_statuscodes.html>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrpcStatus {
    pub(crate) code: u16,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
}

impl GrpcStatus {
    /// It was served.
    pub(crate) const OK: u16 = 0;
    /// What a Go server answers to an error without a status.
    pub(crate) const UNKNOWN: u16 = 2;
    pub(crate) const INVALID_ARGUMENT: u16 = 3;
    const DEADLINE_EXCEEDED: u16 = 4;
    pub(crate) const PERMISSION_DENIED: u16 = 7;
    pub(crate) const RESOURCE_EXHAUSTED: u16 = 8;
    pub(crate) const UNIMPLEMENTED: u16 = 12;
    pub(crate) const UNAVAILABLE: u16 = 14;

    /// An end without a time to try again.
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Its client's deadline is over, in a Go server's words. The node may have carried it out.
    pub(crate) fn deadline_exceeded() -> Self {
        Self::new(Self::DEADLINE_EXCEEDED, "context deadline exceeded")
    }

    /// The headers, or trailers, that tell it.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let text = |text: &str| HeaderValue::from_str(text).expect("printable ASCII");
        headers.insert(GRPC_STATUS, self.code.into());
        if !self.message.is_empty() {
            let message = escape(self.message.as_bytes(), is_plain);
            headers.insert(GRPC_MESSAGE, text(&message));
        }
        if let Some(after) = self.retry_after {
            let millis = after.as_millis().to_string();
            headers.insert(GRPC_PUSHBACK, text(&millis));
        }
    }
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// When a client with a retry policy may try again (gRFC A6, "Pushback").
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

impl From<&Refusal> for GrpcStatus {
    fn from(refusal: &Refusal) -> Self {
        let code = match refusal.reason {
            // A client with a retry policy must not send it again unseen.
            _ if refusal.forwarded == Forwarded::Unknown => Self::UNKNOWN,
            Reason::Rate
            | Reason::QueueFull
            | Reason::QueueTimeout
            | Reason::Clients
            | Reason::Bytes
            | Reason::Body
            | Reason::Batch
            | Reason::Connections => Self::RESOURCE_EXHAUSTED,
            Reason::Shutdown | Reason::Upstream => Self::UNAVAILABLE,
            Reason::Denied => Self::PERMISSION_DENIED,
            Reason::Method => Self::UNIMPLEMENTED,
            Reason::Parse => Self::INVALID_ARGUMENT,
        };
        Self {
            code,
            message: refusal_text(refusal),
            retry_after: refusal.retry_after.filter(|_| code != Self::UNKNOWN),
        }
    }
}

impl From<NoBroadcast> for GrpcStatus {
    fn from(error: NoBroadcast) -> Self {
        let code = match error {
            NoBroadcast::Invalid(_) => Self::INVALID_ARGUMENT,
            NoBroadcast::Compressed => Self::UNIMPLEMENTED,
            NoBroadcast::Mode => Self::UNKNOWN,
        };
        Self::new(code, error.to_string())
    }
}

/// The HTTP status that the gateway gives a code (`HTTPStatusFromCode` in grpc-gateway's `runtime/errors.go`).
pub(crate) const fn http_status(code: u16) -> u16 {
    match code {
        GrpcStatus::OK => 200,
        GrpcStatus::INVALID_ARGUMENT => 400,
        GrpcStatus::PERMISSION_DENIED => 403,
        GrpcStatus::RESOURCE_EXHAUSTED => 429,
        GrpcStatus::UNIMPLEMENTED => 501,
        GrpcStatus::UNAVAILABLE => 503,
        GrpcStatus::DEADLINE_EXCEEDED => 504,
        _ => 500,
    }
}

/// Bytes that stand for themselves in `grpc-message` (gRPC over HTTP/2, "Percent-Encoded").
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'%'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_when_to_try_again_unless_the_node_may_have_it() {
        let refusal = Refusal::new(Reason::QueueFull, "100 % taken\n");
        let refusal = refusal.retry_after(Duration::from_millis(1_500));
        let mut headers = HeaderMap::new();
        GrpcStatus::from(&refusal).write(&mut headers);
        assert_eq!(headers["grpc-status"], "8");
        assert_eq!(headers["grpc-retry-pushback-ms"], "1500");
        let message = headers["grpc-message"].to_str().unwrap();
        assert!(message.contains("100 %25 taken%0A"), "{message}");
        let status = GrpcStatus::from(&refusal.maybe_forwarded());
        assert_eq!((status.code, status.retry_after), (2, None));
        for reason in Reason::ALL {
            let status = GrpcStatus::from(&Refusal::new(reason, "x"));
            assert!(matches!(
                http_status(status.code),
                400 | 403 | 429 | 501 | 503
            ));
        }
    }
}
