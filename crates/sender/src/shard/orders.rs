//! Orders to the shards from outside, read at every turn of their loop.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use measure::UnsentReason;
use pacing::{Nanos, Schedule};
use parking_lot::Mutex;

use super::load::Offering;

/// When to stop offering, why, and whether to leave without draining.
#[derive(Debug)]
pub struct Orders {
    /// Nothing due at or after this instant is offered; in nanoseconds since the origin.
    stop_at: AtomicU64,
    /// Stopped by the run's own rules, not interrupted.
    by_rule: AtomicBool,
    abort: AtomicBool,
    /// The offering does not end with the schedule: it may be revised.
    held: AtomicBool,
    revisions: AtomicU32,
    revision: Mutex<Option<Revision>>,
}

/// A schedule that goes on otherwise than planned: a step is offered again.
#[derive(Debug, Clone)]
pub struct Revision {
    /// The schedule of all shards.
    pub schedule: Schedule,
    /// Up to here it is what it was; no shard has come this far.
    pub from: Nanos,
    /// Each shard's due times from there on.
    pub offerings: Vec<Offering>,
}

/// Why the offering ends before the profile does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
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
            held: AtomicBool::new(false),
            revisions: AtomicU32::new(0),
            revision: Mutex::new(None),
        }
    }
}

impl Orders {
    /// Ends the offering at `at`, an instant that no shard has reached; what waits then is unsent for
    /// this reason. The first call counts.
    pub fn stop(&self, at: Nanos, reason: StopReason) {
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
    pub fn abort(&self, at: Nanos) {
        self.stop(at, StopReason::Interrupted);
        self.abort.store(true, Ordering::Release);
    }

    /// When the offering ends by order; [`Nanos::MAX`] without an order.
    pub fn stop_at(&self) -> Nanos {
        Nanos::from_nanos(self.stop_at.load(Ordering::Acquire))
    }

    /// Whether the end of the schedule is not the end of the offering yet.
    pub fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Release);
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Goes on by another schedule, which is the old one up to an instant ahead.
    pub fn revise(&self, revision: Revision) {
        *self.revision.lock() = Some(revision);
        self.revisions.fetch_add(1, Ordering::Release);
    }

    /// How often the schedule was revised.
    pub fn revision(&self) -> u32 {
        self.revisions.load(Ordering::Acquire)
    }

    /// The schedule as it was revised last, if it was.
    pub fn schedule(&self) -> Option<Schedule> {
        let revision = self.revision.lock();
        revision.as_ref().map(|revision| revision.schedule.clone())
    }

    /// A shard's due times by it, and from when on they hold.
    pub(super) fn revised(&self, shard: u32) -> Option<(Nanos, Offering)> {
        let revision = self.revision.lock();
        let revision = revision.as_ref()?;
        let offering = revision.offerings.get(shard as usize)?;
        Some((revision.from, offering.clone()))
    }

    /// Whether to leave without draining.
    pub fn is_aborted(&self) -> bool {
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
