//! Log lines of which one a second is written. All of them are counted.

use std::sync::atomic::{AtomicU64, Ordering};

use fairq::ClientKey;
use pacing::Nanos;
use tracing::info;

use crate::clock::Clock;
use crate::refusal::{Reason, Refusal};

/// Log lines of one kind: one a second at most, with how many were left out. A flood of them costs a
/// look at the clock and an atomic addition each.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// Nanoseconds from which a line may be written again.
    from: AtomicU64,
    untold: AtomicU64,
}

const BETWEEN: Nanos = Nanos::from_secs(1);

impl Sampled {
    /// How many lines were left out before, if this one is to be written.
    pub(crate) fn turn(&self, now: Nanos) -> Option<u64> {
        let next = now.saturating_add(BETWEEN).as_nanos();
        let from = self.from.load(Ordering::Relaxed);
        // Of several threads that find a line due, one writes it and reports the others.
        let won = now.as_nanos() >= from
            && (self.from)
                .compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if won {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        None
    }
}

/// The log lines about refusals: for each reason one a second at most, with how many were left out.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    clock: Clock,
    by_reason: [Sampled; Reason::ALL.len()],
}

impl RefusalLog {
    /// Nothing was refused yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            by_reason: std::array::from_fn(|_| Sampled::default()),
        }
    }

    /// Logs that a client was refused, if a line is due.
    pub(crate) fn tell(&self, client: ClientKey, refusal: &Refusal) {
        let of_reason = &self.by_reason[refusal.reason.index()];
        if let Some(untold) = of_reason.turn(self.clock.now()) {
            info!(
                reason = refusal.reason.name(),
                %client,
                detail = refusal.detail,
                untold,
                "refused"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_second_is_told() {
        let lines = Sampled::default();
        let told = |ms| lines.turn(Nanos::from_millis(ms));
        assert_eq!(told(0), Some(0));
        for ms in 0..999 {
            assert_eq!(told(ms), None);
        }
        assert_eq!(told(1_000), Some(999));
        assert_eq!(told(5_000), Some(0));
    }
}
