//! What people type: the flags of Bitcoin's loads, which are `[settings.bitcoin]` of a scenario file too, and
//! `txgen bitcoin`, a wallet and its address.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use chain::{Admission, ChainError, Settings, Share};
use clap::{ArgMatches, Args, FromArgMatches as _, Parser, Subcommand};
use report::text::grouped;
use rpc::{Endpoint, Trust};
use serde::{Deserialize, Serialize};

use crate::supply::{CoinError, Node, Order, mine, split};
use crate::workload::{
    Digest, Keys, LEAST_OUTPUT, Mining, Network, Shape, Spend, Wallet, read_coin,
};

/// `txgen bitcoin`
#[derive(Debug, Parser)]
#[command(name = "bitcoin", about = "Print the address of a wallet of Bitcoin coins, or prepare one", before_long_help = examples("bitcoin"))]
pub(crate) struct BitcoinArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: BitcoinCommand,
}

/// The commands of `txgen bitcoin`.
#[derive(Debug, Subcommand)]
pub(crate) enum BitcoinCommand {
    /// Print the address that a node has to mine for (btcd's --miningaddr).
    #[command(before_long_help = examples("address"))]
    Address(BitcoinAddressArgs),
    /// Make a wallet: have coins mined, or take those of a file, and split them until there are enough.
    #[command(before_long_help = examples("prepare"))]
    Prepare(BitcoinPrepareArgs),
}

/// `txgen bitcoin address`
#[derive(Debug, Args)]
pub(crate) struct BitcoinAddressArgs {
    /// What the keys are derived from.
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) wallet_seed: u64,
    /// What signatures cover.
    #[arg(long, value_enum, default_value = "legacy", value_name = "DIGEST")]
    pub(crate) digest: Digest,
    /// The network of the address.
    #[arg(long, value_enum, default_value = "regtest", value_name = "NETWORK")]
    pub(crate) network: Network,
}

/// `txgen bitcoin prepare`
#[derive(Debug, Args)]
pub(crate) struct BitcoinPrepareArgs {
    /// The node: http://user:password@host:port.
    #[arg(long, env = "TXGEN_ENDPOINTS", value_name = "URL")]
    pub(crate) endpoints: Endpoint,
    /// The wallet file to write; must not exist.
    #[arg(long, value_name = "FILE")]
    pub(crate) wallet: PathBuf,
    /// How many coins; a transaction of 2 inputs spends two of them.
    #[arg(long, value_name = "N")]
    pub(crate) utxos: NonZeroU32,
    /// What each coin is worth in satoshi: the fees of a chain, and 1,000 at its end.
    #[arg(long, default_value = "10000", value_name = "SATOSHI")]
    pub(crate) value: u64,
    /// What the keys are derived from.
    #[arg(long, default_value = "1", value_name = "N")]
    pub(crate) wallet_seed: u64,
    /// What signatures cover: legacy (Bitcoin) or forkid (Bitcoin Cash).
    #[arg(long, value_enum, default_value = "legacy", value_name = "DIGEST")]
    pub(crate) digest: Digest,
    /// Coins to split in place of mined ones, as lines `txid:output,satoshi,key,confirmed`.
    #[arg(long, value_name = "FILE")]
    pub(crate) coins: Option<PathBuf>,
    /// Fee in satoshi for each byte.
    #[arg(long, default_value = "2", value_name = "SATOSHI")]
    pub(crate) fee_rate: NonZeroU64,
}

/// Runs the command; returns the text to print.
pub(crate) fn execute(
    matches: &ArgMatches,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<String, ChainError> {
    let args = BitcoinArgs::from_arg_matches(matches);
    let args = args.map_err(|error| ChainError::Unusable(error.into()))?;
    match args.command {
        BitcoinCommand::Address(args) => {
            let keys = Keys::new(args.wallet_seed, args.digest);
            let address = keys.address(args.network.version());
            Ok(format!("{address}\n"))
        }
        BitcoinCommand::Prepare(args) => prepare(&args, is_cancelled),
    }
}

/// Nothing is overwritten: the coins of a lost wallet file would have to be found on the chain.
fn refuse_existing(path: &Path) -> Result<(), ChainError> {
    if path.exists() {
        Err(ChainError::Unusable(anyhow!(
            "the wallet {} exists already; choose another --wallet, or sweep it and remove it",
            path.display()
        )))
    } else {
        Ok(())
    }
}

fn prepare(
    args: &BitcoinPrepareArgs,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<String, ChainError> {
    refuse_existing(&args.wallet)?;
    let node = Node::connect(&args.endpoints, &Trust::native())?;
    let keys = Keys::new(args.wallet_seed, args.digest);
    let order = Order {
        coins: args.utxos.get() as usize,
        value: args.value.max(LEAST_OUTPUT),
        fee_rate: args.fee_rate.get(),
    };
    let wallet = match &args.coins {
        None => mine(&node, &keys, args.wallet_seed, &order, is_cancelled),
        Some(path) => {
            let sources = read_coins(path).map_err(ChainError::Unusable)?;
            split(
                &node,
                &keys,
                args.wallet_seed,
                &order,
                &sources,
                is_cancelled,
            )
        }
    };
    let wallet = wallet?;
    wallet.write(&args.wallet).map_err(CoinError::from)?;
    Ok(told(&wallet, &args.wallet))
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

fn told(wallet: &Wallet, path: &Path) -> String {
    let confirmed = wallet.spendable().count() as u64;
    format!(
        "{} confirmed coins, {} satoshi in all, in {}\n",
        grouped(confirmed),
        grouped(wallet.value()),
        path.display()
    )
}

/// The head of a command's help.
fn examples(command: &str) -> &'static str {
    ops::command::examples(include_str!("examples.txt"), command)
}

/// The settings, by their table's name.
pub(crate) static SETTINGS: Settings<BitcoinSettings> =
    Settings::named("bitcoin").of_target(&["batch", "confirmations", "admission", "validators"]);

/// What only Bitcoin's loads and nodes have.
#[derive(Debug, Default, Clone, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Bitcoin (--workload bitcoin)")]
pub struct BitcoinSettings {
    /// The wallet file whose coins are spent, as `txgen bitcoin prepare` writes it; the run writes it
    /// again. Without one the coins are mined and split before the load, which needs a node that
    /// generates blocks for the wallet's address (the built-in one does).
    #[arg(long, value_name = "FILE")]
    pub wallet: Option<PathBuf>,

    /// What the keys of a wallet without a file are derived from [default: 1].
    #[arg(long, value_name = "N")]
    pub wallet_seed: Option<u64>,

    /// Inputs and outputs of each transaction: 2in2out, 1in1out or fan:N (one input, N outputs)
    /// [default: 2in2out].
    #[arg(long, value_name = "SHAPE")]
    #[serde(with = "chain::text")]
    pub shape: Option<Shape>,

    /// Share of transactions that spend an output of no transaction [default: none].
    #[arg(long, value_name = "SHARE")]
    #[serde(with = "chain::text")]
    pub orphan_ratio: Option<Share>,

    /// Fee in satoshi for each byte [default: 2].
    #[arg(long, value_name = "SATOSHI")]
    pub fee_rate: Option<NonZeroU64>,

    /// What signatures cover: legacy (Bitcoin) or forkid (Bitcoin Cash) [default: legacy].
    #[arg(long, value_enum, value_name = "DIGEST")]
    pub digest: Option<Digest>,

    /// Transactions in one JSON-RPC request at most: what is due when a connection has room goes
    /// together, and nothing waits for company [default: 1].
    #[arg(long, value_name = "N")]
    pub batch: Option<NonZeroU32>,

    /// Blocks that a transaction has to have, its own included, to count as committed. Until then a
    /// reorganisation may take it back [default: 1].
    #[arg(long, value_name = "N")]
    pub confirmations: Option<NonZeroU32>,

    /// Have the first node mine a block this often while the load goes on, for nodes that mine only when
    /// they are asked to (btcd on its test networks); poisson:5s for blocks at random with that mean, each by the
    /// first node or an observed one [default: never].
    #[arg(long, value_name = "DURATION")]
    #[serde(with = "chain::text")]
    pub mine_every: Option<Mining>,

    /// How the built-in node admits transactions: one at a time under one lock, or on several threads
    /// [default: serial].
    #[arg(long, value_enum, value_name = "HOW")]
    pub admission: Option<Admission>,

    /// Threads of the built-in node that check transactions with --admission parallel
    /// [default: one per core].
    #[arg(long, value_name = "N")]
    pub validators: Option<NonZeroU32>,
}
