//! What is offered, and when.

use std::num::NonZeroU32;

use pacing::{Arrivals, Nanos, Profile, ProfileError, Rate, Schedule};

use super::error::PlanError;

/// What is offered, and when.
#[derive(Debug, Clone)]
pub enum Load<S = Schedule> {
    /// Open loop: the schedule alone decides when.
    Open {
        /// The due times.
        schedule: S,
        /// End when the target is saturated for two steps.
        stop_when_saturated: bool,
        /// Break all connections in every pause of the profile.
        reconnect_in_pauses: bool,
    },
    /// Closed loop: the next transaction goes out when an answer came back.
    Flood {
        /// Transactions in flight.
        concurrency: NonZeroU32,
        /// Transactions in all.
        count: u64,
    },
}

/// What is offered, before arrivals and seed are known: the rate as a function of time in place of the
/// due times.
pub type RequestedLoad = Load<Profile>;

impl RequestedLoad {
    /// This profile in an open loop, to its end.
    pub const fn of(profile: Profile) -> Self {
        Self::Open {
            schedule: profile,
            stop_when_saturated: false,
            reconnect_in_pauses: false,
        }
    }

    /// One rate for a time.
    ///
    /// # Errors
    /// When the two make no profile.
    pub fn constant(rate: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        Profile::constant(rate, Some(duration)).map(Self::of)
    }
}

impl Load {
    /// Transactions planned in all; `None` for a load without end.
    pub fn planned(&self) -> Option<u64> {
        match self {
            Self::Open { schedule, .. } => schedule.planned(),
            Self::Flood { count, .. } => Some(*count),
        }
    }
}

/// Fills in what a schedule needs beside its profile.
pub(super) fn resolve(
    load: RequestedLoad,
    arrivals: Arrivals,
    seed: u64,
) -> Result<Load, PlanError> {
    match load {
        RequestedLoad::Flood { count: 0, .. } => Err(PlanError::of(
            "--count",
            "is 0; send at least one transaction",
        )),
        RequestedLoad::Flood { concurrency, count } => Ok(Load::Flood { concurrency, count }),
        RequestedLoad::Open {
            schedule: profile,
            stop_when_saturated,
            reconnect_in_pauses,
        } => Ok(Load::Open {
            schedule: Schedule::new(profile, arrivals.with_seed(seed)),
            stop_when_saturated,
            reconnect_in_pauses,
        }),
    }
}
