//! The application that blocks are executed on: one of three.

pub(crate) mod admission;
pub(crate) mod bank;
pub(crate) mod bigchaindb;
pub(crate) mod events;
pub(crate) mod kvstore;

use ::admission::Counters;
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::chain::block::{Outcome, Tx};
use crate::chain::merkle::Hash;
use crate::config::{Application, Config};
use bank::Bank;
use bigchaindb::{Bigchaindb, ValidTransactions};
use events::Event;
use kvstore::KvStore;

/// The application of a node.
#[derive(Debug)]
pub(crate) enum App {
    /// CometBFT's own example.
    KvStore(RwLock<KvStore>),
    /// BigchainDB.
    Bigchaindb(Bigchaindb),
    /// Transfers of a Cosmos SDK chain.
    Bank(Box<Bank>),
}

/// What a block does to the application; nothing is visible before [`App::commit`].
#[derive(Debug)]
pub(crate) struct Finalized {
    /// Result codes of transactions that failed, by index in ascending order.
    pub(crate) failed: Vec<(u32, u32)>,
    /// Of every transaction, by an application that gives any; else none.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) app_hash: Vec<u8>,
    pub(crate) validator_updates: Vec<(Vec<u8>, i64)>,
    effects: Effects,
}

#[derive(Debug)]
enum Effects {
    KvStore(kvstore::Finalized),
    Bigchaindb(bigchaindb::Finalized),
    Bank(bank::Finalized),
}

/// What is published to the application's listeners after a block is committed.
#[derive(Debug)]
#[must_use]
pub(crate) struct News(Option<ValidTransactions>);

/// A block's transactions as they are executed.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    pub(crate) height: u64,
    pub(crate) txs: &'a [Tx],
    /// Codes of transactions that fail whatever the application's result, by index in ascending order.
    pub(crate) failing: Vec<(u32, u32)>,
}

impl App {
    pub(crate) fn new(config: &Config, validator: (&[u8], i64)) -> Self {
        match config.app {
            // A node of Bitcoin executes its blocks itself; this application stays empty.
            Application::Kvstore | Application::Bitcoin => {
                Self::KvStore(RwLock::new(KvStore::new(config.retain_keys, validator)))
            }
            Application::Bigchaindb => {
                Self::Bigchaindb(Bigchaindb::new(&config.bigchaindb, &config.admission))
            }
            Application::Bank => Self::Bank(Box::new(Bank::new(config))),
        }
    }

    pub(crate) fn kind(&self) -> Application {
        match self {
            Self::KvStore(_) => Application::Kvstore,
            Self::Bigchaindb(_) => Application::Bigchaindb,
            Self::Bank(_) => Application::Bank,
        }
    }

    /// The key-value application, if it is the one.
    pub(crate) fn kvstore(&self) -> Option<RwLockReadGuard<'_, KvStore>> {
        match self {
            Self::KvStore(app) => Some(app.read()),
            Self::Bigchaindb(_) | Self::Bank(_) => None,
        }
    }

    /// The transfers of a Cosmos SDK chain, if they are the one.
    pub(crate) fn bank(&self) -> Option<&Bank> {
        match self {
            Self::Bank(app) => Some(app),
            Self::KvStore(_) | Self::Bigchaindb(_) => None,
        }
    }

    /// Why the application refused a transaction lately, where it gives reasons.
    pub(crate) fn refusal(&self, hash: &Hash) -> Option<bank::Refusal> {
        self.bank()?.refusal(hash)
    }

    /// BigchainDB, if it is the one.
    pub(crate) fn bigchaindb(&self) -> Option<&Bigchaindb> {
        match self {
            Self::KvStore(_) | Self::Bank(_) => None,
            Self::Bigchaindb(app) => Some(app),
        }
    }

    /// Whether the application is a process of its own, which is asked over a socket.
    pub(crate) fn is_behind_socket(&self) -> bool {
        matches!(self, Self::Bigchaindb(_))
    }

    /// The code of `CheckTx`. What the check learnt for the block stays with the transaction.
    pub(crate) async fn check(&self, tx: &mut Tx) -> u32 {
        match self {
            Self::KvStore(_) => kvstore::check(&tx.bytes),
            Self::Bigchaindb(app) => app.check(tx).await,
            Self::Bank(app) => app.check(tx),
        }
    }

    /// The same for an application that needs no time and no state for it.
    pub(crate) fn check_at_once(&self, tx: &Tx) -> Option<u32> {
        match self {
            Self::KvStore(_) => Some(kvstore::check(&tx.bytes)),
            Self::Bank(app) => Some(app.check(tx)),
            Self::Bigchaindb(_) => None,
        }
    }

    /// Whether a transaction that passed `CheckTx` may fail it after a block.
    pub(crate) fn rechecks_can_fail(&self) -> bool {
        matches!(self, Self::Bigchaindb(_) | Self::Bank(_))
    }

    /// The code of `CheckTx` after a block, for a transaction that passed it before.
    pub(crate) fn recheck(&self, tx: &Tx) -> u32 {
        match self {
            Self::KvStore(_) => kvstore::check(&tx.bytes),
            Self::Bigchaindb(app) => app.recheck(tx),
            Self::Bank(app) => app.recheck(tx),
        }
    }

    /// Tells the application what the mempool holds after a block.
    pub(crate) fn mempool_is<'a>(&self, txs: impl Iterator<Item = &'a Tx>) {
        if let Self::Bigchaindb(app) = self {
            app.mempool_is(txs);
        }
    }

    /// What admission has counted, if the configuration has one.
    pub(crate) fn admission(&self) -> Option<Counters> {
        match self {
            Self::KvStore(_) | Self::Bank(_) => None,
            Self::Bigchaindb(app) => app.admission(),
        }
    }

    /// What a check that ended with this code gave beside it.
    pub(crate) fn checked(&self, tx: &Tx, code: u32) -> Outcome {
        match self {
            Self::KvStore(_) if code == 0 => Outcome {
                gas_wanted: kvstore::GAS_WANTED,
                ..Outcome::default()
            },
            Self::Bank(app) => app.checked(tx, code),
            Self::KvStore(_) | Self::Bigchaindb(_) => Outcome::default(),
        }
    }

    /// Leaves the first ones that want at most so much gas together.
    pub(crate) fn fit_gas(&self, txs: &mut Vec<Tx>, most: u64) {
        if self.bank().is_none() {
            return;
        }
        let mut wanted = 0_u64;
        let too_much = txs.iter().position(|tx| {
            wanted = wanted.saturating_add(bank::gas_wanted(tx));
            wanted > most
        });
        txs.truncate(too_much.unwrap_or(txs.len()));
    }

    /// What the application makes of a transaction in a proposal.
    pub(crate) fn prepared(&self, tx: &Tx) -> Tx {
        match self {
            Self::KvStore(_) => {
                let prepared: Bytes = kvstore::prepared(&tx.bytes);
                if prepared == tx.bytes {
                    tx.clone()
                } else {
                    Tx::new(prepared)
                }
            }
            Self::Bigchaindb(_) | Self::Bank(_) => tx.clone(),
        }
    }

    pub(crate) fn app_hash(&self) -> Vec<u8> {
        match self {
            Self::KvStore(app) => app.read().app_hash(),
            Self::Bigchaindb(app) => app.app_hash(),
            Self::Bank(app) => app.app_hash(),
        }
    }

    /// Executes a block.
    pub(crate) fn finalize(&self, execution: Execution<'_>) -> Finalized {
        match self {
            Self::KvStore(app) => {
                let raw: Vec<Bytes> = execution.txs.iter().map(|tx| tx.bytes.clone()).collect();
                let succeeds = |index| !execution.fails(index);
                let effects = app.read().finalize(execution.height, &raw, succeeds);
                Finalized {
                    failed: execution.failing,
                    outcomes: Vec::new(),
                    app_hash: effects.app_hash.clone(),
                    validator_updates: effects.validator_updates.clone(),
                    effects: Effects::KvStore(effects),
                }
            }
            Self::Bigchaindb(app) => {
                let effects = app.finalize(&execution);
                let mut failed = execution.failing;
                failed.extend(effects.refused.iter().map(|at| (*at, bigchaindb::REFUSED)));
                failed.sort_unstable();
                Finalized {
                    failed,
                    outcomes: Vec::new(),
                    app_hash: effects.app_hash.as_str().as_bytes().to_vec(),
                    validator_updates: Vec::new(),
                    effects: Effects::Bigchaindb(effects),
                }
            }
            Self::Bank(app) => {
                let mut effects = app.finalize(&execution);
                Finalized {
                    failed: std::mem::take(&mut effects.failed),
                    outcomes: std::mem::take(&mut effects.outcomes),
                    app_hash: effects.app_hash.clone(),
                    validator_updates: Vec::new(),
                    effects: Effects::Bank(effects),
                }
            }
        }
    }

    /// Makes a block's effects visible. Returns what is to be published of them.
    pub(crate) fn commit(&self, finalized: Finalized) -> News {
        match (self, finalized.effects) {
            (Self::KvStore(app), Effects::KvStore(effects)) => {
                app.write().commit(effects);
                News(None)
            }
            (Self::Bigchaindb(app), Effects::Bigchaindb(effects)) => {
                News(Some(app.commit(effects)))
            }
            (Self::Bank(app), Effects::Bank(effects)) => {
                app.commit(effects);
                News(None)
            }
            // The effects of another application do not apply to this one.
            _ => News(None),
        }
    }

    /// Publishes to the listeners of the application itself.
    pub(crate) fn publish(&self, news: News) {
        if let (Self::Bigchaindb(app), News(Some(events))) = (self, news) {
            app.publish(events);
        }
    }
}

/// The events of a transaction that was executed with this code and outcome.
pub(crate) fn events_of<'a>(
    app: Application,
    tx: &'a [u8],
    (code, outcome): (u32, &Outcome),
) -> Vec<Event<'a>> {
    match app {
        Application::Kvstore if code == 0 => kvstore::events(tx),
        Application::Bank if outcome.paid => bank::events::of_paid(tx, code == 0),
        _ => Vec::new(),
    }
}

impl Execution<'_> {
    /// Whether a transaction fails whatever the application's result.
    pub(crate) fn fails(&self, index: usize) -> bool {
        self.failing
            .binary_search_by_key(&index, |(failing, _)| *failing as usize)
            .is_ok()
    }
}
