//! Requests and answers for the tests.

use bytes::Bytes;
use hyper::{HeaderMap, Method, Uri};

use super::{Outgoing, Repeat};

/// A request for `/status`.
pub(super) fn request(repeat: Repeat) -> Outgoing {
    Outgoing {
        method: Method::GET,
        uri: Uri::from_static("/status"),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        repeat,
    }
}

/// The node of a test.
pub(super) fn node() -> rpc::Endpoint {
    "http://127.0.0.1:26657".parse().unwrap()
}
