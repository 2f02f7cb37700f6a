//! What the transactions of a run contain, before the chain is known.

use std::fmt;
use std::num::NonZeroU32;

use clap::ValueEnum;
use cosmos::{Coin, GasPrice, Keys, Prefix, Template};
use pacing::Nanos;
use serde::{Deserialize, Serialize};

use chain::OnGap;

/// What a run sends to a Cosmos SDK chain.
#[derive(Debug, Clone)]
pub struct CosmosContent {
    /// The run's seed.
    pub seed: u64,
    /// Whose accounts sign.
    pub wallet: Wallet,
    /// How many accounts sign, in turn.
    pub accounts: NonZeroU32,
    /// The kind of transfer.
    pub payments: Payments,
    /// Transfers in a transaction.
    pub messages: NonZeroU32,
    /// What is sent in place of transfers.
    pub template: Option<Template>,
    /// Who is paid.
    pub recipients: Recipients,
    /// What each transfer pays; one of the staked denomination when `None`.
    pub amount: Option<Coin>,
    /// Most gas of a transaction.
    pub gas: Gas,
    /// The price of gas; the node's least one when `None`.
    pub gas_price: Option<GasPrice>,
    /// The fee of a transaction; price times gas when `None`.
    pub fee: Option<Coin>,
    /// What addresses begin with; asked from the chain when `None`.
    pub prefix: Option<Prefix>,
    /// The chain that must be found.
    pub chain_id: Option<String>,
    /// What becomes of an account whose transaction was not taken.
    pub on_gap: OnGap,
    /// How long a transaction without a sequence is valid; with sequences when `None`.
    pub unordered: Option<Nanos>,
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
        if self.messages.get() > 1 {
            write!(f, ", {} in a transaction", self.messages)?;
        }
        let recipients = match self.recipients {
            Recipients::Warm => "warm (each other)",
            Recipients::Cold => "cold (a new address each time)",
        };
        let (accounts, wallet) = (self.accounts, &self.wallet.name);
        write!(
            f,
            ", {accounts} accounts of {wallet}, recipients {recipients}"
        )?;
        if self.unordered.is_some() {
            f.write_str(", unordered")?;
        }
        Ok(())
    }
}
