//! A client that repeats requests although they are refused is read more slowly.

use std::time::Duration;

use tokio::time::Instant;

use crate::refusal::{Reason, Refusal};

/// How long a connection is not read from after a refusal.
///
/// A refusal costs as much as an answer: one read, one write. A flood over HTTP becomes cheap when it
/// is not read faster than it can be served, as on a WebSocket, which is not read while its client's
/// queue is full. So each further refusal in a row doubles the pause of its connection, from [`FIRST`]
/// to `limits.refusal_rest`, and never beyond the refusal's own `Retry-After`. A client that waits as
/// it was told, or is refused once, is not slowed down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slowdown {
    /// Refusals in a row; a request that is served halves it.
    in_a_row: u8,
    until: Option<Instant>,
}

/// The pause after the second refusal in a row.
const FIRST: Duration = Duration::from_millis(1);
/// More refusals in a row make no difference: 2^15 ms are half a minute.
const MOST_IN_A_ROW: u8 = 16;

impl Slowdown {
    /// A request was refused at `now`; a pause is `most` at the longest.
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

    /// Until when the connection is not to be read from, if it has to pause.
    pub(super) const fn take_pause(&mut self) -> Option<Instant> {
        self.until.take()
    }

    /// A request was served.
    pub(super) const fn served(&mut self) {
        self.in_a_row /= 2;
    }
}

/// What the client was told to wait, if it was refused because there is too much of its kind.
const fn asks_to_wait(refusal: &Refusal) -> Option<Duration> {
    match refusal.reason {
        Reason::Rate
        | Reason::QueueFull
        | Reason::QueueTimeout
        | Reason::Bytes
        | Reason::Clients => refusal.retry_after,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(250);

    fn refusal(reason: Reason, seconds: u64) -> Refusal {
        Refusal::new(reason, "").retry_after(Duration::from_secs(seconds))
    }

    fn pauses(refusals: &[Refusal]) -> Vec<u64> {
        let now = Instant::now();
        let mut slowdown = Slowdown::default();
        let one = |refusal| {
            slowdown.refused(refusal, MOST, now);
            let length = slowdown.take_pause().map_or(Duration::ZERO, |at| at - now);
            u64::try_from(length.as_millis()).unwrap()
        };
        refusals.iter().map(one).collect()
    }

    #[test]
    fn only_those_who_ask_again_at_once_wait_and_no_longer_than_they_were_told() {
        let full = refusal(Reason::QueueFull, 1);
        assert_eq!(
            pauses(&vec![full; 12]),
            [0, 1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250]
        );
        let soon = Refusal::new(Reason::Rate, "").retry_after(Duration::from_millis(3));
        assert_eq!(pauses(&vec![soon; 5]), [0, 1, 2, 3, 3]);
        // Waiting helps nobody here.
        assert_eq!(pauses(&vec![refusal(Reason::Method, 1); 5]), [0; 5]);
        assert_eq!(pauses(&vec![Refusal::new(Reason::Rate, ""); 5]), [0; 5]);
        assert_eq!(pauses(&vec![refusal(Reason::Bytes, 60); 300])[299], 250);
    }

    #[test]
    fn being_served_halves_it() {
        let now = Instant::now();
        let mut slowdown = Slowdown::default();
        let full = refusal(Reason::QueueFull, 1);
        for _ in 0..8 {
            slowdown.refused(&full, MOST, now);
        }
        slowdown.served();
        slowdown.refused(&full, MOST, now);
        assert_eq!(slowdown.until, Some(now + Duration::from_millis(8)));
        for _ in 0..3 {
            slowdown.served();
        }
        slowdown.until = None;
        slowdown.refused(&full, MOST, now);
        assert_eq!(slowdown.until, None);
    }
}
