//! `txgen bitcoin`: what the user typed.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use chain_bitcoin::workload::Digest;
use chain_bitcoin::workload::Network;
use clap::{Args, Subcommand};
use rpc::Endpoint;

use super::examples;

/// `txgen bitcoin`
#[derive(Debug, Args)]
#[command(before_long_help = examples::BITCOIN)]
pub struct BitcoinArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: BitcoinCommand,
}

/// The commands of `txgen bitcoin`.
#[derive(Debug, Subcommand)]
pub enum BitcoinCommand {
    /// Print the address that a node has to mine for (btcd's --miningaddr).
    #[command(before_long_help = examples::BITCOIN_ADDRESS)]
    Address(BitcoinAddressArgs),
    /// Make a wallet: have coins mined, or take those of a file, and split them until there are enough.
    #[command(before_long_help = examples::BITCOIN_PREPARE)]
    Prepare(BitcoinPrepareArgs),
    /// Gather the coins of a wallet until it has one.
    #[command(before_long_help = examples::BITCOIN_SWEEP)]
    Sweep(BitcoinSweepArgs),
    /// Make the wallet that a run left again, from the run's folder.
    #[command(before_long_help = examples::BITCOIN_REBUILD)]
    Rebuild(BitcoinRebuildArgs),
}

/// `txgen bitcoin address`
#[derive(Debug, Args)]
pub struct BitcoinAddressArgs {
    /// What the keys are derived from.
    #[arg(long, default_value = "1", value_name = "N")]
    pub wallet_seed: u64,
    /// What signatures cover.
    #[arg(long, value_enum, default_value = "legacy", value_name = "DIGEST")]
    pub digest: Digest,
    /// The network of the address.
    #[arg(long, value_enum, default_value = "regtest", value_name = "NETWORK")]
    pub network: Network,
}

/// `txgen bitcoin prepare`
#[derive(Debug, Args)]
pub struct BitcoinPrepareArgs {
    /// The node: http://user:password@host:port.
    #[arg(long, env = "TXGEN_ENDPOINTS", value_name = "URL")]
    pub endpoints: Endpoint,
    /// The wallet file to write; must not exist.
    #[arg(long, value_name = "FILE")]
    pub wallet: PathBuf,
    /// How many coins; a transaction of 2 inputs spends two of them.
    #[arg(long, value_name = "N")]
    pub utxos: NonZeroU32,
    /// What each coin is worth in satoshi: the fees of a chain, and 1,000 at its end.
    #[arg(long, default_value = "10000", value_name = "SATOSHI")]
    pub value: u64,
    /// What the keys are derived from.
    #[arg(long, default_value = "1", value_name = "N")]
    pub wallet_seed: u64,
    /// What signatures cover: legacy (Bitcoin) or forkid (Bitcoin Cash).
    #[arg(long, value_enum, default_value = "legacy", value_name = "DIGEST")]
    pub digest: Digest,
    /// Coins to split in place of mined ones, as lines `txid:output,satoshi,key,confirmed`.
    #[arg(long, value_name = "FILE")]
    pub coins: Option<PathBuf>,
    /// Fee in satoshi for each byte.
    #[arg(long, default_value = "2", value_name = "SATOSHI")]
    pub fee_rate: NonZeroU64,
}

/// `txgen bitcoin sweep`
#[derive(Debug, Args)]
pub struct BitcoinSweepArgs {
    /// The node: http://user:password@host:port.
    #[arg(long, env = "TXGEN_ENDPOINTS", value_name = "URL")]
    pub endpoints: Endpoint,
    /// The wallet file; it is written again.
    #[arg(long, value_name = "FILE")]
    pub wallet: PathBuf,
    /// Fee in satoshi for each byte.
    #[arg(long, default_value = "2", value_name = "SATOSHI")]
    pub fee_rate: NonZeroU64,
}

/// `txgen bitcoin rebuild`
#[derive(Debug, Args)]
pub struct BitcoinRebuildArgs {
    /// The run's folder.
    pub run: PathBuf,
    /// The wallet file to write; must not exist.
    #[arg(long, value_name = "FILE")]
    pub wallet: PathBuf,
}
