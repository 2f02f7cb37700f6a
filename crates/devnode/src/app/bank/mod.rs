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

use ::cosmos::{Address, Outline, Payment, Prefix, PublicKey, SignedTx, proto};
use lru::LruCache;

use crate::app::Execution;
use crate::chain::block::{Outcome, Tx};
use crate::chain::merkle::{Hash, sha256};
use crate::config::{BankConfig, Config};
pub(crate) use query::QueryAnswer;

/// The application.
#[derive(Debug)]
pub(crate) struct Bank {
    chain_id: String,
    prefix: Prefix,
    config: BankConfig,
    max_block_gas: Option<u64>,
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
    pub(crate) outcomes: Vec<Outcome>,
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

    /// What its check gave beside the code.
    pub(crate) fn checked(&self, tx: &Tx, code: u32) -> Outcome {
        let read = SignedTx::read(&tx.bytes).ok().filter(|_| code == 0);
        let refusal = self.refusal(&tx.hash).filter(|_| code != 0);
        Outcome {
            log: refusal.map_or_else(String::new, |refusal| refusal.log),
            gas_wanted: gas_wanted(tx),
            gas_used: read.map_or(0, |read| self.gas_of_check(&read)),
            data: Vec::new(),
        }
    }

    /// What the check of a transaction uses on the last block's state.
    fn gas_of_check(&self, tx: &SignedTx<'_>) -> u64 {
        let (state, mut above) = (self.read(), Ledger::default());
        let layer = Layer {
            next_number: 0,
            below: &state.ledger,
            above: &mut above,
        };
        ante::gas_of_check(tx, &layer)
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
        let mut outcomes = Vec::with_capacity(execution.txs.len());
        let mut layer = Layer {
            next_number: state.ledger.accounts.len() as u64,
            below: &state.ledger,
            above: &mut changes,
        };
        for (index, tx) in execution.txs.iter().enumerate() {
            if execution.fails(index) {
                outcomes.push(Outcome::default());
                continue;
            }
            let (code, outcome) = self.outcome(&mut layer, tx);
            outcomes.push(outcome);
            if code != 0 {
                failed.push((index as u32, code));
            }
        }
        failed.sort_unstable();
        let executed = state.executed + execution.txs.len() as u64;
        Finalized {
            failed,
            outcomes,
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

    /// Executes a transaction: its code, and what it gave beside it.
    fn outcome(&self, layer: &mut Layer<'_>, tx: &Tx) -> (u32, Outcome) {
        let read = match SignedTx::read(&tx.bytes) {
            Ok(read) => read,
            Err(error) => return Refusal::new(2, error.to_string()).outcome(0, 0),
        };
        let (wanted, of_check) = (read.fee.gas, ante::gas_of_check(&read, layer));
        match self.execute(layer, &read) {
            Ok(()) => {
                let outcome = Outcome {
                    data: responses(&read),
                    log: String::new(),
                    gas_wanted: wanted,
                    gas_used: of_check + ante::gas_of_messages(&read),
                };
                (0, outcome)
            }
            Err((refusal, of_messages)) => {
                refusal.outcome(wanted, (of_check + of_messages).min(wanted))
            }
        }
    }

    /// The ante handler, then the messages: all take effect or none does, which is refused with the gas that the
    /// messages used.
    fn execute(&self, layer: &mut Layer<'_>, tx: &SignedTx<'_>) -> Result<(), (Refusal, u64)> {
        ante::pass(self, layer, tx, ante::Mode::Execute).map_err(|refusal| (refusal, 0))?;
        let mut trial = Ledger::default();
        let mut inner = Layer {
            next_number: layer.next_number,
            below: &Ledger::default(),
            above: &mut trial,
        };
        for (number, message) in tx.messages.iter().enumerate() {
            let failed = |text: String| {
                let log = format!("failed to execute message; message index: {number}: {text}");
                (Refusal::new(5, log), ante::GAS_OF_FAILED_PAYMENT)
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

    /// The outcome of an execution that ended so.
    fn outcome(self, gas_wanted: u64, gas_used: u64) -> (u32, Outcome) {
        let outcome = Outcome {
            data: Vec::new(),
            log: self.log,
            gas_wanted,
            gas_used,
        };
        (self.code, outcome)
    }
}

/// The gas limit of a transaction's fee.
pub(crate) fn gas_wanted(tx: &Tx) -> u64 {
    Outline::read(&tx.bytes).map_or(0, |outline| outline.gas)
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
