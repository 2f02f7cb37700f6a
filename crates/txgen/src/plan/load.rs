//! What is offered: which workload, when, and which part of it this generator sends.

use std::num::NonZeroU32;
use std::sync::Arc;

use chain::{
    Facts, FileWorkload, LIMIT_OF_BODIES, MAX_SIZE, QueryWorkload, Share, Wanted, Workload,
    check_limit,
};
use measure::KeptRows;
use pacing::{Arrivals, Nanos, Profile, ProfileError, Rate, Schedule};

use super::PlanError;
use super::nodes::Nodes;
use crate::chains::{TargetKind, WorkloadKind};
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
        // The coordinator of a fleet names the part that stands for all.
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

/// Makes the workload that was asked for, for a load of `planned` transactions.
pub(super) fn resolve_workload(
    settings: &Settings,
    target: TargetKind,
    seed: u64,
    planned: Option<u64>,
) -> Result<Arc<dyn Workload>, PlanError> {
    let facts = target.facts();
    let usual = WorkloadKind::Named(facts.workload);
    let kind = settings.workload.clone().unwrap_or(usual);
    refuse_misplaced(settings, target, &kind)?;
    refuse_rows(settings, facts)?;
    let workload: Arc<dyn Workload> = match &kind {
        WorkloadKind::File(path) => {
            let workload = FileWorkload::check(path, settings.file_format)?;
            check_limit(&workload, MAX_SIZE, LIMIT_OF_BODIES)?;
            Arc::new(workload)
        }
        WorkloadKind::Queries(path) => Arc::new(QueryWorkload::read(path)?),
        WorkloadKind::Named(name) => settings
            .chain()
            .workload(&wanted(settings, name, seed, planned))?,
    };
    refuse_meaningless(settings, workload.as_ref())?;
    Ok(workload)
}

/// What the settings want of a chain's workload.
pub(crate) fn wanted<'a>(
    settings: &'a Settings,
    name: &'a str,
    seed: u64,
    planned: Option<u64>,
) -> Wanted<'a> {
    Wanted {
        name,
        settings: settings.chains.of(settings.chain()),
        seed,
        chosen_seed: settings.seed,
        accounts_seed: settings.accounts_seed,
        planned,
        size: settings.size.map(usize::from),
        chain_depth: settings.chain_depth,
        conflicts: settings.conflict_ratio.map_or(0.0, Share::as_f64),
        generators: settings.shard.map_or(NonZeroU32::MIN, |part| part.of()),
        built_in: settings.endpoints.is_empty(),
    }
}

/// Refuses a workload that the nodes do not take, and settings of other chains.
fn refuse_misplaced(
    settings: &Settings,
    target: TargetKind,
    kind: &WorkloadKind,
) -> Result<(), PlanError> {
    let facts = target.facts();
    if !matches!(kind, WorkloadKind::Named(_)) && settings.size.is_some() {
        let problem = "has no meaning for a file of transactions or queries; leave it out";
        return Err(PlanError::of("--size", problem));
    }
    if let Some(problem) = facts.no_kvstore.filter(|_| kind.is("kvstore")) {
        return Err(PlanError::of("--workload kvstore", problem));
    }
    if let Some(needed) = kind.target().filter(|needed| *needed != target) {
        let problem = format!(
            "means nothing to {}; leave out --target, or use --target {}",
            facts.name,
            needed.facts().name
        );
        return Err(PlanError::of(format!("--workload {kind}"), problem));
    }
    let chain = kind.chain();
    if chain.is_some_and(|chain| chain.target().is_none()) && target != TargetKind::default() {
        let problem = format!("needs --target {}", TargetKind::default().facts().name);
        return Err(PlanError::of(format!("--workload {kind}"), problem));
    }
    let Some((flag, owner, of_target)) = settings.chains.misplaced(chain, target) else {
        return Ok(());
    };
    let problem = match owner.target().filter(|_| of_target) {
        Some(target) => format!("needs --target {}", target.facts().name),
        None => format!("needs --workload {}", owner.workloads().join(" or ")),
    };
    Err(PlanError::of(flag, problem))
}

fn refuse_rows(settings: &Settings, facts: &Facts) -> Result<(), PlanError> {
    let from_rows = facts.accounts_from_rows
        && settings
            .workload
            .as_ref()
            .is_none_or(|kind| kind.is(facts.workload));
    if from_rows && settings.rows != KeptRows::All {
        let problem = format!(
            "has to be all with --workload {}: the coins are accounted for from the rows",
            facts.workload
        );
        return Err(PlanError::of("--rows", problem));
    }
    Ok(())
}

/// Refuses settings that the workload would silently ignore.
fn refuse_meaningless(settings: &Settings, workload: &dyn Workload) -> Result<(), PlanError> {
    let signing = [
        ("--signing-threads", settings.signing_threads),
        ("--signed-ahead", settings.signed_ahead),
    ];
    let given = signing.into_iter().find(|(_, given)| given.is_some());
    if let Some((flag, _)) = given.filter(|_| !workload.is_signed()) {
        let problem = "applies to workloads whose transactions are signed; leave it out";
        return Err(PlanError::of(flag, problem));
    }
    let spending = [
        ("--chain-depth", settings.chain_depth.is_some()),
        ("--conflict-ratio", settings.conflict_ratio.is_some()),
    ];
    if let Some((flag, _)) = spending.into_iter().find(|(_, is_given)| *is_given)
        && !workload.has_chains()
    {
        let problem = "applies to workloads whose transactions spend one another; leave it out";
        return Err(PlanError::of(flag, problem));
    }
    Ok(())
}
