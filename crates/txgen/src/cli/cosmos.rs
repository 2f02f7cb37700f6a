//! `txgen cosmos`: the accounts of a load on a Cosmos SDK chain.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cosmos::Coin;
use rpc::Endpoint;

use super::examples;
use crate::settings::AccountSettings;

/// `txgen cosmos`
#[derive(Debug, Args)]
pub struct CosmosArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: CosmosCommand,
}

/// The commands of `txgen cosmos`.
#[derive(Debug, Subcommand)]
pub enum CosmosCommand {
    /// Fund the accounts: in a genesis file, or from one key in transfers of 100 accounts each.
    #[command(before_long_help = examples::COSMOS_PREPARE)]
    Prepare(PrepareArgs),
    /// Send what the accounts still have to one address.
    #[command(before_long_help = examples::COSMOS_SWEEP)]
    Sweep(SweepArgs),
}

/// Which accounts; as for `--workload cosmos-send`.
#[derive(Debug, Args)]
pub struct WalletArgs {
    /// The accounts follow from this number alone: for test chains only.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Which of them.
    #[command(flatten)]
    pub of: AccountSettings,
}

/// `txgen cosmos prepare`
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Which accounts.
    #[command(flatten)]
    pub wallet: WalletArgs,
    /// What each account gets, for instance 1000000stake.
    #[arg(long, value_name = "COIN")]
    pub amount: Coin,
    /// Write the accounts into this genesis file of a chain that has not begun.
    #[arg(long, value_name = "PATH", conflicts_with = "endpoints")]
    pub genesis: Option<PathBuf>,
    /// The node whose chain is used.
    #[arg(long, value_name = "URL", required_unless_present = "genesis")]
    pub endpoints: Option<Endpoint>,
    /// The words of the wallet whose first account pays; better in the environment than on the command
    /// line.
    #[arg(
        long,
        value_name = "WORDS",
        env = "TXGEN_FUNDER",
        hide_env_values = true
    )]
    pub funder: Option<String>,
}

/// `txgen cosmos sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Which accounts.
    #[command(flatten)]
    pub wallet: WalletArgs,
    /// Who gets it.
    #[arg(long, value_name = "ADDRESS")]
    pub to: String,
    /// The node whose chain is used.
    #[arg(long, value_name = "URL")]
    pub endpoints: Endpoint,
    /// The coin that is sent back [default: the one that is staked].
    #[arg(long, value_name = "DENOM")]
    pub denom: Option<String>,
}
