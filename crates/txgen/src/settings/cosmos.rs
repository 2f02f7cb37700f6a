//! What only loads on Cosmos SDK chains need: flags, and the table `[settings.cosmos]` of a scenario.

use std::num::NonZeroU32;
use std::path::PathBuf;

use chain::OnGap;
use chain_cosmos::{Gas, Recipients};
use clap::Args;
use cosmos::{Coin, GasPrice};
use pacing::Nanos;
use serde::Deserialize;

use super::text;

/// Which accounts, and what their chain wants: of a load, and of `txgen cosmos`.
#[derive(Debug, Default, Clone, PartialEq, Args, Deserialize)]
#[serde(default)]
pub struct AccountSettings {
    /// How many accounts. They sign in turn; the transactions of one stay on one connection, in order
    /// [default: 200].
    #[arg(long, value_name = "N")]
    pub accounts: Option<NonZeroU32>,

    /// The wallet of the accounts: 12 to 24 words of BIP-39. Without it the accounts follow from --seed
    /// alone: for test chains only.
    #[arg(
        long,
        value_name = "WORDS",
        env = "TXGEN_MNEMONIC",
        hide_env_values = true
    )]
    pub mnemonic: Option<String>,

    /// The derivation path of the wallet's accounts, without their number [default: m/44'/118'/0'/0].
    #[arg(long, value_name = "PATH")]
    pub hd_path: Option<String>,

    /// What the chain's addresses begin with [default: asked from the node; in a genesis file cosmos].
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,

    /// The price of gas, for instance 0.025uatom [default: the least that the node takes].
    #[arg(long, value_name = "PRICE")]
    #[serde(deserialize_with = "text::option")]
    pub gas_price: Option<GasPrice>,

    /// The number that the accounts follow from, where the runs of one command have seeds of their own.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) seed: Option<u64>,
}

impl AccountSettings {
    /// How many accounts there are.
    pub(crate) const fn count(&self) -> NonZeroU32 {
        match self.accounts {
            Some(accounts) => accounts,
            None => DEFAULT_ACCOUNTS,
        }
    }

    fn over(self, base: Self) -> Self {
        Self {
            accounts: self.accounts.or(base.accounts),
            mnemonic: self.mnemonic.or(base.mnemonic),
            hd_path: self.hd_path.or(base.hd_path),
            prefix: self.prefix.or(base.prefix),
            gas_price: self.gas_price.or(base.gas_price),
            seed: self.seed.or(base.seed),
        }
    }
}

/// Every field is optional, as in [`Settings`](super::Settings).
#[derive(Debug, Default, Clone, PartialEq, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(
    next_help_heading = "Loads on Cosmos SDK chains (--workload cosmos-send, cosmos-multisend)"
)]
pub struct CosmosSettings {
    /// Which accounts.
    #[command(flatten)]
    #[serde(flatten)]
    pub of: AccountSettings,

    /// Transfers in a transaction: so many MsgSend, or so many outputs of a MsgMultiSend [default: 1].
    #[arg(long, value_name = "N")]
    pub messages: Option<NonZeroU32>,

    /// Send messages of this description in place of transfers, of any type: protobuf's JSON with the fields'
    /// names, or with their numbers (docs/cosmos.md).
    #[arg(long, value_name = "FILE")]
    pub message: Option<PathBuf>,

    /// The types of --message: a FileDescriptorSet, as `buf build -o FILE` makes one. Common messages of the
    /// SDK, of IBC's transfers and of CosmWasm are known without it.
    #[arg(long, value_name = "FILE", requires = "message")]
    pub proto_descriptors: Option<PathBuf>,

    /// Who is paid: warm (the run's other accounts) or cold (a new address each time, so that the chain's
    /// state grows) [default: warm].
    #[arg(long, value_enum, value_name = "warm|cold")]
    pub recipients: Option<Recipients>,

    /// What each transfer pays [default: 1 of the coin that is staked].
    #[arg(long, value_name = "COIN")]
    #[serde(deserialize_with = "text::option")]
    pub amount: Option<Coin>,

    /// Most gas of a transaction; auto is what a simulation of the first one uses, and half as much again
    /// [default: auto].
    #[arg(long, value_name = "N|auto")]
    #[serde(deserialize_with = "text::option")]
    pub gas: Option<Gas>,

    /// The fee of a transaction, whatever its gas [default: its gas times --gas-price].
    #[arg(long, value_name = "COIN", conflicts_with = "gas_price")]
    #[serde(deserialize_with = "text::option")]
    pub fee: Option<Coin>,

    /// The chain that the node has to be on [default: whichever it is].
    #[arg(long, value_name = "ID")]
    pub chain_id: Option<String>,

    /// What becomes of an account whose transaction was not taken, which makes its later ones impossible:
    /// resync (they take the sequence that the chain expects), stop (the run ends) or abandon (they are not
    /// sent) [default: resync].
    #[arg(long, value_enum, value_name = "resync|stop|abandon")]
    pub on_gap: Option<OnGap>,

    /// Send transactions without sequences, valid for so long (SDK 0.53 and later, where the chain allows
    /// it).
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "text::option")]
    pub unordered: Option<Nanos>,
}

impl CosmosSettings {
    /// The settings that somebody gave for this command: the mnemonic may stand in the environment for
    /// others, and the accounts' seed follows from the command.
    pub(crate) fn without_environment(self) -> Self {
        let of = AccountSettings {
            mnemonic: None,
            seed: None,
            ..self.of
        };
        Self { of, ..self }
    }

    /// These settings where they are given, `base` elsewhere.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            of: self.of.over(base.of),
            messages: self.messages.or(base.messages),
            message: self.message.or(base.message),
            proto_descriptors: self.proto_descriptors.or(base.proto_descriptors),
            recipients: self.recipients.or(base.recipients),
            amount: self.amount.or(base.amount),
            gas: self.gas.or(base.gas),
            fee: self.fee.or(base.fee),
            chain_id: self.chain_id.or(base.chain_id),
            on_gap: self.on_gap.or(base.on_gap),
            unordered: self.unordered.or(base.unordered),
        }
    }
}

const DEFAULT_ACCOUNTS: NonZeroU32 = NonZeroU32::new(200).expect("not zero");
