//! What a shard offers, and how it sends.

use std::num::NonZeroU64;

use base::text;
use clap::{Args, ValueEnum};
use pacing::{CatchUp, Nanos, Profile};
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

        /// How long to wait for answers and commits after the last due time.
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
