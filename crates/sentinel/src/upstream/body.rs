//! Bodies that are read piece by piece, each further part in time, and bytes that are charged as long as they live.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::UpstreamError;
use crate::budget::Reservation;
use crate::clock::Timer;
use crate::upstream::dial::Dialer;

/// A body read piece by piece.
pub(crate) trait Pieces: Unpin + Send {
    /// Why no further piece comes.
    type Error;

    /// The next piece, never an empty one; `None` at the end. Nothing follows an error.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>>;

    /// Whether others wait for what it was admitted with.
    fn is_wanted(&self) -> bool {
        false
    }

    /// The same as a future.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, Self::Error>>> + Send {
        poll_fn(|context| self.poll_next(context))
    }
}

/// A whole body in memory. `charge` grows with it and is held until the last part of it is dropped.
///
/// # Errors
/// Those of the body; [`UpstreamError::TooLarge`] for more than `limit` bytes, and [`UpstreamError::Memory`] where
/// the account has no room.
pub(super) async fn collected<B>(
    mut body: B,
    mut charge: Reservation,
    limit: usize,
) -> Result<Bytes, B::Error>
where
    B: Pieces<Error: From<UpstreamError>>,
{
    let mut bytes = Vec::with_capacity(charge.bytes());
    while let Some(piece) = body.next().await {
        let piece = piece?;
        let len = bytes.len() + piece.len();
        if len > limit {
            return Err(UpstreamError::TooLarge(limit).into());
        }
        if !charge.grow(len.saturating_sub(charge.bytes())) {
            return Err(UpstreamError::Memory.into());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(charged(bytes, charge))
}

/// Bytes that stay charged until the last part of them is dropped.
pub(crate) fn charged(bytes: impl AsRef<[u8]> + Send + 'static, charge: Reservation) -> Bytes {
    struct Charged<B> {
        bytes: B,
        _charge: Reservation,
    }
    impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    Bytes::from_owner(Charged {
        bytes,
        _charge: charge,
    })
}

/// A body whose pieces come in time, or an error: the limit's time is for each [`PART_BYTES`] of it. Only the
/// time counts in which the node is waited for.
#[derive(Debug)]
pub(in crate::upstream) struct ProgressBody<B> {
    body: B,
    dialer: Dialer,
    limit: Duration,
    timer: Timer,
    /// Bytes of the part that is being read.
    bytes: usize,
    /// What of the time for this part has been waited.
    waited: Duration,
    /// Since when the next piece is awaited.
    awaited_since: Option<Instant>,
}

/// A node has to send so much within the limit, as a client has to take so much.
const PART_BYTES: usize = 64 << 10;

impl<B> ProgressBody<B> {
    /// `dialer` names the node in errors.
    pub(super) fn new(body: B, (dialer, limit): (Dialer, Duration)) -> Self {
        Self {
            body,
            dialer,
            limit,
            timer: Timer::default(),
            bytes: 0,
            waited: Duration::ZERO,
            awaited_since: None,
        }
    }

    pub(in crate::upstream) const fn inner(&self) -> &B {
        &self.body
    }

    /// Whether the part that is being read is late.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let since = *self.awaited_since.get_or_insert_with(Instant::now);
        let deadline = since + self.limit.saturating_sub(self.waited);
        self.timer.poll_until(deadline, context).is_ready()
    }

    fn on_piece(&mut self, bytes: usize) {
        if let Some(since) = self.awaited_since.take() {
            self.waited += since.elapsed();
        }
        self.bytes += bytes;
        if self.bytes >= PART_BYTES {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }
}

impl<B: Pieces<Error = UpstreamError>> Pieces for ProgressBody<B> {
    type Error = UpstreamError;

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        let polled = self.body.poll_next(context);
        match &polled {
            Poll::Pending if self.is_late(context) => {
                return Poll::Ready(Some(Err(self.dialer.timeout())));
            }
            Poll::Ready(Some(Ok(piece))) => self.on_piece(piece.len()),
            Poll::Pending | Poll::Ready(_) => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::advance;

    use super::*;
    use crate::budget::Ledger;
    use crate::upstream::http::testing::dialer;

    #[test]
    fn bytes_stay_charged_until_the_last_part_is_gone() {
        let ledger = Ledger::new(100);
        let bytes = charged(b"hello".to_vec(), ledger.reserve(5).unwrap());
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(ledger.used(), 5);
        drop(part);
        assert_eq!(ledger.used(), 0);
    }
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

    /// At 2b52556 a node that sent a byte every 29 s held a place of the read lane for ever.
    #[tokio::test(start_paused = true)]
    async fn case_90_an_answer_may_take_long_but_each_part_of_it_may_not() {
        let (pieces, body) = mpsc::unbounded_channel();
        let mut body = ProgressBody::new(Channel(body), (dialer(), LIMIT));
        let part = Bytes::from(vec![b'x'; PART_BYTES]);
        for _ in 0..3 {
            let read = async { body.next().await.unwrap() };
            let write = async {
                advance(LIMIT - Duration::from_secs(1)).await;
                pieces.send(part.clone()).unwrap();
            };
            assert_eq!(tokio::join!(read, write).0.unwrap(), part);
        }
        // A client that takes nothing for an hour is not the node's fault.
        advance(Duration::from_hours(1)).await;
        let start = Instant::now();
        let drip = async {
            loop {
                advance(LIMIT * 2 / 5).await;
                pieces.send(Bytes::from_static(b"x")).unwrap();
            }
        };
        let read = async {
            let mut bytes = 0;
            loop {
                match body.next().await.unwrap() {
                    Ok(piece) => bytes += piece.len(),
                    Err(error) => return (bytes, error),
                }
            }
        };
        let (bytes, late) = tokio::select! {
            biased;
            read = read => read,
            () = drip => unreachable!(),
        };
        assert!(matches!(late, UpstreamError::Timeout { .. }), "{late:?}");
        assert_eq!(bytes, 2);
        assert!(start.elapsed() >= LIMIT && start.elapsed() < LIMIT * 2);
    }
}
