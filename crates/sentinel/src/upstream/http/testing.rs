//! Requests and answers for the tests of the layers.

use std::future::ready;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};

use super::request::{Connection, Outgoing, Repeat};

/// A request for `/status`.
pub(super) fn request(repeat: Repeat) -> Outgoing {
    Outgoing {
        method: Method::GET,
        uri: Uri::from_static("/status"),
        headers: HeaderMap::new(),
        body: Bytes::new(),
        repeat,
        connection: Connection::Kept,
    }
}

/// The node of a test.
pub(super) fn node() -> rpc::Endpoint {
    "http://127.0.0.1:26657".parse().unwrap()
}

pub(super) fn answer<B, E>(body: B) -> impl Future<Output = Result<Response<B>, E>> {
    ready(Ok(Response::new(body)))
}
