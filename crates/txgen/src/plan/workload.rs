//! Which workload the settings ask for, and whether it can be had.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use chain::{
    Facts, FileFormat, FileWorkload, LIMIT_OF_BODIES, MAX_SIZE, Workload, WorkloadError,
    check_limit,
};
use chain_bigchaindb::{BigchainWorkload, CREATE, Content, Metadata, TRANSFER};
use chain_bitcoin::workload::Wallet;
use chain_bitcoin::workload::{BITCOIN_WORKLOAD, BitcoinWorkload, Spec};
use chain_cometbft::KvStore;
use chain_cosmos::{CosmosWorkload, Payments};
use measure::KeptRows;

use super::error::PlanError;
use crate::chains::{TargetKind, WorkloadKind};
use crate::settings::{Admission, CosmosSettings, Settings, Share};

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
    refuse_meaningless(settings, facts, &kind)?;
    let name = match &kind {
        WorkloadKind::File(path) => {
            let format = settings.file_format.unwrap_or(FileFormat::Auto);
            let workload = FileWorkload::check(path, format)?;
            check_limit(&workload, MAX_SIZE, LIMIT_OF_BODIES)?;
            return Ok(Arc::new(workload));
        }
        WorkloadKind::Named(name) => *name,
    };
    match name {
        CREATE => {
            let content = resolve_content(settings, seed)?;
            Ok(Arc::new(BigchainWorkload::creates(content)?))
        }
        TRANSFER => {
            let planned = planned.and_then(NonZeroU64::new);
            let endless = "needs to know how many transactions there will be, to make their outputs before; \
                           give the load an end (--duration, --to or --count)";
            let planned = planned.ok_or_else(|| PlanError::of(TRANSFER, endless))?;
            let content = resolve_content(settings, seed)?;
            let depth = settings.chain_depth.unwrap_or(NonZeroU32::MIN);
            Ok(Arc::new(BigchainWorkload::transfers(
                content, planned, depth,
            )?))
        }
        BITCOIN_WORKLOAD => Ok(Arc::new(resolve_bitcoin(settings, seed, planned)?)),
        _ => match Payments::of_name(name) {
            Some(payments) => {
                let content = super::cosmos::resolve(settings, payments, seed)?;
                Ok(Arc::new(CosmosWorkload::new(content)))
            }
            None => {
                let size = settings.size.unwrap_or(DEFAULT_SIZE);
                Ok(Arc::new(KvStore::new(seed, size)?))
            }
        },
    }
}

/// A load without end gets as many transactions as ids are kept for without asking.
fn resolve_bitcoin(
    settings: &Settings,
    seed: u64,
    planned: Option<u64>,
) -> Result<BitcoinWorkload, PlanError> {
    let given = &settings.bitcoin;
    let transactions = planned.unwrap_or(ENDLESS_BITCOIN);
    let info = match &given.wallet {
        Some(path) => Some(
            Wallet::read(path)
                .map_err(|error| WorkloadError::Chain(error.into()))?
                .info,
        ),
        None => None,
    };
    let usual_depth = transactions.div_ceil(USUAL_CHAINS).max(1) as u32;
    let share = |share: Option<Share>| share.map_or(0.0, Share::as_f64);
    let usual = Spec::default();
    let depth = settings.chain_depth.map_or(usual_depth, NonZeroU32::get);
    if depth > MAX_CHAIN_DEPTH {
        let problem = format!("is {depth}; at most {MAX_CHAIN_DEPTH} is possible");
        return Err(PlanError::of("--chain-depth", problem));
    }
    let spec = Spec {
        seed,
        shape: given.shape.unwrap_or_default(),
        depth,
        conflicts: share(given.conflict_ratio),
        orphans: share(given.orphan_ratio),
        fee_rate: given.fee_rate.map_or(usual.fee_rate, Into::into),
        wallet_seed: match &info {
            Some(info) => info.seed,
            None => given.wallet_seed.unwrap_or(usual.wallet_seed),
        },
        digest: match &info {
            Some(info) => info.digest,
            None => given.digest.unwrap_or_default(),
        },
    };
    Ok(BitcoinWorkload::new(spec, transactions)?)
}

/// Refuses settings that the workload would silently ignore.
fn refuse_meaningless(
    settings: &Settings,
    facts: &Facts,
    kind: &WorkloadKind,
) -> Result<(), PlanError> {
    let meaningless = |name, problem: &str| Err(PlanError::of(name, problem));
    let bigchain = kind.is(CREATE) || kind.is(TRANSFER);
    if matches!(kind, WorkloadKind::File(_)) && settings.size.is_some() {
        return meaningless(
            "--size",
            "has no meaning for a file of transactions; leave it out",
        );
    }
    if let Some(problem) = facts.no_kvstore.filter(|_| kind.is("kvstore")) {
        return meaningless("--workload kvstore", problem);
    }
    let cosmos = [Payments::Send, Payments::MultiSend]
        .iter()
        .any(|payments| kind.is(payments.name()));
    for (name, given) in [
        ("--signers", settings.signers.is_some()),
        ("--metadata", settings.metadata.is_some()),
    ] {
        if given && !bigchain {
            return meaningless(
                name,
                "needs --workload bigchaindb-create or bigchaindb-transfer",
            );
        }
    }
    if cosmos && facts.name != "cometbft" {
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
    let bitcoin = kind.is(BITCOIN_WORKLOAD);
    let signing = [
        ("--signing-threads", settings.signing_threads),
        ("--signed-ahead", settings.signed_ahead),
    ];
    let given = signing.into_iter().find(|(_, given)| given.is_some());
    if let Some((flag, _)) = given.filter(|_| !bigchain && !bitcoin && !cosmos) {
        return meaningless(
            flag,
            "needs --workload bigchaindb-create, bigchaindb-transfer, cosmos-send, cosmos-multisend or bitcoin",
        );
    }
    if settings.chain_depth.is_some() && !kind.is(TRANSFER) && !bitcoin {
        return meaningless(
            "--chain-depth",
            "needs --workload bigchaindb-transfer or bitcoin",
        );
    }
    refuse_of_bitcoin(settings, facts, bitcoin)
}

/// Bitcoin's flags for something else, and the other way round.
fn refuse_of_bitcoin(settings: &Settings, facts: &Facts, bitcoin: bool) -> Result<(), PlanError> {
    let of_target = facts.built_in.is_bitcoin();
    let given = &settings.bitcoin;
    if bitcoin && !of_target {
        let problem = format!("means nothing to {}; leave out --target", facts.name);
        return Err(PlanError::of("--workload bitcoin", problem));
    }
    let rows = settings.rows.unwrap_or_default();
    if bitcoin && rows != KeptRows::All {
        let problem =
            "has to be all with --workload bitcoin: the coins are accounted for from the rows";
        return Err(PlanError::of("--rows", problem));
    }
    if let Some(name) = given.first_given().filter(|_| !bitcoin) {
        return Err(PlanError::of(name, "needs --workload bitcoin"));
    }
    for (name, is_given) in [
        ("--batch", given.batch.is_some()),
        ("--confirmations", given.confirmations.is_some()),
    ] {
        if is_given && !of_target {
            return Err(PlanError::of(name, "needs --target bitcoin"));
        }
    }
    let of_builtin = given.admission.is_some() || given.validators.is_some();
    if of_builtin && (!of_target || !settings.endpoints.is_empty()) {
        let problem = "applies to the built-in node with --workload bitcoin; leave out --endpoints";
        return Err(PlanError::of("--admission", problem));
    }
    let parallel = given.admission == Some(Admission::Parallel);
    if given.validators.is_some() && !parallel {
        let problem = "needs parallel admission: add --admission parallel";
        return Err(PlanError::of("--validators", problem));
    }
    for (name, clashing) in [
        ("--wallet-seed", given.wallet_seed.is_some()),
        ("--digest", given.digest.is_some()),
    ] {
        if clashing && given.wallet.is_some() {
            return Err(PlanError::of(
                name,
                "is said by the --wallet file; leave it out",
            ));
        }
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

/// Of a Bitcoin load without end, in about a minute and 50 MB.
const ENDLESS_BITCOIN: u64 = 1_000_000;
/// 200,000 coins of 2-in-2-out are mined and split in seconds.
const USUAL_CHAINS: u64 = 100_000;
/// The links of a chain are walked for each of its transactions.
const MAX_CHAIN_DEPTH: u32 = 10_000;
/// tm-bench's default transaction size in bytes.
const DEFAULT_SIZE: usize = 250;
