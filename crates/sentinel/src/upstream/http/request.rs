//! A request on its way through the layers, and what each of them gives back.

use std::pin::Pin;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};

use crate::upstream::UpstreamError;

/// What a layer gives back.
pub(super) type Answering<B, E = UpstreamError> =
    Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>;

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Outgoing {
    pub(in crate::upstream) method: Method,
    pub(in crate::upstream) uri: Uri,
    pub(in crate::upstream) headers: HeaderMap,
    pub(in crate::upstream) body: Bytes,
    pub(in crate::upstream) repeat: Repeat,
    pub(in crate::upstream) connection: Connection,
}

/// When a request whose connection broke is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Repeat {
    /// It changes nothing, so it may be carried out twice.
    Always,
    /// Only if not a byte of it was written.
    IfUnwritten,
}

/// Over which connection a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Connection {
    /// A kept one, or a new one if none is kept.
    Kept,
    /// A new one.
    New,
}
