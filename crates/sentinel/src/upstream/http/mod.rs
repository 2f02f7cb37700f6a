//! HTTP requests to one node: a stack of tower layers over a pool of kept-alive connections.
//!
//! From the outside in: the head of an answer has a deadline, and each further part of it ([`deadlines`]), a
//! request that was not carried out because its kept connection was dead is sent once more over a new one
//! ([`retry`]), and the [`pool`] has the connections.

mod pool;
mod progress;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use rpc::Transport;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder, service_fn};

pub(super) use self::pool::PoolOptions;
use self::pool::{Delivery, Failed, Pool, PooledBody};
use self::progress::ProgressBody;
use super::UpstreamError;
use super::dial::Dialer;

/// A service that is cloned for each request and used from any thread: an async function over the
/// service below it ([`service_fn`]). Nothing in the stacks waits in `poll_ready`; a layer refuses, or passes the
/// request on.
pub(super) trait Step<Request>:
    Service<Request, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S, Request> Step<Request> for S where
    S: Service<Request, Response: Send, Future: Send> + Clone + Send + Sync + 'static
{
}

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) repeat: Repeat,
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
enum Connection {
    /// A kept one, or a new one if none is kept.
    Kept,
    /// A new one.
    New,
}

/// The body of a node's answer.
pub(super) type NodeBody = ProgressBody<PooledBody>;

/// Asks one node. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub(super) struct NodeHttp {
    /// What stands before every path: empty, or a gateway's prefix.
    pub(super) base: String,
    stack: BoxCloneSyncService<Arc<Outgoing>, Response<NodeBody>, UpstreamError>,
}

impl NodeHttp {
    /// A client without connections. `patience` is for the head of an answer, and for each further
    /// piece.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        dialer: &Dialer,
        options: PoolOptions,
        patience: Duration,
    ) -> Result<Self, UpstreamError> {
        let base = dialer.endpoint().with_transport(Transport::Http).path();
        let pool = Pool::new(dialer.clone(), options)?;
        let stack = ServiceBuilder::new()
            .layer_fn(|below| deadlines((dialer.clone(), patience), below))
            .layer_fn(retry)
            .service_fn(move |(request, over): (Arc<Outgoing>, Connection)| {
                let pool = pool.clone();
                async move { pool.send(&request, over).await }
            });
        Ok(Self {
            base: base.trim_end_matches('/').to_owned(),
            stack: BoxCloneSyncService::new(stack),
        })
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(
        &self,
        request: Outgoing,
    ) -> Result<Response<NodeBody>, UpstreamError> {
        self.stack.clone().call(Arc::new(request)).await
    }
}

/// The layer of deadlines: for the head of an answer, and for each further part of it.
fn deadlines<S, B>(
    (dialer, limit): (Dialer, Duration),
    below: S,
) -> impl Step<Arc<Outgoing>, Response = Response<ProgressBody<B>>, Error = UpstreamError>
where
    S: Step<Arc<Outgoing>, Response = Response<B>, Error = UpstreamError>,
    B: Send,
{
    service_fn(move |request| {
        let (dialer, answering) = (dialer.clone(), below.clone().call(request));
        async move {
            let answer = match tokio::time::timeout(limit, answering).await {
                Ok(answered) => answered?,
                Err(_) => return Err(dialer.timeout()),
            };
            Ok(answer.map(|body| ProgressBody::new(body, (dialer, limit))))
        }
    })
}

/// The layer that sends a request once more, over a new connection, if its kept connection turned out to be dead,
/// as happens when the node closes it for being idle.
fn retry<S>(below: S) -> impl Step<Arc<Outgoing>, Response = S::Response, Error = UpstreamError>
where
    S: Step<(Arc<Outgoing>, Connection), Error = Failed>,
{
    service_fn(move |request: Arc<Outgoing>| {
        let mut below = below.clone();
        async move {
            let over_kept = below.call((Arc::clone(&request), Connection::Kept)).await;
            let sent = match over_kept {
                Err(failed) if failed.may_be_repeated(request.repeat) => {
                    below.call((request, Connection::New)).await
                }
                sent => sent,
            };
            sent.map_err(|failed| failed.error)
        }
    })
}

impl Failed {
    fn may_be_repeated(&self, repeat: Repeat) -> bool {
        match self.delivery {
            Delivery::Unwritten => true,
            Delivery::Unanswered => repeat == Repeat::Always,
            Delivery::Final => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Mutex;

    use tokio::time::{Instant, sleep};

    use super::testing::{dialer, request};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_in_time_is_an_error() {
        let after = |delay: Duration| {
            let below = service_fn(move |_| async move {
                sleep(delay).await;
                Ok(Response::new(()))
            });
            deadlines((dialer(), LIMIT), below).call(Arc::new(request(Repeat::Always)))
        };
        let start = Instant::now();
        let late = after(2 * LIMIT).await;
        assert!(
            matches!(late, Err(UpstreamError::Timeout { .. })),
            "{late:?}"
        );
        assert_eq!(start.elapsed(), LIMIT);
        assert!(after(LIMIT / 2).await.is_ok());
    }

    /// The connections that a request goes over which always fails in this way on a kept one.
    async fn connections(delivery: Delivery, repeat: Repeat) -> Vec<Connection> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let failing = service_fn(move |(_, over): (Arc<Outgoing>, Connection)| {
            log.lock().unwrap().push(over);
            let delivery = match over {
                Connection::Kept => delivery,
                Connection::New => Delivery::Final,
            };
            ready(Err::<(), _>(Failed {
                error: UpstreamError::Memory,
                delivery,
            }))
        });
        let sent = retry(failing).call(Arc::new(request(repeat))).await;
        sent.unwrap_err();
        let seen = seen.lock().unwrap();
        seen.clone()
    }

    #[tokio::test]
    async fn the_second_attempt_goes_over_a_new_connection_and_is_the_last() {
        let twice = [Connection::Kept, Connection::New];
        for repeat in [Repeat::Always, Repeat::IfUnwritten] {
            assert_eq!(connections(Delivery::Unwritten, repeat).await, twice);
            assert_eq!(connections(Delivery::Final, repeat).await, twice[..1]);
        }
        assert_eq!(
            connections(Delivery::Unanswered, Repeat::Always).await,
            twice
        );
    }

    #[tokio::test]
    async fn what_may_have_been_written_is_not_written_twice_unless_its_caller_says_so() {
        let once = [Connection::Kept];
        let seen = connections(Delivery::Unanswered, Repeat::IfUnwritten).await;
        assert_eq!(seen, once);
    }
}
