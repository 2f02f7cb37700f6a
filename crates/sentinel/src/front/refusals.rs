//! The log of refusals: one line a second for each reason. All of them are counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairq::ClientKey;
use tracing::info;

use crate::refusal::{Reason, Refusal};

/// The log lines about refusals: for each reason one a second at most, with how many were left out.
///
/// A flood of refusals costs a look at the clock and an atomic addition each.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    started: Instant,
    by_reason: [Sampled; Reason::ALL.len()],
}

#[derive(Debug, Default)]
struct Sampled {
    /// Nanoseconds since the start from which a line may be written again.
    from: AtomicU64,
    untold: AtomicU64,
}

const BETWEEN: Duration = Duration::from_secs(1);

impl RefusalLog {
    /// Nothing was refused yet.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            by_reason: std::array::from_fn(|_| Sampled::default()),
        }
    }

    /// Logs that a client was refused at `now`, if a line is due.
    pub(crate) fn tell(&self, client: ClientKey, refusal: &Refusal, now: Instant) {
        if let Some(untold) = self.turn(refusal.reason, now) {
            info!(
                reason = refusal.reason.name(),
                %client,
                detail = refusal.detail,
                untold,
                "refused"
            );
        }
    }

    /// How many refusals for this reason were left out before, if this one is to be logged.
    fn turn(&self, reason: Reason, now: Instant) -> Option<u64> {
        let sampled = &self.by_reason[reason as usize];
        let since = now.saturating_duration_since(self.started);
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let at = nanos(since);
        let next = at.saturating_add(nanos(BETWEEN));
        let from = sampled.from.load(Ordering::Relaxed);
        // Of several threads that find a line due, one writes it and reports the others.
        let won = at >= from
            && sampled
                .from
                .compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if won {
            return Some(sampled.untold.swap(0, Ordering::Relaxed));
        }
        sampled.untold.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_told_for_each_reason() {
        let start = Instant::now();
        let log = RefusalLog::new(start);
        let at = |ms| start + Duration::from_millis(ms);
        let told = |reason, ms| log.turn(reason, at(ms));
        assert_eq!(told(Reason::QueueFull, 0), Some(0));
        for ms in 0..999 {
            assert_eq!(told(Reason::QueueFull, ms), None);
        }
        assert_eq!(told(Reason::Rate, 500), Some(0));
        assert_eq!(told(Reason::QueueFull, 1_000), Some(999));
        assert_eq!(told(Reason::QueueFull, 5_000), Some(0));
        assert_eq!(told(Reason::Rate, 5_000), Some(0));
    }
}
