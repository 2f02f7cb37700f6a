//! HTTP requests to one node over a pool of kept-alive connections.
//!
//! The head of an answer has a deadline, and so has each further piece ([`progress`]). A request
//! that was not carried out, because its kept connection was dead, is sent once more over a new
//! connection ([`pool`]).

mod pool;
mod progress;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response, Uri};
use tokio::time::timeout;

pub(super) use self::pool::{Connect, PoolOptions};
use self::pool::{Delivery, Failed, Pool, PooledBody};
use self::progress::{ProgressBody, ProgressLimit};
use super::UpstreamError;
use super::dial::Dialer;

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

/// Asks one node.
#[derive(Debug)]
pub(super) struct NodeHttp {
    pool: Pool<Dialer>,
    limit: Arc<ProgressLimit>,
}

impl NodeHttp {
    /// A client without connections. `patience` is for the head of an answer, and for each further
    /// piece.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        dialer: Dialer,
        options: PoolOptions,
        patience: Duration,
    ) -> Result<Self, UpstreamError> {
        let node = dialer.endpoint().clone();
        Ok(Self {
            limit: Arc::new(ProgressLimit::new(patience, &node)),
            pool: Pool::new(dialer, &node, options)?,
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
        request: &Outgoing,
    ) -> Result<Response<NodeBody>, UpstreamError> {
        let answering = attempt(request.repeat, |over| self.pool.send(request, over));
        let answer = head_in_time(&self.limit, answering).await?;
        Ok(answer.map(|body| ProgressBody::new(body, &self.limit)))
    }
}

/// Sends a request once more, over a new connection, if its kept connection turned out to be dead,
/// as happens when the node closes it for being idle.
async fn attempt<T, F>(repeat: Repeat, send: impl Fn(Connection) -> F) -> Result<T, UpstreamError>
where
    F: Future<Output = Result<T, Failed>>,
{
    let sent = match send(Connection::Kept).await {
        Err(Failed { delivery, .. })
            if delivery == Delivery::Unwritten
                || delivery == Delivery::Unanswered && repeat == Repeat::Always =>
        {
            send(Connection::New).await
        }
        sent => sent,
    };
    sent.map_err(|failed| failed.error)
}

async fn head_in_time<T>(
    limit: &ProgressLimit,
    answering: impl Future<Output = Result<T, UpstreamError>>,
) -> Result<T, UpstreamError> {
    let answered = timeout(limit.time, answering).await;
    answered.unwrap_or_else(|_| Err(limit.exceeded()))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Mutex;

    use tokio::time::{Instant, sleep};

    use super::testing::node;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_in_time_is_an_error() {
        let limit = ProgressLimit::new(LIMIT, &node());
        let after = |delay: Duration| {
            head_in_time(&limit, async move {
                sleep(delay).await;
                Ok(())
            })
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
        let seen = Mutex::new(Vec::new());
        let failing = |over| {
            seen.lock().unwrap().push(over);
            let delivery = match over {
                Connection::Kept => delivery,
                Connection::New => Delivery::Final,
            };
            ready(Err::<(), _>(Failed {
                error: UpstreamError::Memory,
                delivery,
            }))
        };
        attempt(repeat, failing).await.unwrap_err();
        seen.into_inner().unwrap()
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
