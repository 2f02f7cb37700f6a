//! Which workload the settings ask for, and whether it can be had.

use std::num::NonZeroU32;
use std::sync::Arc;

use chain::{
    Facts, FileWorkload, LIMIT_OF_BODIES, MAX_SIZE, QueryWorkload, Share, Wanted, Workload,
    check_limit,
};
use measure::KeptRows;

use super::error::PlanError;
use crate::chains::{TargetKind, WorkloadKind};
use crate::settings::Settings;

/// Makes the workload that was asked for, for a load of `planned` transactions.
pub(super) fn resolve(
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
