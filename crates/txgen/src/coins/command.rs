//! `txgen bitcoin`: a wallet prepared, gathered, made again.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use bitcoin::Transaction;
use chain_bitcoin::workload::BitcoinWorkload;
use chain_bitcoin::workload::{
    Coin, CoinState, Keys, LEAST_OUTPUT, Settler, Spend, Wallet, read_coin, size,
};
use ops::command::{CommandError, failed, usage};
use rpc::{Endpoint, Trust};

use super::client::Node;
use super::fund::{self, Order};
use super::{CoinError, WALLET, account, describe};
use crate::cli::{BitcoinCommand, BitcoinPrepareArgs, BitcoinRebuildArgs, BitcoinSweepArgs};
use crate::exit;
use crate::folder::RecordedRun;
use crate::output::{grouped, print};
use crate::shutdown::Shutdown;

/// Does what the command line says.
pub(crate) fn execute(command: BitcoinCommand) -> Result<u8, CommandError> {
    match command {
        BitcoinCommand::Address(args) => {
            let keys = Keys::new(args.wallet_seed, args.digest);
            let address = keys.address(args.network.version());
            Ok(print(&format!("{address}\n")))
        }
        BitcoinCommand::Prepare(args) => prepare(&args),
        BitcoinCommand::Sweep(args) => sweep(&args),
        BitcoinCommand::Rebuild(args) => rebuild(&args),
    }
}

fn connect(endpoint: &Endpoint) -> Result<Node, CommandError> {
    Node::connect(endpoint, &Trust::native()).map_err(coin_error)
}

fn coin_error(error: CoinError) -> CommandError {
    match error {
        CoinError::Interrupted => CommandError {
            code: exit::INTERRUPTED,
            source: error.into(),
        },
        CoinError::Wallet(_) | CoinError::Unfit(_) | CoinError::NoMiner(_) => usage(error),
        error => failed(error),
    }
}

/// Nothing is overwritten: the coins of a lost wallet file would have to be found on the chain.
fn refuse_existing(path: &Path) -> Result<(), CommandError> {
    match path.exists() {
        true => Err(usage(anyhow!(
            "the wallet {} exists already; choose another --wallet, or sweep it and remove it",
            path.display()
        ))),
        false => Ok(()),
    }
}

fn prepare(args: &BitcoinPrepareArgs) -> Result<u8, CommandError> {
    refuse_existing(&args.wallet)?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let node = connect(&args.endpoints)?;
    let keys = Keys::new(args.wallet_seed, args.digest);
    let order = Order {
        coins: args.utxos.get() as usize,
        value: args.value.max(LEAST_OUTPUT),
        fee_rate: args.fee_rate.get(),
    };
    let wallet = match &args.coins {
        None => fund::mine(&node, &keys, args.wallet_seed, &order, &shutdown),
        Some(path) => {
            let sources = read_coins(path).map_err(usage)?;
            fund::split(&node, &keys, args.wallet_seed, &order, &sources, &shutdown)
        }
    };
    let wallet = wallet.map_err(coin_error)?;
    wallet
        .write(&args.wallet)
        .map_err(|error| coin_error(error.into()))?;
    Ok(tell(&wallet, &args.wallet))
}

/// Lines as a wallet has them; others begin with `#` or name the columns.
fn read_coins(path: &Path) -> anyhow::Result<Vec<Spend>> {
    let text = fs::read_to_string(path)
        .with_context(|| format!("the coin file {} cannot be read", path.display()))?;
    let lines = text.lines().filter(|line| {
        !line.trim().is_empty() && !line.starts_with('#') && !line.starts_with("outpoint,")
    });
    let coin = |line: &str| {
        read_coin(line).map(|coin| coin.spend).ok_or_else(|| {
            anyhow!(
                "{} has the line {line:?}; write txid:output,satoshi,key,confirmed, with the key's number (0 for the address that `txgen bitcoin address` prints)",
                path.display()
            )
        })
    };
    lines.map(coin).collect()
}

fn sweep(args: &BitcoinSweepArgs) -> Result<u8, CommandError> {
    let _lock = Wallet::lock(&args.wallet).map_err(|error| coin_error(error.into()))?;
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let node = connect(&args.endpoints)?;
    let mut wallet = Wallet::read(&args.wallet).map_err(|error| coin_error(error.into()))?;
    node.check(&args.wallet, &wallet).map_err(coin_error)?;
    let keys = Keys::new(wallet.info.seed, wallet.info.digest);
    loop {
        let coins: Vec<Spend> = wallet.spendable().collect();
        let spend = |group: &[Spend]| {
            let fee = args.fee_rate.get() * size(group.len(), 1) as u64;
            let rest = fund::value(group).checked_sub(fee)?;
            (rest >= LEAST_OUTPUT).then(|| keys.pay(group, &[(0, rest)]))
        };
        let groups = coins.chunks(GATHERED).filter(|group| group.len() > 1);
        let txs: Vec<Transaction> = groups.filter_map(spend).collect();
        if txs.is_empty() {
            return Ok(tell(&wallet, &args.wallet));
        }
        let done = node
            .send(&txs, "gathers")
            .and_then(|()| node.confirm(&txs, &shutdown));
        done.map_err(coin_error)?;
        replace(&mut wallet, &txs, &keys);
        wallet
            .write(&args.wallet)
            .map_err(|error| coin_error(error.into()))?;
    }
}

/// Takes what transactions spent out of a wallet, and puts in what they made.
fn replace(wallet: &mut Wallet, txs: &[Transaction], keys: &Keys) {
    let inputs = txs.iter().flat_map(|tx| &tx.input);
    let spent: HashSet<_> = inputs.map(|input| input.previous_output).collect();
    wallet
        .coins
        .retain(|coin| !spent.contains(&coin.spend.outpoint));
    let made = txs.iter().flat_map(|tx| fund::outputs(tx, keys));
    wallet.coins.extend(made.map(|spend| Coin {
        spend,
        state: CoinState::Confirmed,
    }));
}

fn rebuild(args: &BitcoinRebuildArgs) -> Result<u8, CommandError> {
    refuse_existing(&args.wallet)?;
    let run = RecordedRun::open(&args.run).map_err(usage)?;
    let before = Wallet::read(&args.run.join(WALLET)).map_err(|error| coin_error(error.into()))?;
    let manifest = run.manifest();
    let document = manifest
        .plan
        .other
        .get("bitcoin")
        .unwrap_or(&serde_json::Value::Null);
    let workload = BitcoinWorkload::of_document(document, manifest.seed, before);
    let workload = workload.map_err(usage)?;
    let settler = Settler::of_all(&workload).context("the workload has no wallet");
    let settlement = account(settler.map_err(failed)?, &args.run).map_err(coin_error)?;
    if !settlement.broken.is_empty() {
        return Err(failed(CoinError::not_conserved(&settlement.broken)));
    }
    settlement
        .wallet
        .write(&args.wallet)
        .map_err(|error| coin_error(error.into()))?;
    let mut text = describe(&settlement);
    text.push_str(&told(&settlement.wallet, &args.wallet));
    Ok(print(&text))
}

fn tell(wallet: &Wallet, path: &Path) -> u8 {
    print(&told(wallet, path))
}

fn told(wallet: &Wallet, path: &Path) -> String {
    let confirmed = wallet.spendable().count() as u64;
    format!(
        "{} confirmed coins, {} satoshi in all, in {}\n",
        grouped(confirmed),
        grouped(wallet.value()),
        path.display()
    )
}

/// Coins that one transaction gathers: 74 kB, of the 100 kB that are standard.
const GATHERED: usize = 500;
