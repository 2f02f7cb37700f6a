//! The flags of Bitcoin's loads, and `[settings.bitcoin]` of a scenario file.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use chain_bitcoin::workload::{Digest, Shape};
use clap::{Args, ValueEnum};
use pacing::Nanos;
use serde::Deserialize;

use super::{Share, text};

/// Every field is optional, as in [`Settings`](super::Settings).
#[derive(Debug, Default, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Options of Bitcoin loads")]
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
    #[serde(deserialize_with = "text::option")]
    pub shape: Option<Shape>,

    /// Share of transactions that spend what another one spends: the node takes one of both
    /// [default: none].
    #[arg(long, value_name = "SHARE")]
    #[serde(deserialize_with = "text::option")]
    pub conflict_ratio: Option<Share>,

    /// Share of transactions that spend an output of no transaction [default: none].
    #[arg(long, value_name = "SHARE")]
    #[serde(deserialize_with = "text::option")]
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
    /// they are asked to (btcd on its test networks) [default: never].
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub mine_every: Option<Nanos>,

    /// How the built-in node admits transactions: one at a time under one lock, or on several threads
    /// [default: serial].
    #[arg(long, value_enum, value_name = "HOW")]
    pub admission: Option<Admission>,

    /// Threads of the built-in node that check transactions with --admission parallel
    /// [default: one per core].
    #[arg(long, value_name = "N")]
    pub validators: Option<NonZeroU32>,
}

/// How the built-in node admits transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// One after the other.
    Serial,
    /// On several threads.
    Parallel,
}

impl From<Admission> for devnode::AdmissionMode {
    fn from(admission: Admission) -> Self {
        match admission {
            Admission::Serial => Self::Serial,
            Admission::Parallel => Self::Parallel,
        }
    }
}

impl BitcoinSettings {
    /// These settings where they are given, `base` elsewhere.
    pub(super) fn over(self, base: Self) -> Self {
        over! {
            self, base;
            settings: ;
            options:
                wallet wallet_seed shape conflict_ratio orphan_ratio fee_rate digest batch confirmations
                mine_every admission validators;
            lists: ;
            flags: ;
        }
    }

    /// The first of these flags that is given, for a load of something else.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--wallet", self.wallet.is_some()),
            ("--wallet-seed", self.wallet_seed.is_some()),
            ("--shape", self.shape.is_some()),
            ("--conflict-ratio", self.conflict_ratio.is_some()),
            ("--orphan-ratio", self.orphan_ratio.is_some()),
            ("--fee-rate", self.fee_rate.is_some()),
            ("--digest", self.digest.is_some()),
            ("--mine-every", self.mine_every.is_some()),
        ];
        given
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }
}
