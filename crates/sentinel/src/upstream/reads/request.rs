//! A read on its way through the layers, and its answer.

use std::borrow::Cow;
use std::pin::Pin;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::{HeaderMap, Method};
use pacing::Nanos;

use crate::refusal::Refusal;
use crate::upstream::NodeIndex;

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
    /// How many calls are in it: each takes one from the client's rate. 1 but for batches.
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

/// A read on its way through the layers.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) client: ClientKey,
    pub(super) node: NodeIndex,
    pub(super) request: ReadRequest,
}

/// What a layer that waits gives back.
pub(super) type Answering<B> = Pin<Box<dyn Future<Output = Result<ReadAnswer<B>, Refusal>> + Send>>;

impl<B> ReadAnswer<B> {
    /// The same answer with another body.
    pub(super) fn map<C>(self, body: impl FnOnce(B) -> C) -> ReadAnswer<C> {
        ReadAnswer {
            status: self.status,
            headers: self.headers,
            length: self.length,
            took: self.took,
            body: body(self.body),
        }
    }
}
