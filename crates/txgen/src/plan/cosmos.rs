//! What is sent to a Cosmos SDK chain.

use std::fmt;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use chain_cosmos::{CosmosContent, Payments, Wallet, write_genesis};
use cosmos::{Coin, Key, Keys, MessageTypes, Prefix, Template};

use super::error::{PlanError, at_most};
use crate::settings::{AccountSettings, CosmosSettings, Settings};

/// What was asked for, with the defaults filled in.
pub(super) fn resolve(
    settings: &Settings,
    payments: Payments,
    seed: u64,
) -> Result<CosmosContent, PlanError> {
    let given = settings.cosmos.clone();
    let wallet = wallet(
        &given.of,
        settings.seed,
        seed,
        settings.endpoints.is_empty(),
    )?;
    let accounts = given.of.count();
    at_most("--accounts", accounts.get(), MAX_ACCOUNTS)?;
    let messages = given.messages.unwrap_or(NonZeroU32::MIN);
    at_most("--messages", messages.get(), MAX_MESSAGES)?;
    if given.message.is_some() && payments == Payments::MultiSend {
        let problem = "takes the place of MsgSend: use --workload cosmos-send".to_owned();
        return Err(PlanError::of("--message", problem));
    }
    let of = settings.shard.unwrap_or_default().of();
    if !accounts.get().is_multiple_of(of.get()) {
        let problem = format!(
            "is {accounts}, which {of} generators cannot share: give a multiple of {of}, so that each account belongs \
             to one of them"
        );
        return Err(PlanError::of("--accounts", problem));
    }
    let prefix = given.of.prefix.as_deref().map(Prefix::new).transpose();
    let prefix = prefix.map_err(|error| PlanError::of("--prefix", error.to_string()))?;
    Ok(CosmosContent {
        seed,
        wallet,
        accounts,
        payments,
        messages,
        template: template(&given)?,
        recipients: given.recipients.unwrap_or_default(),
        amount: given.amount,
        gas: given.gas.unwrap_or_default(),
        gas_price: given.of.gas_price,
        fee: given.fee,
        prefix,
        chain_id: given.chain_id,
        on_gap: given.on_gap.unwrap_or_default(),
        unordered: given.unordered,
    })
}

/// The description of the messages that are sent in place of transfers.
fn template(given: &CosmosSettings) -> Result<Option<Template>, PlanError> {
    let Some(path) = &given.message else {
        return Ok(None);
    };
    let mut types = MessageTypes::known();
    if let Some(path) = &given.proto_descriptors {
        let wrong = |problem: &dyn fmt::Display| unusable("--proto-descriptors", path, problem);
        let descriptors = fs::read(path).map_err(|error| wrong(&error))?;
        types.add(&descriptors).map_err(|error| wrong(&error))?;
    }
    let wrong = |problem: &dyn fmt::Display| unusable("--message", path, problem);
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let template = Template::parse(&text, &types).map_err(|error| wrong(&error))?;
    Ok(Some(template))
}

fn unusable(option: &'static str, path: &Path, problem: &dyn fmt::Display) -> PlanError {
    let problem = format!("cannot use {}: {problem}", path.display());
    PlanError::of(option, problem)
}

/// Puts the accounts of a load into the genesis of the built-in node, which runs the SDK's bank then.
pub(super) fn endow(
    config: &mut devnode::Config,
    content: &CosmosContent,
) -> Result<(), PlanError> {
    config.app = devnode::Application::Bank;
    if let Some(prefix) = content.prefix {
        config.bank.prefix = prefix.to_string();
    }
    let prefix = Prefix::new(&config.bank.prefix);
    let wrong = |error: cosmos::Error| PlanError::of("--prefix", error.to_string());
    let prefix = prefix.map_err(wrong)?;
    let account = |number| {
        let key = content.wallet.keys.key(number).map_err(wrong)?;
        Ok(devnode::BankAccount {
            address: prefix.write(key.address()),
            amount: ENDOWMENT,
        })
    };
    let accounts: Result<Vec<_>, PlanError> = (0..content.accounts.get()).map(account).collect();
    config.bank.accounts = accounts?;
    Ok(())
}

/// Puts the accounts of a load into the genesis of a chain of the Cosmos SDK that is to be started.
pub(crate) fn endow_genesis(settings: &Settings, genesis: &Path) -> anyhow::Result<()> {
    let keys = account_keys(&settings.cosmos.of, settings.seed)?;
    let amount = Coin::new(u128::from(ENDOWMENT), "stake");
    write_accounts(genesis, &settings.cosmos.of, &keys, &amount)
}

/// Writes accounts that have so much into the genesis of a chain.
pub(crate) fn write_accounts(
    genesis: &Path,
    given: &AccountSettings,
    keys: &[Key],
    amount: &Coin,
) -> anyhow::Result<()> {
    let prefix = Prefix::new(given.prefix.as_deref().unwrap_or("cosmos"))?;
    write_genesis(genesis, &prefix, keys, amount)
}

/// The keys of all accounts of a chain that is not the built-in node's.
pub(crate) fn account_keys(given: &AccountSettings, seed: Option<u64>) -> anyhow::Result<Vec<Key>> {
    let wallet = wallet(given, seed, seed.unwrap_or_default(), false)?;
    let keys = (0..given.count().get()).map(|number| wallet.keys.key(number));
    Ok(keys.collect::<Result<_, _>>()?)
}

/// The accounts' keys. Those of a seed that nobody chose would be unknown to every chain but the built-in
/// node's.
fn wallet(
    given: &AccountSettings,
    chosen_seed: Option<u64>,
    seed: u64,
    built_in: bool,
) -> Result<Wallet, PlanError> {
    let Some(mnemonic) = &given.mnemonic else {
        if given.hd_path.is_some() {
            return Err(PlanError::of("--hd-path", "needs --mnemonic"));
        }
        if chosen_seed.is_none() && !built_in {
            return Err(PlanError::of(
                "--workload cosmos-send",
                "needs --mnemonic or --seed: the accounts that `txgen cosmos prepare` funded",
            ));
        }
        let seed = given.seed.unwrap_or(seed);
        return Ok(Wallet {
            keys: Keys::from_seed(seed),
            name: format!("seed {seed}"),
        });
    };
    let path = given.hd_path.as_deref().unwrap_or(USUAL_PATH);
    let keys = Keys::from_mnemonic(mnemonic, path);
    Ok(Wallet {
        keys: keys.map_err(|error| PlanError::of("--mnemonic", error.to_string()))?,
        name: format!("the mnemonic's {path}"),
    })
}

/// The most sender threads, up to `wanted`, that share the accounts without a rest: each account belongs to
/// one of them.
pub(super) fn fitting_threads(
    accounts: NonZeroU32,
    generators: NonZeroU32,
    wanted: NonZeroU32,
) -> NonZeroU32 {
    let each = accounts.get() / generators.get();
    (1..=wanted.get())
        .rev()
        .find(|threads| each.is_multiple_of(*threads))
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN)
}

/// What each account has of a chain that is started for the load: enough for any load.
const ENDOWMENT: u64 = 1_000_000_000_000_000;
const USUAL_PATH: &str = "m/44'/118'/0'/0";
/// About 130 MB.
const MAX_ACCOUNTS: u64 = 1_000_000;
/// More do not fit into a transaction of a megabyte.
const MAX_MESSAGES: u64 = 5_000;
