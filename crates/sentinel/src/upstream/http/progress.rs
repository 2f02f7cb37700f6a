//! Each further piece of an answer comes in time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use rpc::Endpoint;
use tokio::time::{Instant, Sleep, sleep};
use tower::{Layer, Service};

use super::request::Answering;
use crate::upstream::UpstreamError;

/// Makes [`Progress`] services.
#[derive(Clone, Debug)]
pub(super) struct ProgressLayer(Limit);

/// Fails answers that make no progress: no further piece within a limit.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Progress<S> {
    inner: S,
    limit: Limit,
}

/// A body whose pieces come in time, or an error.
#[derive(Debug)]
pub(in crate::upstream) struct ProgressBody<B> {
    body: B,
    limit: Limit,
    /// When the piece that is awaited is late.
    deadline: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

#[derive(Clone, Debug)]
struct Limit {
    time: Duration,
    node: Arc<str>,
}

impl ProgressLayer {
    pub(super) fn new(time: Duration, node: &Endpoint) -> Self {
        let node = node.to_string().into();
        Self(Limit { time, node })
    }
}

impl<S> Layer<S> for ProgressLayer {
    type Service = Progress<S>;

    fn layer(&self, inner: S) -> Progress<S> {
        let limit = self.0.clone();
        Progress { inner, limit }
    }
}

impl<S, R, B> Service<R> for Progress<S>
where
    S: Service<R, Response = Response<B>, Error = UpstreamError>,
    S::Future: Send + 'static,
{
    type Response = Response<ProgressBody<B>>;
    type Error = UpstreamError;
    type Future = Answering<ProgressBody<B>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), UpstreamError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let answering = self.inner.call(request);
        let limit = self.limit.clone();
        Box::pin(async move {
            let answer = answering.await?;
            Ok(answer.map(|body| ProgressBody {
                body,
                limit,
                deadline: None,
                is_waiting: false,
            }))
        })
    }
}

impl<B> ProgressBody<B> {
    /// Whether the awaited piece is late. The timer is made for the first piece that is awaited.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let time = self.limit.time;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(time)));
        if !std::mem::replace(&mut self.is_waiting, true) {
            deadline.as_mut().reset(Instant::now() + time);
        }
        deadline.as_mut().poll(context).is_ready()
    }
}

impl<B> Body for ProgressBody<B>
where
    B: Body<Data = Bytes, Error = UpstreamError> + Unpin,
{
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            let is_late = self.is_late(context);
            let late = || UpstreamError::Timeout {
                endpoint: self.limit.node.to_string(),
            };
            return if is_late {
                Poll::Ready(Some(Err(late())))
            } else {
                Poll::Pending
            };
        }
        self.is_waiting = false;
        Poll::Ready(ready!(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;
    use tokio::time::advance;
    use tower::{ServiceExt as _, service_fn};

    use super::super::testing::{answer, node};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A body whose pieces come when a test sends them.
    struct Channel(mpsc::UnboundedReceiver<Bytes>);

    impl Body for Channel {
        type Data = Bytes;
        type Error = UpstreamError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
            let piece = self.0.poll_recv(context);
            piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_but_each_piece_may_not() {
        let (pieces, body) = mpsc::unbounded_channel();
        let inner = service_fn(answer);
        let progress = ProgressLayer::new(LIMIT, &node()).layer(inner);
        let mut body = progress.oneshot(Channel(body)).await.unwrap().into_body();
        for _ in 0..3 {
            let read = async { body.frame().await.unwrap().unwrap().into_data() };
            let write = async {
                advance(LIMIT - Duration::from_secs(1)).await;
                pieces.send(Bytes::from_static(b"x")).unwrap();
            };
            assert_eq!(tokio::join!(read, write).0.unwrap(), "x");
        }
        let start = Instant::now();
        let late = body.frame().await.unwrap();
        assert!(
            matches!(late, Err(UpstreamError::Timeout { .. })),
            "{late:?}"
        );
        assert_eq!(start.elapsed(), LIMIT);
    }
}
