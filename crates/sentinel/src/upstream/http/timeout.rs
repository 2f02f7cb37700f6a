//! The head of an answer comes in time.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Response;
use rpc::Endpoint;
use tower::{Layer, Service};

use super::request::Answering;
use crate::upstream::UpstreamError;

/// Makes [`Timeout`]s.
#[derive(Clone, Debug)]
pub(super) struct TimeoutLayer {
    limit: Duration,
    node: Arc<str>,
}

/// Fails requests whose answers do not begin within a limit.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Timeout<S> {
    inner: S,
    layer: TimeoutLayer,
}

impl TimeoutLayer {
    pub(super) fn new(limit: Duration, node: &Endpoint) -> Self {
        let node = node.to_string().into();
        Self { limit, node }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        let layer = self.clone();
        Timeout { inner, layer }
    }
}

impl<S, R, B> Service<R> for Timeout<S>
where
    S: Service<R, Response = Response<B>, Error = UpstreamError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = UpstreamError;
    type Future = Answering<B>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Answering<B> {
        let answering = self.inner.call(request);
        let TimeoutLayer { limit, node } = self.layer.clone();
        Box::pin(async move {
            let answered = tokio::time::timeout(limit, answering).await;
            answered.unwrap_or_else(|_| {
                Err(UpstreamError::Timeout {
                    endpoint: node.to_string(),
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};
    use tower::{ServiceExt as _, service_fn};

    use super::super::testing::node;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_in_time_is_an_error() {
        let after = |delay: Duration| {
            let inner = service_fn(move |()| async move {
                sleep(delay).await;
                Ok(Response::new(()))
            });
            TimeoutLayer::new(LIMIT, &node()).layer(inner).oneshot(())
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
}
