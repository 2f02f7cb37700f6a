//! What is offered, and when, and which part of it this generator sends.

use std::num::NonZeroU32;

use chain::Workload;
use pacing::{Arrivals, Nanos, Profile, ProfileError, Rate, Schedule};

use super::error::PlanError;
use super::nodes::Nodes;
use crate::part::Part;
use crate::settings::Settings;

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

/// One of several generators must make the same plan as the others.
pub(super) fn resolve_part(
    settings: &Settings,
    load: &Load,
    nodes: &Nodes,
    workload: &dyn Workload,
) -> Result<Part, PlanError> {
    let part = settings.shard.unwrap_or_default();
    if part.is_whole() {
        // Who has workers send a load says which part stands for all.
        return match settings.workers() {
            None => Ok(part),
            Some(_) => Err(PlanError::of(
                "--workers",
                "goes with constant, square, ramp --to, run, search and ab; the others send what they send from here",
            )),
        };
    }
    let endless = matches!(
        load,
        Load::Open {
            stop_when_saturated: true,
            ..
        }
    );
    let obstacle = if matches!(load, Load::Flood { .. }) {
        "divides a schedule, and a flood has none; give each flood its own --count"
    } else if endless {
        "needs a load that ends at the same time for all generators; give the ramp a --to"
    } else if matches!(nodes, Nodes::BuiltIn { .. }) {
        "needs --endpoints: each generator would load a built-in node of its own"
    } else if workload.preparation().is_some() {
        "divides transactions that stand alone; these spend outputs that one generator has to make first"
    } else if settings.seed.is_none() {
        "needs --seed, the same for all generators, or their plans differ"
    } else {
        return Ok(part);
    };
    Err(PlanError::of("--shard", obstacle))
}
