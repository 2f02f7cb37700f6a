//! Which workload the settings ask for, and whether it can be had.

use std::num::{NonZeroU32, NonZeroU64};

use super::error::PlanError;
use crate::settings::{CosmosSettings, Settings};
use crate::target::{Facts, TargetKind};
use crate::workload::{
    BigchainWorkload, Content, CosmosWorkload, FileFormat, FileWorkload, KvStore, LIMIT_OF_BODIES,
    MAX_SIZE, Metadata, TRANSFER, Workload, WorkloadKind,
};

/// Makes the workload that was asked for, for a load of `planned` transactions.
pub(super) fn resolve(
    settings: &Settings,
    target: TargetKind,
    seed: u64,
    planned: Option<u64>,
) -> Result<Workload, PlanError> {
    let facts = target.facts();
    let kind = settings
        .workload
        .as_ref()
        .unwrap_or(&facts.workload)
        .clone();
    refuse_meaningless(settings, facts, &kind)?;
    match kind {
        WorkloadKind::KvStore => {
            let size = settings.size.unwrap_or(DEFAULT_SIZE);
            Ok(Workload::KvStore(KvStore::new(seed, size)?))
        }
        WorkloadKind::File(path) => {
            let format = settings.file_format.unwrap_or(FileFormat::Auto);
            let workload = Workload::File(FileWorkload::check(&path, format)?);
            workload.check_limit(MAX_SIZE, LIMIT_OF_BODIES)?;
            Ok(workload)
        }
        WorkloadKind::BigchainCreate => {
            let content = resolve_content(settings, seed)?;
            Ok(Workload::Bigchain(BigchainWorkload::creates(content)?))
        }
        WorkloadKind::BigchainTransfer => {
            let planned = planned.and_then(NonZeroU64::new);
            let endless = "needs to know how many transactions there will be, to make their outputs before; \
                           give the load an end (--duration, --to or --count)";
            let planned = planned.ok_or_else(|| PlanError::of(TRANSFER, endless))?;
            let content = resolve_content(settings, seed)?;
            let depth = settings.chain_depth.unwrap_or(NonZeroU32::MIN);
            let transfers = BigchainWorkload::transfers(content, planned, depth)?;
            Ok(Workload::Bigchain(transfers))
        }
        WorkloadKind::Cosmos(payments) => {
            let content = super::cosmos::resolve(settings, payments, seed)?;
            Ok(Workload::Cosmos(CosmosWorkload::new(content)))
        }
    }
}

/// Refuses settings that the workload would silently ignore.
fn refuse_meaningless(
    settings: &Settings,
    facts: &Facts,
    kind: &WorkloadKind,
) -> Result<(), PlanError> {
    let meaningless = |name, problem: &str| Err(PlanError::of(name, problem));
    let bigchain = matches!(
        kind,
        WorkloadKind::BigchainCreate | WorkloadKind::BigchainTransfer
    );
    if matches!(kind, WorkloadKind::File(_)) && settings.size.is_some() {
        return meaningless(
            "--size",
            "has no meaning for a file of transactions; leave it out",
        );
    }
    if let Some(problem) = facts.no_kvstore.filter(|_| *kind == WorkloadKind::KvStore) {
        return meaningless("--workload kvstore", problem);
    }
    let cosmos = matches!(kind, WorkloadKind::Cosmos(_));
    for (name, given) in [
        ("--signers", settings.signers.is_some()),
        ("--metadata", settings.metadata.is_some()),
        (
            "--signing-threads",
            settings.signing_threads.is_some() && !cosmos,
        ),
    ] {
        if given && !bigchain {
            return meaningless(
                name,
                "needs --workload bigchaindb-create or bigchaindb-transfer",
            );
        }
    }
    if cosmos && facts.name != TargetKind::Cometbft.facts().name {
        return meaningless("--workload cosmos-send", "needs --target cometbft");
    }
    if cosmos && settings.size.is_some() {
        return meaningless(
            "--size",
            "has no meaning for transfers; --messages makes larger transactions",
        );
    }
    if !cosmos && settings.cosmos.clone().without_environment() != CosmosSettings::default() {
        return meaningless(
            "--accounts (and the other flags of Cosmos SDK chains)",
            "needs --workload cosmos-send or cosmos-multisend",
        );
    }
    if settings.chain_depth.is_some() && *kind != WorkloadKind::BigchainTransfer {
        return meaningless("--chain-depth", "needs --workload bigchaindb-transfer");
    }
    Ok(())
}

fn resolve_content(settings: &Settings, seed: u64) -> Result<Content, PlanError> {
    let metadata = settings.metadata.as_deref().map(Metadata::read);
    Ok(Content {
        seed,
        signers: settings.signers.unwrap_or(NonZeroU32::MIN),
        asset_size: settings.size.unwrap_or(0),
        metadata: metadata.transpose()?.unwrap_or_default(),
    })
}

/// tm-bench's default transaction size in bytes.
const DEFAULT_SIZE: usize = 250;
