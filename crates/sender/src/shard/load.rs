//! What a shard offers, how it sends, and the orders from outside that it reads at every turn of its loop.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::text;
use clap::{Args, ValueEnum};
use measure::UnsentReason;
use pacing::{CatchUp, Nanos, Profile, Schedule};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

base::named! {
    /// What becomes of what falls due past `--max-in-flight`.
    #[derive(Default, ValueEnum, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AtMaxInFlight {
        /// It is given up, and counted.
        #[default]
        Drop => "drop",
        /// It waits for answers and leaves late: no line of a file is left out.
        Wait => "wait",
    }
}

base::settings! {
    /// How a load is sent: flags, keys of a file, and keys of a run's manifest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Args, Serialize, Deserialize)]
    #[serde(default)]
    #[command(next_help_heading = "Sending")]
    pub struct Rules {
        /// What becomes of transactions that are late: full (all are sent), bounded:DURATION (later ones are
        /// dropped and counted) or none.
        #[arg(long, value_name = "POLICY", default_value_t, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub catch_up: CatchUp = CatchUp::Full,

        /// Transactions due and not yet answered, at most; see --at-max-in-flight.
        #[arg(long, value_name = "N", default_value_t = Self::default().max_in_flight, hide_short_help = true)]
        pub max_in_flight: NonZeroU64 = DEFAULT_MAX_IN_FLIGHT,

        /// What becomes of transactions that fall due when --max-in-flight is reached: drop (they are counted as
        /// unsent) or wait (they leave late, in their order, as answers come).
        #[arg(long, value_enum, value_name = "drop|wait", default_value_t, hide_short_help = true)]
        pub at_max_in_flight: AtMaxInFlight = AtMaxInFlight::Drop,

        /// How long an answer may take before its transaction is given up; a connection that brought no answer for
        /// as long is opened anew.
        #[arg(long, value_name = "DURATION", default_value_t = Self::default().answer_timeout, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub answer_timeout: Nanos = Nanos::from_secs(60),

        /// How long to wait for answers and commits after the last due time. The wait ends earlier when the mempools
        /// are empty and three more blocks had nothing of what is pending: it was lost.
        #[arg(long, value_name = "DURATION", default_value_t = Self::default().drain_timeout, hide_short_help = true)]
        #[serde(with = "text::value")]
        pub drain_timeout: Nanos = Nanos::from_secs(30),
    }
}

impl Rules {
    /// How many may be in flight, where what is due beyond waits for them.
    pub fn waits_at(&self) -> Option<u64> {
        (self.at_max_in_flight == AtMaxInFlight::Wait).then_some(self.max_in_flight.get())
    }
}

const DEFAULT_MAX_IN_FLIGHT: NonZeroU64 = NonZeroU64::new(100_000).expect("not zero");

/// What the shard offers.
pub enum ShardLoad {
    /// Its part of the schedule, up to (without) index `end`.
    Open {
        /// Its due times.
        offering: Box<Offering>,
        /// The first index that is not sent.
        end: u64,
        /// Whether connections are opened anew in the pauses of the profile.
        reconnect_in_pauses: bool,
    },
    /// Its part of a flood.
    Flood {
        /// The first index that is not sent.
        end: u64,
        /// Transactions under way at a time.
        slots: usize,
    },
}

/// A shard's due times, and what they belong to.
#[derive(Debug, Clone)]
pub struct Offering {
    /// The due times.
    pub dues: pacing::Shard,
    /// The profile that they follow.
    pub profile: Profile,
    /// When the last transaction is due at the latest; [`Nanos::MAX`] without an end.
    pub ends_at: Nanos,
}

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
    /// The run found what it looked for, or cannot find it.
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
