//! Orders to the shards from outside, read at every turn of their loop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use measure::UnsentReason;
use pacing::Nanos;

/// When to stop offering, why, and whether to leave without draining.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Nothing due at or after this instant is offered; in nanoseconds since the origin.
    stop_at: AtomicU64,
    /// Stopped by the run's own rules, not interrupted.
    by_rule: AtomicBool,
    abort: AtomicBool,
}

/// Why the offering ends before the profile does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// The run found what it looked for.
    Saturated,
    /// A condition of the user's was broken.
    Condition,
    /// The user, or a failure, ended it.
    Interrupted,
}

impl Default for Orders {
    fn default() -> Self {
        Self {
            stop_at: AtomicU64::new(u64::MAX),
            by_rule: AtomicBool::new(false),
            abort: AtomicBool::new(false),
        }
    }
}

impl Orders {
    /// Ends the offering at `at`, an instant that no shard has reached; what waits then is unsent for
    /// this reason. The first call counts.
    pub(crate) fn stop(&self, at: Nanos, reason: StopReason) {
        if reason != StopReason::Interrupted && self.stop_at() == Nanos::MAX {
            self.by_rule.store(true, Ordering::Relaxed);
        }
        let _ = self.stop_at.compare_exchange(
            u64::MAX,
            at.as_nanos(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Ends the offering at `at`, if no earlier order did, and makes every shard leave then.
    pub(crate) fn abort(&self, at: Nanos) {
        self.stop(at, StopReason::Interrupted);
        self.abort.store(true, Ordering::Release);
    }

    /// When the offering ends by order; [`Nanos::MAX`] without an order.
    pub(crate) fn stop_at(&self) -> Nanos {
        Nanos::from_nanos(self.stop_at.load(Ordering::Acquire))
    }

    /// Whether to leave without draining.
    pub(crate) fn is_aborted(&self) -> bool {
        self.abort.load(Ordering::Acquire)
    }

    /// What becomes of transactions that wait when the offering ends by order.
    pub(super) fn unsent_reason(&self) -> UnsentReason {
        if self.by_rule.load(Ordering::Relaxed) {
            UnsentReason::Stopped
        } else {
            UnsentReason::Interrupted
        }
    }
}
