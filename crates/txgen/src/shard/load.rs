//! What a shard offers, and how it sends.

use pacing::{CatchUp, Nanos, Profile};

use crate::settings::AtMaxInFlight;

/// How a shard sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) catch_up: CatchUp,
    /// This shard's part of `--max-in-flight`.
    pub(crate) max_in_flight: usize,
    pub(crate) at_max_in_flight: AtMaxInFlight,
    pub(crate) drain_timeout: Nanos,
    pub(crate) spin: Nanos,
}

/// What the shard offers.
pub(crate) enum ShardLoad {
    /// Its part of the schedule, up to (without) index `end`.
    Open {
        offering: Box<Offering>,
        end: u64,
        reconnect_in_pauses: bool,
    },
    /// Its part of a flood.
    Flood { end: u64, slots: usize },
}

/// A shard's due times, and what they belong to.
#[derive(Debug, Clone)]
pub(crate) struct Offering {
    pub(crate) dues: pacing::Shard,
    pub(crate) profile: Profile,
    /// When the last transaction is due at the latest; [`Nanos::MAX`] without an end.
    pub(crate) ends_at: Nanos,
}
