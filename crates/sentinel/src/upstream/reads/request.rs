//! A request to pass on, and its answer.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use pacing::Nanos;

/// A request to pass on.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Its HTTP method.
    pub http_method: Method,
    /// The target as the client wrote it, a path with its query.
    pub target: Bytes,
    /// Its headers, without those that belong to the connection or to the framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The JSON-RPC method it calls, if it is one call whose method is known.
    pub method: Option<Box<str>>,
    /// How many it takes from the client's rate: the calls in it, or 0 if that was done when they came.
    pub calls: u32,
}

/// The node's answer, its body still to be read.
#[derive(Debug)]
pub struct ReadAnswer<B> {
    /// The HTTP status.
    pub status: u16,
    /// The headers as a Go server spells them, without those of connection and framing.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer.
    pub took: Nanos,
    /// The body.
    pub body: B,
}
