//! What the read lane takes and gives back.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::{HeaderMap, Method};
use pacing::Nanos;

use crate::respond::KeptId;

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
    /// The id as the node echoes it, if its body is one call.
    pub id: Option<KeptId>,
    /// What it takes from the client's rate: the price of the calls in it, or 0 if that was done when they came.
    pub calls: u32,
    /// Whether broadcasts are in it, which the write lane judges in shadow.
    pub has_writes: bool,
}

impl ReadRequest {
    /// What it says to the node, in its body or its target.
    pub(super) fn call(&self) -> Bytes {
        let call = if self.body.is_empty() {
            &self.target
        } else {
            &self.body
        };
        call.clone()
    }
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
    /// From the moment it was sent to the head of the answer; none if no node was asked for it.
    pub took: Option<Nanos>,
    /// Whether it counts as a read of its client's, whose rate bounds the request then.
    pub is_counted: bool,
    /// The body.
    pub body: B,
}
