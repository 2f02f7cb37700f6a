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
mod request;
mod retry;
#[cfg(test)]
mod testing;
mod timeout;

use std::time::Duration;

use tower::ServiceBuilder;
use tower::retry::{Retry, RetryLayer};
use tower::util::MapErr;

pub(super) use self::pool::PoolOptions;
use self::pool::{Failed, Pool, PooledBody};
use self::progress::{Progress, ProgressBody, ProgressLayer};
pub(super) use self::request::{Connection, Outgoing, Repeat};
use self::retry::OnNewConnection;
use self::timeout::{Timeout, TimeoutLayer};
use super::UpstreamError;
use super::dial::Dialer;

/// Asks one node. Clones share its connections.
pub(super) type NodeHttp =
    Progress<Timeout<MapErr<Retry<OnNewConnection, Pool<Dialer>>, fn(Failed) -> UpstreamError>>>;

/// The body of a node's answer.
pub(super) type NodeBody = ProgressBody<PooledBody>;

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
