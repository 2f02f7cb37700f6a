//! Transfers between accounts as a Cosmos SDK chain makes them: the modules auth and bank of SDK 0.50, as
//! far as `MsgSend` and `MsgMultiSend` need them.
//!
//! A transaction passes the ante handler (form, memo, gas, fee, sequence, signature) on a state that
//! holds what the mempool has, and again on the committed state when its block is executed. Whoever passes
//! pays the fee and uses the sequence, whatever becomes of the messages.

mod ante;
mod query;

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ::cosmos::{Address, Payment, Prefix, PublicKey, SignedTx};
use lru::LruCache;

use crate::app::Execution;
use crate::chain::block::Tx;
use crate::chain::merkle::{Hash, sha256};
use crate::config::BankConfig;
pub(crate) use query::QueryAnswer;

/// The application.
#[derive(Debug)]
pub(crate) struct Bank {
    chain_id: String,
    prefix: Prefix,
    config: BankConfig,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    number: u64,
    sequence: u64,
    key: Option<PublicKey>,
    balance: u128,
}

/// Why a transaction was refused, in the words of the SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Of the name space `sdk`.
    pub(crate) code: u32,
    pub(crate) log: String,
}

/// What a block does; nothing is visible before [`Bank::commit`].
#[derive(Debug)]
pub(crate) struct Finalized {
    /// Codes of transactions that failed, by index in ascending order.
    pub(crate) failed: Vec<(u32, u32)>,
    pub(crate) app_hash: Vec<u8>,
    height: u64,
    executed: u64,
    changes: Ledger,
}

/// Accounts above others: what is changed here is not changed below.
struct Layer<'a> {
    below: &'a Ledger,
    above: &'a mut Ledger,
    next_number: u64,
}

impl Layer<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        let above = self.above.accounts.get(address);
        above.or_else(|| self.below.accounts.get(address)).copied()
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
    pub(crate) fn new(config: &BankConfig, chain_id: &str) -> Self {
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
            chain_id: chain_id.to_owned(),
            prefix,
            config: config.clone(),
            state: RwLock::new(State {
                height: 0,
                executed: 0,
                ledger,
                checked: Ledger::default(),
                refusals: LruCache::new(MOST_REFUSALS),
            }),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of `CheckTx`; the signature is verified before the state is locked.
    pub(crate) fn check(&self, tx: &Tx) -> u32 {
        let read = SignedTx::read(&tx.bytes);
        let mut state = self.write();
        let passed = match &read {
            Ok(read) => state.pass(self, read, ante::Mode::Check),
            Err(error) => Err(Refusal::new(2, format!("{error}: tx parse error"))),
        };
        match passed {
            Ok(()) => 0,
            Err(refusal) => {
                let code = refusal.code;
                state.refusals.put(tx.hash, refusal);
                code
            }
        }
    }

    /// The code of `CheckTx` after a block.
    pub(crate) fn recheck(&self, tx: &Tx) -> u32 {
        let Ok(read) = SignedTx::read(&tx.bytes) else {
            return 2;
        };
        let passed = self.write().pass(self, &read, ante::Mode::Recheck);
        passed.map_or_else(|refusal| refusal.code, |()| 0)
    }

    /// Why a transaction was refused lately.
    pub(crate) fn refusal(&self, hash: &Hash) -> Option<Refusal> {
        self.read().refusals.peek(hash).cloned()
    }

    pub(crate) fn height(&self) -> u64 {
        self.read().height
    }

    pub(crate) fn app_hash(&self) -> Vec<u8> {
        let state = self.read();
        app_hash(state.height, state.executed)
    }

    /// Executes a block.
    pub(crate) fn finalize(&self, execution: &Execution<'_>) -> Finalized {
        let state = self.read();
        let mut changes = Ledger::default();
        let mut failed = execution.failing.clone();
        let mut layer = Layer {
            next_number: state.ledger.accounts.len() as u64,
            below: &state.ledger,
            above: &mut changes,
        };
        for (index, tx) in execution.txs.iter().enumerate() {
            if execution.fails(index) {
                continue;
            }
            let executed = SignedTx::read(&tx.bytes)
                .map_err(|error| Refusal::new(2, error.to_string()))
                .and_then(|tx| self.execute(&mut layer, &tx));
            if let Err(refusal) = executed {
                failed.push((index as u32, refusal.code));
            }
        }
        failed.sort_unstable();
        let executed = state.executed + execution.txs.len() as u64;
        Finalized {
            failed,
            app_hash: app_hash(execution.height, executed),
            height: execution.height,
            executed,
            changes,
        }
    }

    /// Makes a block's effects visible, and forgets what the mempool made of the state before it.
    pub(crate) fn commit(&self, finalized: Finalized) {
        let mut state = self.write();
        state.height = finalized.height;
        state.executed = finalized.executed;
        state.ledger.accounts.extend(finalized.changes.accounts);
        state.checked.accounts.clear();
    }

    /// The ante handler, then the messages: all take effect or none does.
    fn execute(&self, layer: &mut Layer<'_>, tx: &SignedTx<'_>) -> Result<(), Refusal> {
        ante::pass(self, layer, tx, ante::Mode::Execute)?;
        let mut trial = Ledger::default();
        let mut inner = Layer {
            next_number: layer.next_number,
            below: &Ledger::default(),
            above: &mut trial,
        };
        for (number, message) in tx.messages.iter().enumerate() {
            let failed = |text: String| {
                let log = format!("failed to execute message; message index: {number}: {text}");
                Refusal::new(5, log)
            };
            let payments = message.payments().ok().flatten().unwrap_or_default();
            for payment in payments {
                self.pay(layer, &mut inner, &payment).map_err(failed)?;
            }
        }
        layer.next_number = inner.next_number;
        layer.above.accounts.extend(trial.accounts);
        Ok(())
    }

    /// Moves coins in `inner`, which begins as `outer`.
    fn pay(
        &self,
        outer: &Layer<'_>,
        inner: &mut Layer<'_>,
        payment: &Payment,
    ) -> Result<(), String> {
        let denom = &self.config.denom;
        let known = |inner: &Layer<'_>, address: &Address| {
            inner.account(address).or_else(|| outer.account(address))
        };
        let read = |text: &str| self.prefix.read(text).map_err(|error| error.to_string());
        let (from, to) = (read(&payment.from)?, read(&payment.to)?);
        let other = payment.coins.iter().find(|coin| coin.denom != *denom);
        if let Some(coin) = other {
            let denom = &coin.denom;
            let text = format!("spendable balance 0{denom} is smaller than {coin}");
            return Err(format!("{text}: insufficient funds"));
        }
        let amount = payment.coins.iter().map(|coin| coin.amount).sum();
        let payer = known(inner, &from).ok_or("unknown address")?;
        let Some(balance) = payer.balance.checked_sub(amount) else {
            let spendable = payer.balance;
            return Err(format!(
                "spendable balance {spendable}{denom} is smaller than {amount}{denom}: insufficient funds"
            ));
        };
        inner.set(from, Account { balance, ..payer });
        if let Some(payee) = known(inner, &to) {
            inner.set(to, payee);
        }
        inner.credit(to, amount);
        Ok(())
    }
}

impl State {
    /// Passes the ante handler on the state of the mempool.
    fn pass(&mut self, bank: &Bank, tx: &SignedTx<'_>, mode: ante::Mode) -> Result<(), Refusal> {
        let mut layer = Layer {
            next_number: 0,
            below: &self.ledger,
            above: &mut self.checked,
        };
        ante::pass(bank, &mut layer, tx, mode)
    }
}

impl Refusal {
    fn new(code: u32, log: impl Into<String>) -> Self {
        Self {
            code,
            log: log.into(),
        }
    }
}

fn app_hash(height: u64, executed: u64) -> Vec<u8> {
    let mut state = height.to_be_bytes().to_vec();
    state.extend_from_slice(&executed.to_be_bytes());
    sha256(&state).to_vec()
}

/// A client asks for the words at once; these outlast every answer that is under way.
const MOST_REFUSALS: std::num::NonZeroUsize =
    std::num::NonZeroUsize::new(16_384).expect("not zero");
