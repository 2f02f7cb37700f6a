//! HTTP requests to one node: tower layers over a pool of kept-alive connections. From the outside in:
//!
//! - [`progress`] fails an answer whose next piece does not come in time,
//! - [`timeout`] fails a request whose answer does not begin in time,
//! - [`retry`] sends what was not carried out once more, over a new connection,
//! - [`pool`] keeps connections.
//!
//! Every service here is always ready: nothing waits in `poll_ready`.

mod pool;
mod progress;
mod retry;
mod timeout;

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use tower::ServiceBuilder;
use tower::retry::{Retry, RetryLayer};
use tower::util::MapErr;

pub(super) use self::pool::PoolOptions;
use self::pool::{Failed, Pool, PooledBody};
use self::progress::{Progress, ProgressBody, ProgressLayer};
use self::retry::OnNewConnection;
use self::timeout::{Timeout, TimeoutLayer};
use super::UpstreamError;
use super::dial::Dialer;

/// Asks one node. Clones share its connections.
pub(super) type NodeHttp =
    Progress<Timeout<MapErr<Retry<OnNewConnection, Pool<Dialer>>, fn(Failed) -> UpstreamError>>>;

/// The body of a node's answer.
pub(super) type NodeBody = ProgressBody<PooledBody>;

/// What a service of this module does.
type Answering<B, E = UpstreamError> = Pin<Box<dyn Future<Output = Result<Response<B>, E>> + Send>>;

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) repeat: Repeat,
    pub(super) connection: Connection,
}

/// When a request whose connection broke is sent once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing, so it may be carried out twice.
    Always,
    /// Only if not a byte of it was written.
    IfUnwritten,
}

/// Over which connection a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A kept one, or a new one if none is kept.
    Kept,
    /// A new one.
    New,
}

/// The services for one node. `patience` is for the head of an answer, and for each further piece.
///
/// # Errors
/// [`UpstreamError::Setup`] when the node's address is no `Host`.
pub(super) fn connect(
    dialer: Dialer,
    options: PoolOptions,
    patience: Duration,
) -> Result<NodeHttp, UpstreamError> {
    let node = dialer.endpoint().clone();
    let into_error: fn(Failed) -> UpstreamError = |failed| failed.error;
    Ok(ServiceBuilder::new()
        .layer(ProgressLayer::new(patience, &node))
        .layer(TimeoutLayer::new(patience, &node))
        .map_err(into_error)
        .layer(RetryLayer::new(OnNewConnection))
        .service(Pool::new(dialer, &node, options)?))
}

#[cfg(test)]
mod testing {
    use std::future::ready;

    use super::*;

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
}
