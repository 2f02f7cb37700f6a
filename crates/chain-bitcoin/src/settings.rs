//! The flags of Bitcoin's loads, and `[settings.bitcoin]` of a scenario file.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use chain::{Admission, Settings, Share};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::workload::{Digest, Mining, Shape};

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
