//! What a request costs here, looked at now and then: a look at the clock for every request would
//! be a good part of what it measures.

use std::time::Duration;

use pacing::Nanos;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// One request in so many is measured.
pub(super) const SAMPLED: u64 = 32;

/// Adds up the time that a request spends here, waiting for others left out. Does nothing for
/// most requests.
#[derive(Debug)]
pub(super) struct Overhead {
    since: Option<Instant>,
    spent: Duration,
}

impl Overhead {
    /// For the request of that number, which was just read.
    pub(super) fn start(number: u64) -> Self {
        Self {
            since: number.is_multiple_of(SAMPLED).then(Instant::now),
            spent: Duration::ZERO,
        }
    }

    /// Others have it now.
    pub(super) fn pause(&mut self) {
        if let Some(since) = self.since {
            self.spent += since.elapsed();
        }
    }

    /// It is back.
    pub(super) fn resume(&mut self) {
        if let Some(since) = &mut self.since {
            *since = Instant::now();
        }
    }

    /// Whether it is measured.
    pub(super) const fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Its answer was written.
    pub(super) fn end(mut self, metrics: &Metrics) {
        if self.is_on() {
            self.pause();
            metrics.overhead(Nanos::from(self.spent));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_is_left_out() {
        let step = Duration::from_millis(10);
        let mut overhead = Overhead::start(SAMPLED);
        advance(step).await;
        overhead.pause();
        advance(100 * step).await;
        overhead.resume();
        advance(step).await;
        overhead.pause();
        assert_eq!(overhead.spent, 2 * step);
        assert!(!Overhead::start(SAMPLED + 1).is_on());
    }
}
