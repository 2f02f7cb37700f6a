//! What only loads on Cosmos SDK chains need: flags, and the table `[settings.cosmos]` of a scenario; and what these
//! make of a run's transactions before the chain is known.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

use chain::{OnGap, Settings};
use clap::{Args, ValueEnum};
use cosmos::{Coin, GasPrice, Keys, Prefix, Template};
use pacing::Nanos;
use serde::{Deserialize, Serialize};

/// The settings, by their table's name.
pub(crate) static SETTINGS: Settings<CosmosSettings> =
    Settings::named("cosmos").ambient(&["mnemonic"]);

/// Which accounts, and what their chain wants: of a load, and of `txgen cosmos`.
#[derive(Debug, Default, Clone, PartialEq, Args, Serialize, Deserialize)]
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
    #[serde(with = "chain::text")]
    pub gas_price: Option<GasPrice>,
}

impl AccountSettings {
    /// How many accounts there are.
    pub(crate) const fn count(&self) -> NonZeroU32 {
        match self.accounts {
            Some(accounts) => accounts,
            None => DEFAULT_ACCOUNTS,
        }
    }
}

/// What only loads on Cosmos SDK chains have.
#[derive(Debug, Default, Clone, PartialEq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Cosmos SDK (--workload cosmos-send, cosmos-multisend)")]
pub struct CosmosSettings {
    /// Which accounts.
    #[command(flatten)]
    #[serde(flatten)]
    pub of: AccountSettings,

    /// Transfers in a transaction: so many MsgSend, or so many outputs of a MsgMultiSend [default: 1].
    #[arg(long, value_name = "N")]
    pub messages: Option<NonZeroU32>,

    /// Send messages of this description in place of transfers, of any type: protobuf's JSON (docs/cosmos.md).
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
    #[serde(with = "chain::text")]
    pub amount: Option<Coin>,

    /// Most gas of a transaction; auto is what a simulation of the first one uses, and half as much again
    /// [default: auto].
    #[arg(long, value_name = "N|auto")]
    #[serde(with = "chain::text")]
    pub gas: Option<Gas>,

    /// The fee of a transaction, whatever its gas [default: its gas times --gas-price].
    #[arg(long, value_name = "COIN", conflicts_with = "gas_price")]
    #[serde(with = "chain::text")]
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
    #[serde(with = "chain::text")]
    pub unordered: Option<Nanos>,
}

const DEFAULT_ACCOUNTS: NonZeroU32 = NonZeroU32::new(200).expect("not zero");

/// What a run sends to a Cosmos SDK chain.
#[derive(Debug, Clone)]
pub struct CosmosContent {
    /// The run's seed.
    pub seed: u64,
    /// Whose accounts sign.
    pub wallet: Wallet,
    /// The kind of transfer.
    pub payments: Payments,
    /// What is sent in place of transfers.
    pub template: Option<Template>,
    /// What addresses begin with; asked from the chain when `None`.
    pub prefix: Option<Prefix>,
    /// The other settings.
    pub given: CosmosSettings,
}

impl CosmosContent {
    /// How many accounts sign, in turn.
    pub(crate) const fn accounts(&self) -> NonZeroU32 {
        self.given.of.count()
    }

    /// Transfers in a transaction.
    pub(crate) fn messages(&self) -> u32 {
        self.given.messages.map_or(1, NonZeroU32::get)
    }

    /// Who is paid.
    pub(crate) fn recipients(&self) -> Recipients {
        self.given.recipients.unwrap_or_default()
    }
}

/// Where the accounts' keys come from.
#[derive(Debug, Clone)]
pub struct Wallet {
    /// The keys, by number.
    pub keys: Keys,
    /// In words, without a secret.
    pub name: String,
}

base::named! {
    /// The kind of transfer.
    pub enum Payments {
        /// `MsgSend`, one for each transfer.
        Send => "cosmos-send",
        /// One `MsgMultiSend`.
        MultiSend => "cosmos-multisend",
    }
}

/// Who is paid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipients {
    /// The run's other accounts: the chain reads and writes the same few entries again and again.
    #[default]
    Warm,
    /// A new address each time: every transfer makes an account, and the chain's state grows.
    Cold,
}

/// Most gas of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gas {
    /// What a simulation of the first transaction used, and half as much again.
    #[default]
    Auto,
    /// This much.
    Fixed(u64),
}

impl fmt::Display for Gas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(gas) => gas.fmt(f),
        }
    }
}

impl std::str::FromStr for Gas {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("auto", _) => Ok(Self::Auto),
            (_, Ok(gas @ 1..)) => Ok(Self::Fixed(gas)),
            _ => Err(format!(
                "cannot read the gas {text:?}; write a number from 1, or auto"
            )),
        }
    }
}

impl fmt::Display for CosmosContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.template {
            None => f.write_str(self.payments.name())?,
            Some(template) => f.write_str(template.type_url())?,
        }
        if self.messages() > 1 {
            write!(f, ", {} in a transaction", self.messages())?;
        }
        let recipients = match self.recipients() {
            Recipients::Warm => "warm (each other)",
            Recipients::Cold => "cold (a new address each time)",
        };
        let (accounts, wallet) = (self.accounts(), &self.wallet.name);
        write!(
            f,
            ", {accounts} accounts of {wallet}, recipients {recipients}"
        )?;
        if self.given.unordered.is_some() {
            f.write_str(", unordered")?;
        }
        Ok(())
    }
}
