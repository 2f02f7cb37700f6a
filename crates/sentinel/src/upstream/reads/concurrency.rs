//! How many reads may be under way in all.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tower::{Layer, Service};

use super::request::{Answering, Read, ReadAnswer};
use crate::refusal::{Reason, Refusal};
use crate::upstream::body::Permitted;

/// Makes [`Concurrency`] services, which share one limit.
#[derive(Clone, Debug)]
pub(super) struct ConcurrencyLayer(Arc<Semaphore>);

/// Lets so many reads through at a time, each until its answer's body is dropped. Those beyond wait
/// for [`PLACE_LIMIT`], in the order in which they came, and are then refused.
///
/// tower's own limit gives its permit back with the head of the answer.
#[derive(Clone, Debug)]
pub(super) struct Concurrency<S> {
    inner: S,
    places: Arc<Semaphore>,
}

impl ConcurrencyLayer {
    pub(super) fn new(reads: usize) -> Self {
        Self(Arc::new(Semaphore::new(reads)))
    }
}

impl<S> Layer<S> for ConcurrencyLayer {
    type Service = Concurrency<S>;

    fn layer(&self, inner: S) -> Concurrency<S> {
        let places = Arc::clone(&self.0);
        Concurrency { inner, places }
    }
}

impl<S, B> Service<Read> for Concurrency<S>
where
    S: Service<Read, Response = ReadAnswer<B>, Error = Refusal> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = ReadAnswer<Permitted<B, OwnedSemaphorePermit>>;
    type Error = Refusal;
    type Future = Answering<Permitted<B, OwnedSemaphorePermit>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, read: Read) -> Self::Future {
        let places = Arc::clone(&self.places);
        // The service that was found ready is the one to be called.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let place = match timeout(PLACE_LIMIT, places.acquire_owned()).await {
                Ok(Ok(place)) => place,
                Ok(Err(_)) => {
                    return Err(Refusal::new(Reason::Shutdown, "the proxy is going down"));
                }
                Err(_) => {
                    let busy = Refusal::new(Reason::Rate, "too many reads are under way");
                    return Err(busy.retry_after(PLACE_LIMIT));
                }
            };
            let answer = inner.call(read).await?;
            Ok(answer.map(|body| Permitted::new(body, place)))
        })
    }
}

/// How long a read waits for one of the places that all share.
const PLACE_LIMIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};
    use tower::ServiceExt as _;

    use super::super::testing::{node, read};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_a_second_for_a_body_to_be_dropped() {
        let service = ConcurrencyLayer::new(1).layer(node());
        let ask = || service.clone().oneshot(read(1, "status"));
        let start = Instant::now();
        let first = ask().await.unwrap();
        assert_eq!(ask().await.unwrap_err().reason, Reason::Rate);
        assert_eq!(start.elapsed(), PLACE_LIMIT);
        let (second, ()) = tokio::join!(ask(), async {
            sleep(PLACE_LIMIT / 2).await;
            drop(first);
        });
        second.unwrap();
        assert_eq!(start.elapsed(), PLACE_LIMIT * 3 / 2);
    }
}
