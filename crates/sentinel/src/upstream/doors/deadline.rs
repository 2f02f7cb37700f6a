//! The deadline that a client gives a call (`grpc-timeout`; gRPC over HTTP/2, "Requests").

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::Instant;
use wire::doors::{grpc_timeout, read_grpc_timeout};

/// When a client gives its call up. Nodes hear of what is left of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// That of a call with these headers, which has just come.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let left = read_grpc_timeout(headers.get(GRPC_TIMEOUT)?.as_bytes())?;
        Instant::now().checked_add(left).map(Self)
    }

    pub(crate) const fn at(self) -> Instant {
        self.0
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Writes what is left of the time.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        let left = grpc_timeout(self.0.saturating_duration_since(Instant::now()));
        let left = HeaderValue::try_from(left).expect("digits and a letter");
        headers.insert(GRPC_TIMEOUT, left);
    }
}

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
