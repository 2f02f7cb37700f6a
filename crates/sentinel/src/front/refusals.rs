//! The log of refusals: one line a second for each reason. All of them are counted.

use std::time::Instant;

use fairq::ClientKey;
use tracing::info;

use crate::refusal::{Reason, Refusal};
use crate::sampled::Sampled;

/// The log lines about refusals: for each reason one a second at most, with how many were left out.
#[derive(Debug)]
pub(crate) struct RefusalLog {
    started: Instant,
    by_reason: [Sampled; Reason::ALL.len()],
}

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
        let since = now.saturating_duration_since(self.started);
        self.by_reason[reason as usize].turn(since.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
