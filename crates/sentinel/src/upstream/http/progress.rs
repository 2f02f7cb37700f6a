//! Each further piece of an answer comes in time.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rpc::Endpoint;
use tokio::time::Instant;

use crate::timer::Timer;
use crate::upstream::UpstreamError;
use crate::upstream::body::Pieces;

/// How long a node may be silent while an answer is awaited.
#[derive(Debug)]
pub(super) struct ProgressLimit {
    pub(super) time: Duration,
    node: String,
}

/// A body whose pieces come in time, or an error.
#[derive(Debug)]
pub(in crate::upstream) struct ProgressBody<B> {
    body: B,
    limit: Arc<ProgressLimit>,
    timer: Timer,
    /// When the piece that is awaited is late.
    deadline: Option<Instant>,
}

impl ProgressLimit {
    pub(super) fn new(time: Duration, node: &Endpoint) -> Self {
        let node = node.to_string();
        Self { time, node }
    }

    pub(super) fn exceeded(&self) -> UpstreamError {
        UpstreamError::Timeout(self.node.clone())
    }
}

impl<B> ProgressBody<B> {
    pub(super) fn new(body: B, limit: &Arc<ProgressLimit>) -> Self {
        Self {
            body,
            limit: Arc::clone(limit),
            timer: Timer::default(),
            deadline: None,
        }
    }

    /// Whether the awaited piece is late.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let from_now = || Instant::now() + self.limit.time;
        let deadline = *self.deadline.get_or_insert_with(from_now);
        self.timer.poll_until(deadline, context).is_ready()
    }
}

impl<B: Pieces<Error = UpstreamError>> Pieces for ProgressBody<B> {
    type Error = UpstreamError;

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        match self.body.poll_next(context) {
            Poll::Pending if self.is_late(context) => Poll::Ready(Some(Err(self.limit.exceeded()))),
            Poll::Pending => Poll::Pending,
            piece => {
                self.deadline = None;
                piece
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::advance;

    use super::super::testing::node;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A body whose pieces come when a test sends them.
    struct Channel(mpsc::UnboundedReceiver<Bytes>);

    impl Pieces for Channel {
        type Error = UpstreamError;

        fn poll_next(
            &mut self,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
            self.0.poll_recv(context).map(|piece| piece.map(Ok))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_but_each_piece_may_not() {
        let (pieces, body) = mpsc::unbounded_channel();
        let limit = Arc::new(ProgressLimit::new(LIMIT, &node()));
        let mut body = ProgressBody::new(Channel(body), &limit);
        for _ in 0..3 {
            let read = async { body.next().await.unwrap() };
            let write = async {
                advance(LIMIT - Duration::from_secs(1)).await;
                pieces.send(Bytes::from_static(b"x")).unwrap();
            };
            assert_eq!(tokio::join!(read, write).0.unwrap(), "x");
        }
        let start = Instant::now();
        let late = body.next().await.unwrap();
        assert!(
            matches!(late, Err(UpstreamError::Timeout { .. })),
            "{late:?}"
        );
        assert_eq!(start.elapsed(), LIMIT);
    }
}
