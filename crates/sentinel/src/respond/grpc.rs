//! Refusals as gRPC writes them, and as its gateway to REST does.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use wire::doors::NoBroadcast;

use super::refuse::refusal_text;
use crate::refusal::{Forwarded, Reason, Refusal};

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
            headers.insert(GRPC_MESSAGE, text(&percent_encoded(&self.message)));
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

/// As `grpc-message` is written (gRPC over HTTP/2, "Percent-Encoded").
fn percent_encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    out
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
