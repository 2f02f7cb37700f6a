//! `txgen tm-bench`: the flags of Tendermint's old benchmark.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pacing::Size;
use rpc::BroadcastMethod;

/// `txgen tm-bench`
#[derive(Debug, Args)]
pub struct TmBenchArgs {
    /// The nodes as host:port, comma-separated; they are spoken to over WebSocket. Without any a
    /// built-in node is started.
    #[arg(value_name = "ENDPOINTS")]
    pub endpoints: Vec<String>,
    /// Connections per endpoint.
    #[arg(short = 'c', default_value = "1", value_name = "N")]
    pub connections: NonZeroU32,
    /// How long to send, in seconds.
    #[arg(short = 'T', default_value = "10", value_name = "SECONDS")]
    pub duration: NonZeroU32,
    /// Transactions a second on each connection.
    #[arg(short = 'r', default_value = "1000", value_name = "N")]
    pub rate: NonZeroU32,
    /// Size of a transaction: bytes, or with a unit such as 4kB.
    #[arg(short = 's', default_value = "250", value_name = "SIZE")]
    pub size: Size,
    /// Which broadcast call carries a transaction.
    #[arg(long, default_value = "async", value_name = "async|sync|commit")]
    pub broadcast_tx_method: BroadcastMethod,
    /// How the table is printed.
    #[arg(long, value_enum, default_value = "plain")]
    pub output_format: TmBenchFormat,
    /// Beside the true figures, those of the newest N blocks alone: with 21 what tm-bench printed
    /// until June 2018.
    #[arg(long, value_name = "N")]
    pub window: Option<NonZeroU32>,
    /// Show the run's progress and its own table too.
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Makes the transactions repeatable.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The run folder; must not exist or be empty [default: runs/UTC-constant].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// How tm-bench prints its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TmBenchFormat {
    /// Aligned columns.
    Plain,
    /// One line of JSON.
    Json,
}
