//! Transfers between accounts as a Cosmos SDK chain makes them: the modules auth and bank of SDK 0.50, as
//! far as `MsgSend` and `MsgMultiSend` need them.
//!
//! A transaction passes the ante handler (form, memo, gas, fee, sequence, signature) on a state that
//! holds what the mempool has, and again on the committed state when its block is executed. One that
//! passes pays its fee and uses its sequence, also if its messages fail.

mod ante;
mod decoded;
mod events;
mod messages;
mod query;
mod refusal;

use std::collections::HashMap;
use std::sync::Arc;

use ::cosmos::{Address, Coin, Outline, Prefix, PublicKey, SignedTx, proto};
use lru::LruCache;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{App, Event, Execution, Finalized, Hash, Outcome, QueryAnswer, Tx};
use crate::config::{BankConfig, Config};
use crate::hash::sha256;
use decoded::Decoded;
use refusal::Refusal;

/// The application.
#[derive(Debug)]
pub(crate) struct Bank {
    chain_id: String,
    prefix: Prefix,
    config: BankConfig,
    max_block_gas: Option<u64>,
    state: Arc<RwLock<BankState>>,
}

#[derive(Debug)]
struct BankState {
    height: u64,
    executed: u64,
    ledger: Ledger,
    /// What the mempool's transactions make of the ledger.
    checked: Ledger,
    /// Why transactions were refused, [`MOST_REFUSALS`] of the last.
    refusals: LruCache<Hash, Refusal>,
}

/// Accounts; those that are not here are in the ledger below.
#[derive(Debug, Default)]
struct Ledger {
    accounts: HashMap<Address, Account>,
}

/// An account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    number: u64,
    sequence: u64,
    key: Option<PublicKey>,
    balance: u128,
}

/// Accounts above others: what is changed here is not changed below.
struct Layer<'a> {
    /// Those of the first hide those of the second.
    below: [&'a Ledger; 2],
    above: &'a mut Ledger,
    next_number: u64,
}

impl Layer<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        let [first, second] = self.below;
        let mut ledgers = [&*self.above, first, second].into_iter();
        ledgers
            .find_map(|ledger| ledger.accounts.get(address))
            .copied()
    }

    fn set(&mut self, address: Address, account: Account) {
        self.above.accounts.insert(address, account);
    }

    /// Adds to a balance; an account that does not exist yet gets the next number.
    fn credit(&mut self, address: Address, amount: u128) {
        let account = self.account(&address).unwrap_or_else(|| {
            self.next_number += 1;
            Account {
                number: self.next_number - 1,
                sequence: 0,
                key: None,
                balance: 0,
            }
        });
        let balance = account.balance.saturating_add(amount);
        self.set(address, Account { balance, ..account });
    }
}

impl Bank {
    pub(crate) fn new(config: &Config) -> Self {
        let (chain_id, max_block_gas) = (config.chain_id.clone(), config.max_block_gas);
        let config = &config.bank;
        let prefix = config.prefix();
        let accounts = (0..).zip(&config.accounts);
        let accounts = accounts.filter_map(|(number, genesis)| {
            let address = prefix.read(&genesis.address).ok()?;
            let account = Account {
                number,
                sequence: 0,
                key: None,
                balance: u128::from(genesis.amount),
            };
            Some((address, account))
        });
        let ledger = Ledger {
            accounts: accounts.collect(),
        };
        Self {
            chain_id,
            max_block_gas,
            prefix,
            config: config.clone(),
            state: Arc::new(RwLock::new(BankState {
                height: 0,
                executed: 0,
                ledger,
                checked: Ledger::default(),
                refusals: LruCache::new(MOST_REFUSALS),
            })),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BankState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, BankState> {
        self.state.write()
    }

    /// What the check of a transaction uses on the last block's state.
    fn gas_of_check(&self, tx: &SignedTx<'_>) -> u64 {
        let (state, mut above) = (self.read(), Ledger::default());
        let layer = Layer {
            next_number: 0,
            below: [&state.ledger; 2],
            above: &mut above,
        };
        ante::gas_of_check(tx, &layer)
    }

    /// Executes a transaction: its code, and what it gave beside it.
    fn outcome(&self, layer: &mut Layer<'_>, tx: &Tx) -> (u32, Outcome) {
        let read = match Decoded::read(&tx.bytes) {
            Ok(read) => read,
            Err(refusal) => return refusal.outcome(0, 0),
        };
        let wanted = read.fee.gas;
        match self.execute(layer, &read, ante::Mode::Execute) {
            Ok(gas_used) => {
                let outcome = Outcome {
                    data: responses(&read),
                    gas_wanted: wanted,
                    gas_used,
                    paid: true,
                    ..Outcome::default()
                };
                (0, outcome)
            }
            Err(Failure { refusal, gas, paid }) => {
                let (code, outcome) = refusal.outcome(wanted, gas);
                (code, Outcome { paid, ..outcome })
            }
        }
    }

    /// The ante handler, then the messages: all take effect or none does. Gives the gas used.
    fn execute(
        &self,
        layer: &mut Layer<'_>,
        tx: &Decoded<'_>,
        mode: ante::Mode,
    ) -> Result<u64, Failure> {
        let of_check = ante::gas_of_check(tx, layer);
        ante::pass(self, layer, tx, mode).map_err(|refusal| Failure {
            refusal,
            gas: of_check.min(tx.fee.gas),
            paid: false,
        })?;
        let failed = |refusal, gas| Failure {
            refusal,
            gas,
            paid: true,
        };
        let mut moved = Ledger::default();
        let mut trial = Layer {
            next_number: layer.next_number,
            below: [&*layer.above, layer.below[0]],
            above: &mut moved,
        };
        for (number, message) in tx.messages.iter().enumerate() {
            messages::execute(self, &mut trial, message, &tx.transfers[number]).map_err(
                |refusal| {
                    let log = format!(
                        "failed to execute message; message index: {number}: {}",
                        refusal.log
                    );
                    let before = ante::gas_of_messages(&tx.transfers[..number]);
                    let gas = of_check + before + ante::gas_of_failed(&refusal);
                    failed(Refusal { log, ..refusal }, gas)
                },
            )?;
        }
        let used = of_check + ante::gas_of_messages(&tx.transfers);
        if mode == ante::Mode::Execute && used > tx.fee.gas {
            return Err(failed(
                ante::out_of_gas(tx.fee.gas),
                tx.fee.gas + ante::GAS_OVERRUN,
            ));
        }
        layer.next_number = trial.next_number;
        layer.above.accounts.extend(moved.accounts);
        Ok(used)
    }
}

impl App for Bank {
    fn check(&self, tx: &Tx) -> Option<u32> {
        let read = Decoded::read(&tx.bytes);
        let mut state = self.write();
        let passed = read.and_then(|read| state.pass(self, &read, ante::Mode::Check));
        Some(passed.map_or_else(
            |refusal| {
                let code = refusal.code;
                state.refusals.put(tx.hash, refusal);
                code
            },
            |()| 0,
        ))
    }

    fn rechecks(&self) -> bool {
        true
    }

    fn recheck(&self, tx: &Tx) -> u32 {
        let passed = Decoded::read(&tx.bytes)
            .and_then(|read| self.write().pass(self, &read, ante::Mode::Recheck));
        passed.map_or_else(|refusal| refusal.code, |()| 0)
    }

    fn refused(&self, hash: &Hash) -> Outcome {
        let refusal = self.read().refusals.peek(hash).cloned();
        refusal.map_or_else(Outcome::default, |refusal| refusal.outcome(0, 0).1)
    }

    fn checked(&self, tx: &Tx, code: u32) -> Outcome {
        let gas_wanted = self.gas_wanted(tx);
        if code != 0 {
            return Outcome {
                gas_wanted,
                ..self.refused(&tx.hash)
            };
        }
        let read = SignedTx::read(&tx.bytes).ok();
        Outcome {
            gas_wanted,
            gas_used: read.map_or(0, |read| self.gas_of_check(&read)),
            paid: true,
            ..Outcome::default()
        }
    }

    fn gas_wanted(&self, tx: &Tx) -> u64 {
        Outline::read(&tx.bytes).map_or(0, |outline| outline.gas)
    }

    fn app_hash(&self) -> Vec<u8> {
        let state = self.read();
        app_hash(state.height, state.executed)
    }

    fn finalize(&self, block: Execution<'_>) -> Finalized {
        let state = self.read();
        let mut changes = Ledger::default();
        let mut failed = block.failing.clone();
        let mut outcomes = Vec::with_capacity(block.txs.len());
        let mut layer = Layer {
            next_number: state.ledger.accounts.len() as u64,
            below: [&state.ledger; 2],
            above: &mut changes,
        };
        for (index, tx) in block.txs.iter().enumerate() {
            if block.fails(index) {
                outcomes.push(Outcome {
                    codespace: Refusal::SDK,
                    ..Outcome::default()
                });
                continue;
            }
            let (code, outcome) = self.outcome(&mut layer, tx);
            outcomes.push(outcome);
            if code != 0 {
                failed.push((index as u32, code));
            }
        }
        failed.sort_unstable();
        let executed = state.executed + block.txs.len() as u64;
        let (height, committed) = (block.height, Arc::clone(&self.state));
        Finalized {
            failed,
            outcomes,
            app_hash: app_hash(height, executed),
            commit: Box::new(move || {
                committed.write().commit(height, executed, changes);
                None
            }),
        }
    }

    fn events<'a>(&self, tx: &'a [u8], code: u32, outcome: &Outcome) -> Vec<Event<'a>> {
        if outcome.paid {
            events::of_paid(tx, code == 0)
        } else {
            Vec::new()
        }
    }

    fn query(&self, path: &str, data: &[u8]) -> QueryAnswer {
        self.answer(path, data)
    }
}

impl BankState {
    /// Makes a block's effects visible, and forgets what the mempool made of the state before it.
    fn commit(&mut self, height: u64, executed: u64, changes: Ledger) {
        (self.height, self.executed) = (height, executed);
        self.ledger.accounts.extend(changes.accounts);
        self.checked.accounts.clear();
    }

    /// Passes the ante handler on the state of the mempool.
    fn pass(&mut self, bank: &Bank, tx: &Decoded<'_>, mode: ante::Mode) -> Result<(), Refusal> {
        let mut layer = Layer {
            next_number: 0,
            below: [&self.ledger; 2],
            above: &mut self.checked,
        };
        ante::pass(bank, &mut layer, tx, mode)
    }
}

/// How an execution failed.
struct Failure {
    refusal: Refusal,
    gas: u64,
    /// Whether it paid its fee and used its sequence all the same.
    paid: bool,
}

/// Coins as the SDK writes them.
fn coins_text(coins: &[Coin]) -> String {
    let coins: Vec<String> = coins.iter().map(Coin::to_string).collect();
    coins.join(",")
}

/// The responses of the messages, which are empty (`TxMsgData` of `cosmos/base/abci/v1beta1/abci.proto`).
fn responses(tx: &SignedTx<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for message in &tx.messages {
        let name = format!("{}Response", message.type_url());
        proto::nested(&mut out, 2, |out| proto::bytes(out, 1, name.as_bytes()));
    }
    out
}

fn app_hash(height: u64, executed: u64) -> Vec<u8> {
    let mut state = height.to_be_bytes().to_vec();
    state.extend_from_slice(&executed.to_be_bytes());
    sha256(&state).to_vec()
}

/// A client asks for the words at once; these outlast every answer that is under way.
const MOST_REFUSALS: std::num::NonZeroUsize =
    std::num::NonZeroUsize::new(16_384).expect("not zero");
