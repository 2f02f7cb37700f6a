//! What a shard offers, and how it sends.

use clap::ValueEnum;
use pacing::{CatchUp, Nanos, Profile};
use serde::Deserialize;

pacing::named! {
    /// What becomes of what falls due past `--max-in-flight`.
    #[derive(Default, ValueEnum, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AtMaxInFlight {
        /// It is given up, and counted.
        #[default]
        Drop => "drop",
        /// It waits for answers and leaves late: no line of a file is left out.
        Wait => "wait",
    }
}

/// How a shard sends.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What is done with transactions that could not leave in time.
    pub catch_up: CatchUp,
    /// This shard's part of `--max-in-flight`.
    pub max_in_flight: usize,
    /// What becomes of what falls due beyond that.
    pub at_max_in_flight: AtMaxInFlight,
    /// How long answers are awaited after the last one was sent.
    pub drain_timeout: Nanos,
    /// How long before a due time the thread stops sleeping.
    pub spin: Nanos,
}

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
