//! Transfers on a Cosmos SDK chain, signed ahead: transaction i is a pure function of the seed, i and
//! what the chain knew of the accounts at the start.
//!
//! Transaction i is signed by account i mod N, so an account's transactions are N apart, and its
//! sequences follow each other in the order of the schedule. [`Sequences`] counts where they do not.

mod client;
mod command;
#[cfg(feature = "fixture")]
pub mod fixture;
mod learn;
mod resolve;
mod settings;

use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use chain::{
    Asking, Chain, ChainError, Learning, Sequences, SettingsTable, TxStream, Wanted, Workload,
    WorkloadError,
};
use chain_cometbft::Client;
use clap::CommandFactory as _;
pub use client::{ChainClient, QueryError};
use cosmos::{Coin, Fee, Key, Prefix, Signing};
use pacing::Nanos;
pub use resolve::write_genesis;
use resolve::{CosmosStream, sign};
pub use settings::{
    AccountSettings, CosmosContent, CosmosSettings, Gas, Payments, Recipients, Wallet,
};

/// The chains of the Cosmos SDK.
pub static COSMOS: CosmosChain = CosmosChain;

/// Chains of the Cosmos SDK, whose nodes are CometBFT's.
#[derive(Debug)]
pub struct CosmosChain;

impl Chain for CosmosChain {
    fn name(&self) -> &'static str {
        "Cosmos SDK"
    }

    fn workloads(&self) -> &'static [&'static str] {
        const { &[Payments::Send.name(), Payments::MultiSend.name()] }
    }

    fn workload(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError> {
        let content = resolve::resolve(wanted)?;
        Ok(Arc::new(CosmosWorkload::new(content)))
    }

    fn settings(&self) -> Option<&'static dyn SettingsTable> {
        Some(&settings::SETTINGS)
    }

    #[cfg(feature = "fixture")]
    fn fixture(&self) -> Option<chain::Fixture> {
        Some(chain::Fixture {
            kind: &fixture::BankKind,
            flags: None,
        })
    }

    fn write_genesis(&self, load: &Wanted<'_>, genesis: &Path) -> anyhow::Result<()> {
        resolve::endow_genesis(load, genesis)
    }

    fn command(&self) -> Option<clap::Command> {
        Some(command::CosmosArgs::command())
    }

    fn execute(
        &self,
        matches: &clap::ArgMatches,
        _: &dyn Fn() -> bool,
    ) -> Result<String, ChainError> {
        command::execute(matches)
    }
}

/// Transfers between the accounts of a wallet.
#[derive(Debug, Clone)]
pub struct CosmosWorkload {
    content: Arc<CosmosContent>,
    /// The chain's answers, once it was asked.
    ready: Option<Arc<Ready>>,
}

/// Everything that a transaction needs beside its index.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) chain_id: String,
    pub(crate) prefix: Prefix,
    pub(crate) coin: Coin,
    pub(crate) fee: Fee,
    pub(crate) signers: Vec<Account>,
    pub(crate) sequences: Arc<Sequences>,
    /// The size of transaction 0 in bytes.
    pub(crate) size: usize,
    /// How long unordered transactions are valid, each from when it is signed.
    pub(crate) unordered: Option<Nanos>,
}

impl Ready {
    /// Names one of the accounts, by its number.
    fn account(&self, number: usize) -> String {
        let address = self.prefix.write(self.signers[number].key.address());
        format!("account {number}, {address},")
    }
}

/// One of the run's accounts.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) key: Key,
    pub(crate) number: u64,
}

impl CosmosWorkload {
    /// Transfers of this content; the chain is asked before the run.
    pub fn new(content: CosmosContent) -> Self {
        Self {
            content: Arc::new(content),
            ready: None,
        }
    }
}

impl Workload for CosmosWorkload {
    /// An estimate before the chain was asked.
    fn largest(&self) -> usize {
        match &self.ready {
            // Sequences and indices grow, and amounts and addresses do not.
            Some(ready) => {
                let template = self.content.template.as_ref();
                let growth = template.map_or(0, cosmos::Template::growth);
                ready.size + SEQUENCE_BYTES + growth * self.content.messages() as usize
            }
            None => TYPICAL_BYTES + TYPICAL_MESSAGE_BYTES * self.content.messages() as usize,
        }
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        let ready = self.ready.clone().ok_or_else(|| {
            WorkloadError::Unusable("the chain was not asked for its accounts yet".into())
        })?;
        Ok(Box::new(CosmosStream {
            content: self.content.clone(),
            ready,
            signing: Signing::default(),
        }))
    }

    fn is_signed(&self) -> bool {
        true
    }

    fn accounts(&self) -> Option<NonZeroU32> {
        Some(self.content.accounts())
    }

    fn sequences(&self) -> Option<&Arc<Sequences>> {
        let ready = self.ready.as_ref()?;
        ready.unordered.is_none().then_some(&ready.sequences)
    }

    fn learn<'a>(
        &'a self,
        from: Learning<'a>,
    ) -> Asking<'a, anyhow::Result<Option<Arc<dyn Workload>>>> {
        Box::pin(async move {
            let client = Client::with_options(from.endpoint, from.options)?;
            let chain_id = from.probe.chain_id.as_deref().unwrap_or_default();
            let ready: Self = self.ask_chain(&client, chain_id, from.planned).await?;
            Ok(Some(Arc::new(ready) as _))
        })
    }

    /// The accounts have their coins from the beginning.
    #[cfg(feature = "fixture")]
    fn built_in(&self, node: &mut devnode::Blueprint) -> Result<(), WorkloadError> {
        resolve::endow(node, &self.content)
    }

    fn refused(&self) -> Option<(String, u64)> {
        let count = self.sequences()?.mismatches();
        (count > 0).then(|| (learn::MISMATCH.to_owned(), count))
    }

    fn foreign_use(&self) -> Option<String> {
        let ready = self.ready.as_ref()?;
        Some(ready.account(ready.sequences.foreign()?))
    }
}

impl fmt::Display for CosmosWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.content.fmt(f)?;
        let Some(ready) = &self.ready else {
            return Ok(());
        };
        write!(f, ", {} bytes each, gas {}", ready.size, ready.fee.gas)?;
        match ready.fee.coins.first() {
            Some(fee) => write!(f, ", fee {fee}"),
            None => f.write_str(", no fee"),
        }
    }
}

/// Of a transaction without its messages.
const TYPICAL_BYTES: usize = 256;
/// Of a message.
const TYPICAL_MESSAGE_BYTES: usize = 192;
/// A sequence takes up to ten, the index in the memo up to twenty.
const SEQUENCE_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use chain::OnGap;
    use cosmos::{Keys, MessageTypes, SignedTx};

    use super::*;
    use crate::resolve::unordered_until;

    fn workload(payments: Payments, recipients: Recipients, messages: u32) -> CosmosWorkload {
        let keys = Keys::from_seed(3);
        let content = CosmosContent {
            seed: 3,
            wallet: Wallet {
                keys: keys.clone(),
                name: "seed 3".into(),
            },
            payments,
            template: None,
            prefix: None,
            given: CosmosSettings {
                of: AccountSettings {
                    accounts: NonZeroU32::new(3),
                    ..AccountSettings::default()
                },
                messages: NonZeroU32::new(messages),
                recipients: Some(recipients),
                ..CosmosSettings::default()
            },
        };
        let signers = (0..3).map(|number| Account {
            key: keys.key(number).unwrap(),
            number: 10 + u64::from(number),
        });
        let mut ready = Ready {
            chain_id: "tide-1".into(),
            prefix: Prefix::new("cosmos").unwrap(),
            coin: Coin::new(1, "stake"),
            fee: Fee {
                coins: Vec::new(),
                gas: 100_000,
            },
            signers: signers.collect(),
            sequences: Arc::new(Sequences::new(
                [5, 5, 5].into_iter(),
                OnGap::Resync,
                learn::expectation,
            )),
            size: 0,
            unordered: None,
        };
        let mut first = Vec::new();
        sign(
            &content,
            &ready,
            &mut Signing::default(),
            (0, 5),
            &mut first,
        )
        .unwrap();
        ready.size = first.len();
        CosmosWorkload {
            content: Arc::new(content),
            ready: Some(Arc::new(ready)),
        }
    }

    fn made(workload: &CosmosWorkload, index: u64) -> Vec<u8> {
        let mut tx = Vec::new();
        workload.open().unwrap().write(index, &mut tx).unwrap();
        tx
    }

    #[test]
    fn each_transaction_is_signed_by_its_account_and_fits() {
        for payments in [Payments::Send, Payments::MultiSend] {
            for recipients in [Recipients::Warm, Recipients::Cold] {
                let workload = workload(payments, recipients, 2);
                for index in [0, 1, 2, 3, 3_000_000] {
                    let tx = made(&workload, index);
                    let read = SignedTx::read(&tx).unwrap();
                    assert!(read.is_signed_for("tide-1", 10 + index % 3), "{index}");
                    assert_eq!(read.signer.sequence, 5 + index / 3);
                    assert!(tx.len() <= workload.largest());
                    assert_eq!(tx, made(&workload, index), "whoever makes it");
                }
            }
        }
    }

    #[test]
    fn an_unordered_transaction_is_valid_from_its_own_time_on_and_no_two_end_together() {
        let valid_for = Nanos::from_secs(60);
        let now = 1_700_000_000_000_000_000;
        let until: Vec<u64> = (0..1_000)
            .map(|index| unordered_until(now, valid_for, index))
            .collect();
        assert!(until.windows(2).all(|pair| pair[0] != pair[1]));
        let apart = |until: u64, now: u64| (until as i64 - (now + 60_000_000_000) as i64).abs();
        assert!(until.iter().all(|until| apart(*until, now) < 2_000_000));
        let later = now + 180_000_000_000;
        assert!(apart(unordered_until(later, valid_for, 7), later) < 2_000_000);
    }

    #[test]
    fn messages_of_another_type_are_signed_and_fit() {
        let mut workload = workload(Payments::Send, Recipients::Warm, 2);
        let json = r#"{"@type": "/cosmos.gov.v1.MsgDeposit", "depositor": "{from}", "proposal_id": "{index}",
            "amount": [{"denom": "{to}", "amount": "1"}]}"#;
        let content = CosmosContent {
            template: Some(cosmos::Template::parse(json, &MessageTypes::known()).unwrap()),
            ..(*workload.content).clone()
        };
        workload.content = Arc::new(content);
        assert!(
            workload
                .to_string()
                .starts_with("/cosmos.gov.v1.MsgDeposit, 2 in a transaction")
        );
        for index in [0, 1, 3_000_000] {
            let tx = made(&workload, index);
            let read = SignedTx::read(&tx).unwrap();
            assert!(read.is_signed_for("tide-1", 10 + index % 3), "{index}");
            assert_eq!(read.messages.len(), 2);
            assert_eq!(read.messages[0].type_url(), "/cosmos.gov.v1.MsgDeposit");
            assert_ne!(read.messages[0], read.messages[1], "each its recipient");
            assert!(tx.len() <= workload.largest());
        }
    }

    #[test]
    fn a_sequence_that_is_used_again_makes_another_transaction() {
        let workload = workload(Payments::Send, Recipients::Warm, 1);
        let refused = made(&workload, 0);
        // The chain did not take it: the account's next one has its sequence, and pays the same.
        workload.sequences().unwrap().go_on(3, 5);
        let next = made(&workload, 3);
        let sequences = [&refused, &next].map(|tx| SignedTx::read(tx).unwrap().signer.sequence);
        assert_eq!(sequences, [5, 5]);
        assert_ne!(refused, next, "their hashes would be one");
    }

    #[test]
    fn cold_recipients_are_new_each_time_and_warm_ones_the_run_s_own() {
        let paid = |recipients, index| {
            let workload = workload(Payments::Send, recipients, 1);
            let tx = made(&workload, index);
            let message = SignedTx::read(&tx).unwrap().messages.remove(0);
            message
                .transfer()
                .unwrap()
                .unwrap()
                .outputs
                .remove(0)
                .address
        };
        assert_eq!(paid(Recipients::Warm, 0), paid(Recipients::Warm, 3));
        assert_ne!(paid(Recipients::Cold, 0), paid(Recipients::Cold, 3));
    }
}
