//! What is sent to a Cosmos SDK chain: the workload, each transaction from its index and sequence, and accounts written into
//! the genesis of a chain that has not begun.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

use anyhow::{Context as _, anyhow, bail};
use chain::{TxName, TxStream, Wanted, WorkloadError, at_most, refuse};
use cosmos::{
    Address, Coin, Draft, Filling, Key, Keys, Message, MessageTypes, Prefix, Signer, Signing,
    Template,
};
use pacing::Nanos;
use sender::clock::Origin;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::settings::{AccountSettings, CosmosContent, CosmosSettings, Payments, SETTINGS, Wallet};
use crate::{Ready, Recipients};

#[cfg(feature = "fixture")]
use crate::fixture::{BankAccount, BankConfig, BankKind};

/// What was asked for, with the defaults filled in.
pub(crate) fn resolve(wanted: &Wanted<'_>) -> Result<CosmosContent, WorkloadError> {
    let payments = Payments::of_name(wanted.name).unwrap_or(Payments::Send);
    let mut given = SETTINGS.read(wanted.settings)?;
    if wanted.size.is_some() {
        return Err(refuse(
            "--size",
            "has no meaning for transfers; --messages makes larger transactions",
        ));
    }
    let seeds = Seeds {
        chosen: wanted.chosen_seed,
        run: wanted.seed,
        accounts: wanted.accounts_seed,
        built_in: wanted.built_in,
    };
    let wallet = wallet(&given.of, seeds)?;
    // What is printed for developers has no secret.
    given.of.mnemonic = None;
    let accounts = given.of.count();
    at_most("--accounts", accounts.get(), MAX_ACCOUNTS)?;
    let messages = given.messages.unwrap_or(NonZeroU32::MIN);
    at_most("--messages", messages.get(), MAX_MESSAGES)?;
    if given.message.is_some() && payments == Payments::MultiSend {
        let problem = "takes the place of MsgSend: use --workload cosmos-send".to_owned();
        return Err(refuse("--message", problem));
    }
    let of = wanted.generators;
    if !accounts.get().is_multiple_of(of.get()) {
        let problem = format!(
            "is {accounts}, which {of} generators cannot share: give a multiple of {of}, so that each account belongs \
             to one of them"
        );
        return Err(refuse("--accounts", problem));
    }
    let prefix = given.of.prefix.as_deref().map(Prefix::new).transpose();
    let prefix = prefix.map_err(|error| refuse("--prefix", error.to_string()))?;
    Ok(CosmosContent {
        seed: wanted.seed,
        wallet,
        payments,
        template: template(&given)?,
        prefix,
        given,
    })
}

/// The description of the messages that are sent in place of transfers.
fn template(given: &CosmosSettings) -> Result<Option<Template>, WorkloadError> {
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

fn unusable(option: &'static str, path: &Path, problem: &dyn fmt::Display) -> WorkloadError {
    let problem = format!("cannot use {}: {problem}", path.display());
    refuse(option, problem)
}

/// Puts the accounts of a load into the genesis of the built-in node, which runs the SDK's bank then.
#[cfg(feature = "fixture")]
pub(crate) fn endow(
    node: &mut devnode::Blueprint,
    content: &CosmosContent,
) -> Result<(), WorkloadError> {
    node.kind = &BankKind;
    let mut bank: BankConfig = node.config.sections.of();
    if let Some(prefix) = content.prefix {
        bank.prefix = prefix.to_string();
    }
    let prefix = Prefix::new(&bank.prefix);
    let wrong = |error: cosmos::Error| refuse("--prefix", error);
    let prefix = prefix.map_err(wrong)?;
    let account = |number| {
        let key = content.wallet.keys.key(number).map_err(wrong)?;
        Ok(BankAccount {
            address: prefix.write(key.address()),
            amount: ENDOWMENT,
        })
    };
    let accounts: Result<Vec<_>, WorkloadError> =
        (0..content.accounts().get()).map(account).collect();
    bank.accounts = accounts?;
    node.config.sections.set(bank);
    Ok(())
}

/// Puts the accounts of a load into the genesis of a chain of the Cosmos SDK that is to be started.
pub(crate) fn endow_genesis(wanted: &Wanted<'_>, genesis: &Path) -> anyhow::Result<()> {
    let given = SETTINGS.read(wanted.settings)?;
    let seeds = Seeds {
        accounts: wanted.accounts_seed,
        ..Seeds::of(wanted.chosen_seed)
    };
    let amount = Coin::new(u128::from(ENDOWMENT), "stake");
    write_accounts(genesis, &given.of, &keys(&given.of, seeds)?, &amount)
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
    keys(given, Seeds::of(seed))
}

fn keys(given: &AccountSettings, seeds: Seeds) -> anyhow::Result<Vec<Key>> {
    let wallet = wallet(given, seeds)?;
    let keys = (0..given.count().get()).map(|number| wallet.keys.key(number));
    Ok(keys.collect::<Result<_, _>>()?)
}

/// What accounts without a mnemonic may follow from.
#[derive(Debug, Clone, Copy)]
struct Seeds {
    /// The seed that the user chose.
    chosen: Option<u64>,
    /// The run's.
    run: u64,
    /// That of all runs of a command.
    accounts: Option<u64>,
    /// Whether the chain is made for the run.
    built_in: bool,
}

impl Seeds {
    fn of(seed: Option<u64>) -> Self {
        Self {
            chosen: seed,
            run: seed.unwrap_or_default(),
            accounts: None,
            built_in: false,
        }
    }
}

/// The accounts' keys. Those of a seed that the user did not choose would be unknown to every chain but the built-in
/// node's.
fn wallet(given: &AccountSettings, seeds: Seeds) -> Result<Wallet, WorkloadError> {
    let Some(mnemonic) = &given.mnemonic else {
        if given.hd_path.is_some() {
            return Err(refuse("--hd-path", "needs --mnemonic"));
        }
        if seeds.chosen.is_none() && !seeds.built_in {
            return Err(refuse(
                "--workload cosmos-send",
                "needs --mnemonic or --seed: the accounts that `txgen cosmos prepare` funded",
            ));
        }
        let seed = seeds.accounts.unwrap_or(seeds.run);
        return Ok(Wallet {
            keys: Keys::from_seed(seed),
            name: format!("seed {seed}"),
        });
    };
    let path = given.hd_path.as_deref().unwrap_or(USUAL_PATH);
    let keys = Keys::from_mnemonic(mnemonic, path);
    Ok(Wallet {
        keys: keys.map_err(|error| refuse("--mnemonic", error.to_string()))?,
        name: format!("the mnemonic's {path}"),
    })
}

/// What each account has of a chain that is started for the load: enough for any load.
const ENDOWMENT: u64 = 1_000_000_000_000_000;
const USUAL_PATH: &str = "m/44'/118'/0'/0";
/// About 130 MB.
const MAX_ACCOUNTS: u64 = 1_000_000;
/// More do not fit into a transaction of a megabyte.
const MAX_MESSAGES: u64 = 5_000;

/// Appends the accounts to a genesis of SDK 0.50: `auth.accounts`, `bank.balances`, and the supply.
pub fn write_genesis(
    path: &Path,
    prefix: &Prefix,
    keys: &[Key],
    amount: &Coin,
) -> anyhow::Result<()> {
    let unusable = || format!("cannot use {} as a genesis file", path.display());
    let text = fs::read_to_string(path).with_context(unusable)?;
    let mut genesis: Value = serde_json::from_str(&text).with_context(unusable)?;
    let state = genesis.get_mut("app_state").with_context(unusable)?;
    let list = |state: &mut Value, pointer: &str| -> anyhow::Result<Vec<Value>> {
        let place = state.pointer_mut(pointer).and_then(Value::as_array_mut);
        let place = place.ok_or_else(|| anyhow!("it has no {pointer}"));
        Ok(std::mem::take(place.with_context(unusable)?))
    };
    let mut accounts = list(state, "/auth/accounts")?;
    let mut balances = list(state, "/bank/balances")?;
    let mut supply = list(state, "/bank/supply")?;
    let known = accounts.len();
    for (number, key) in (known..).zip(keys) {
        let address = prefix.write(key.address());
        let of_this = |account: &&Value| account["address"] == address.as_str();
        if let Some(account) = accounts[..known].iter().find(of_this) {
            bail!("{} has {} already", path.display(), account["address"]);
        }
        accounts.push(json!({
            "@type": "/cosmos.auth.v1beta1.BaseAccount",
            "address": address,
            "pub_key": null,
            "account_number": number.to_string(),
            "sequence": "0",
        }));
        let coin = json!({ "denom": amount.denom, "amount": amount.amount.to_string() });
        balances.push(json!({ "address": address, "coins": [coin] }));
    }
    let added = amount.amount * keys.len() as u128;
    raise(&mut supply, &amount.denom, added).with_context(unusable)?;
    state["auth"]["accounts"] = accounts.into();
    state["bank"]["balances"] = balances.into();
    state["bank"]["supply"] = supply.into();
    let text = serde_json::to_string_pretty(&genesis)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Adds to the supply of a coin.
fn raise(supply: &mut Vec<Value>, denom: &str, added: u128) -> anyhow::Result<()> {
    let Some(coin) = supply.iter_mut().find(|coin| coin["denom"] == denom) else {
        supply.push(json!({ "denom": denom, "amount": added.to_string() }));
        return Ok(());
    };
    let before: u128 = coin["amount"].as_str().unwrap_or_default().parse()?;
    coin["amount"] = (before + added).to_string().into();
    Ok(())
}

/// Signs transactions one after the other.
#[derive(Debug)]
pub(crate) struct CosmosStream {
    pub(crate) content: Arc<CosmosContent>,
    pub(crate) ready: Arc<Ready>,
    pub(crate) signing: Signing,
}

impl TxStream for CosmosStream {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        let sequence = self.ready.sequences.sequence(index);
        sign(
            &self.content,
            &self.ready,
            &mut self.signing,
            (index, sequence),
            out,
        )?;
        Ok(TxName::Sequenced(sequence))
    }
}

/// Appends the transaction with this index and sequence.
pub(crate) fn sign(
    content: &CosmosContent,
    ready: &Ready,
    signing: &mut Signing,
    (index, sequence): (u64, u64),
    out: &mut Vec<u8>,
) -> Result<(), WorkloadError> {
    let account = ready.sequences.account(index);
    let signer = &ready.signers[account];
    let messages = messages(content, ready, index, account)?;
    // A sequence may be used again, by a later transaction that pays the same: they must not be one.
    let memo = index.to_string();
    let draft = Draft {
        memo: &memo,
        unordered_until_ns: ready
            .unordered
            .map(|valid_for| unordered_until(Origin::capture().unix_ns(), valid_for, index)),
        ..Draft::new(&messages, &ready.fee)
    };
    let signer = Signer {
        key: &signer.key,
        account_number: signer.number,
        sequence,
    };
    signing.sign(&ready.chain_id, &draft, &signer, out);
    Ok(())
}

fn messages(
    content: &CosmosContent,
    ready: &Ready,
    index: u64,
    account: usize,
) -> Result<Vec<Message>, WorkloadError> {
    let from = ready.signers[account].key.address();
    let count = content.messages();
    let recipient = |number: u32| match content.recipients() {
        Recipients::Warm => {
            let next = (account + 1 + number as usize) % ready.signers.len();
            ready.signers[next].key.address()
        }
        Recipients::Cold => unused_address(content.seed, index, number),
    };
    let (prefix, coin) = (&ready.prefix, &ready.coin);
    if let Some(template) = &content.template {
        let from = prefix.write(from);
        let filled = (0..count).map(|number| {
            let filling = Filling {
                from: &from,
                to: &prefix.write(recipient(number)),
                index,
            };
            let message = template.message(&filling);
            message.map_err(|error| WorkloadError::Unusable(error.to_string()))
        });
        return filled.collect();
    }
    Ok(match content.payments {
        Payments::Send => (0..count)
            .map(|number| Message::send(prefix, from, recipient(number), coin))
            .collect(),
        Payments::MultiSend => {
            let to: Vec<Address> = (0..count).map(recipient).collect();
            vec![Message::multi_send(prefix, from, &to, coin)]
        }
    })
}

/// An address without a key, which no other transaction pays.
fn unused_address(seed: u64, index: u64, number: u32) -> Address {
    let mut hasher = Sha256::new_with_prefix(b"tidegate cosmos recipient ");
    hasher.update(seed.to_le_bytes());
    hasher.update(index.to_le_bytes());
    hasher.update(number.to_le_bytes());
    let mut address = [0; 20];
    address.copy_from_slice(&hasher.finalize()[..20]);
    Address(address)
}

/// When an unordered transaction that is signed now ends to be valid. No two of an account may end at one instant
/// (ADR-070): the lowest bits, a millisecond, are those of its index.
pub(crate) const fn unordered_until(now_ns: u64, valid_for: Nanos, index: u64) -> u64 {
    let until = now_ns.saturating_add(valid_for.as_nanos());
    until & !INDEX_BITS | index & INDEX_BITS
}

const INDEX_BITS: u64 = (1 << 20) - 1;
