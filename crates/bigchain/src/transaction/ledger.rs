//! What is committed, as far as validation asks.

use std::collections::HashMap;

use super::{Id, Transaction};
use crate::condition::Condition;

/// Committed transactions, and those that come earlier in the block.
pub trait Ledger {
    /// Whether a transaction is there.
    fn contains(&self, id: &Id) -> bool;

    /// What there is at an output.
    fn find(&self, id: &Id, output_index: u64) -> Found;
}

/// What a ledger finds at an output. The order of the variants is the order of the checks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// No such transaction.
    NoTransaction,
    /// The output is spent.
    Spent,
    /// The transaction has no such output.
    NoOutput,
    /// It can be spent.
    Unspent(Coin),
}

/// An output that can be spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Coin {
    /// The asset it is a share of.
    pub asset: Id,
    /// How many shares.
    pub amount: u64,
    /// The condition to be fulfilled.
    pub condition: Condition,
}

/// A ledger in memory, of a million transactions at most, about 200 bytes each.
#[derive(Clone, Debug, Default)]
pub struct MemoryLedger {
    /// The outputs of each transaction; nothing in place of one that is spent.
    transactions: HashMap<Id, Vec<Option<Coin>>>,
}

const MOST_TRANSACTIONS: usize = 1_000_000;

impl MemoryLedger {
    /// Adds a transaction and marks what it spends. `false` when it was refused: the ledger is
    /// full, has it already, or it names an asset by something that is no id.
    pub fn apply(&mut self, transaction: &Transaction) -> bool {
        let effect = transaction.effect();
        let room = self.transactions.len() < MOST_TRANSACTIONS;
        let Some(asset) = effect
            .asset()
            .filter(|_| room && !self.contains(&transaction.id))
        else {
            return false;
        };
        for (id, index) in effect.spends() {
            let outputs = self.transactions.get_mut(&id);
            if let Some(output) = outputs.and_then(|outputs| outputs.get_mut(position(index))) {
                *output = None;
            }
        }
        let outputs = effect.makes().iter().map(|made| {
            Some(Coin {
                asset,
                amount: made.amount,
                condition: made.condition,
            })
        });
        self.transactions.insert(transaction.id, outputs.collect());
        true
    }
}

impl Ledger for MemoryLedger {
    fn contains(&self, id: &Id) -> bool {
        self.transactions.contains_key(id)
    }

    fn find(&self, id: &Id, output_index: u64) -> Found {
        let Some(outputs) = self.transactions.get(id) else {
            return Found::NoTransaction;
        };
        match outputs.get(position(output_index)) {
            None => Found::NoOutput,
            Some(None) => Found::Spent,
            Some(Some(coin)) => Found::Unspent(*coin),
        }
    }
}

/// An index of a list; one beyond every list where the number does not fit.
fn position(output_index: u64) -> usize {
    usize::try_from(output_index).unwrap_or(usize::MAX)
}
