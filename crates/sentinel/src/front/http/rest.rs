//! A client that does not heed its refusals is read more slowly.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use crate::front::backend::Backend;
use crate::front::socket::{Ended, Stream};
use crate::refusal::{Reason, Refusal};

/// How long a connection is not read from after a refusal.
///
/// A refusal costs as much as an answer: one read, one write. What makes a flood over HTTP cheap is
/// not to read it faster than it can be served, which a WebSocket does by itself. So each further
/// refusal in a row doubles the rest of its connection, from [`FIRST`] to `limits.refusal_rest`,
/// never beyond the refusal's own `Retry-After`. A client that waits as it was told never notices;
/// neither does one that is refused once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Refusals in a row; a request that is served halves it.
    in_a_row: u8,
    until: Option<Instant>,
}

/// The rest after the second refusal in a row.
const FIRST: Duration = Duration::from_millis(1);
/// More refusals in a row make no difference: 2^15 ms are half a minute.
const MOST_IN_A_ROW: u8 = 16;

impl Rest {
    /// A request was refused at `now`; a rest is `most` at the longest.
    pub(super) fn refused(&mut self, refusal: &Refusal, most: Duration, now: Instant) {
        let Some(retry_after) = asks_to_wait(refusal) else {
            return;
        };
        self.in_a_row = (self.in_a_row + 1).min(MOST_IN_A_ROW);
        let Some(doublings) = self.in_a_row.checked_sub(2) else {
            return;
        };
        let length = FIRST * (1 << doublings);
        self.until = Some(now + length.min(most).min(retry_after));
    }

    /// A request was served.
    pub(super) const fn served(&mut self) {
        self.in_a_row /= 2;
    }
}

/// What the client was told to wait, if it was refused because there is too much of its kind.
const fn asks_to_wait(refusal: &Refusal) -> Option<Duration> {
    match refusal.reason {
        Reason::Rate | Reason::QueueFull | Reason::QueueTimeout | Reason::Bytes => {
            refusal.retry_after
        }
        _ => None,
    }
}

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// A request was refused at `now`, which the connection may have to rest for. Not that of a
    /// trusted proxy: others, who were not refused, use it too.
    pub(super) fn rest_for(&mut self, refusal: &Refusal, now: Instant) {
        if !self.peer.is_proxy {
            let most = self.front.config.limits.refusal_rest;
            self.rest.refused(refusal, most, now);
        }
    }

    /// Lets the connection rest if it has to. A client that hangs up, and the end of the program,
    /// end the rest.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn rest(&mut self) -> Result<(), Ended> {
        let Some(until) = self.rest.until.take() else {
            return Ok(());
        };
        poll_fn(|context| {
            if self.stop.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(ended) = self.socket.poll_gone(context) {
                return Poll::Ready(Err(ended));
            }
            self.socket.poll_late(until, context).map(|_| Ok(()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(250);

    fn refusal(reason: Reason, seconds: u64) -> Refusal {
        Refusal::new(reason, "").retry_after(Duration::from_secs(seconds))
    }

    fn rests(refusals: &[Refusal]) -> Vec<u64> {
        let now = Instant::now();
        let mut rest = Rest::default();
        let one = |refusal| {
            rest.refused(refusal, MOST, now);
            let length = rest.until.take().map_or(Duration::ZERO, |at| at - now);
            u64::try_from(length.as_millis()).unwrap()
        };
        refusals.iter().map(one).collect()
    }

    #[test]
    fn only_those_who_ask_again_at_once_wait_and_no_longer_than_they_were_told() {
        let full = refusal(Reason::QueueFull, 1);
        assert_eq!(
            rests(&vec![full; 12]),
            [0, 1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250]
        );
        let soon = Refusal::new(Reason::Rate, "").retry_after(Duration::from_millis(3));
        assert_eq!(rests(&vec![soon; 5]), [0, 1, 2, 3, 3]);
        // Waiting helps nobody here.
        assert_eq!(rests(&vec![refusal(Reason::Method, 1); 5]), [0; 5]);
        assert_eq!(rests(&vec![Refusal::new(Reason::Rate, ""); 5]), [0; 5]);
        assert_eq!(rests(&vec![refusal(Reason::Bytes, 60); 300])[299], 250);
    }

    #[test]
    fn being_served_halves_it() {
        let now = Instant::now();
        let mut rest = Rest::default();
        let full = refusal(Reason::QueueFull, 1);
        for _ in 0..8 {
            rest.refused(&full, MOST, now);
        }
        rest.served();
        rest.refused(&full, MOST, now);
        assert_eq!(rest.until, Some(now + Duration::from_millis(8)));
        for _ in 0..3 {
            rest.served();
        }
        rest.until = None;
        rest.refused(&full, MOST, now);
        assert_eq!(rest.until, None);
    }
}
