//! What is committed, as far as validation asks.

use std::collections::HashMap;
use std::num::NonZeroUsize;

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

/// A ledger in memory.
#[derive(Clone, Debug)]
pub struct MemoryLedger {
    transactions: HashMap<Id, Entry>,
    limit: usize,
    refused: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    asset: Id,
    outputs: Vec<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    amount: u64,
    condition: Condition,
    spent: bool,
}

impl Default for MemoryLedger {
    /// A ledger of a million transactions at most, about 200 bytes each.
    fn default() -> Self {
        Self::with_limit(NonZeroUsize::MIN.saturating_add(999_999))
    }
}

impl MemoryLedger {
    /// A ledger of at most so many transactions. Choose what the run will commit.
    #[must_use]
    pub fn with_limit(transactions: NonZeroUsize) -> Self {
        Self {
            transactions: HashMap::new(),
            limit: transactions.get(),
            refused: 0,
        }
    }

    /// Adds a transaction and marks what it spends. `false` when it was refused: the ledger is
    /// full, has it already, or it names an asset by something that is no id.
    pub fn apply(&mut self, transaction: &Transaction) -> bool {
        let effect = transaction.effect();
        let room = self.transactions.len() < self.limit;
        let Some(asset) = effect
            .asset()
            .filter(|_| room && !self.contains(&transaction.id))
        else {
            self.refused += 1;
            return false;
        };
        for (id, index) in effect.spends() {
            if let Some(slot) = self.slot(&id, index) {
                slot.spent = true;
            }
        }
        let outputs = effect.makes().iter().map(|made| Slot {
            amount: made.amount,
            condition: made.condition,
            spent: false,
        });
        let outputs = outputs.collect();
        self.transactions
            .insert(transaction.id, Entry { asset, outputs });
        true
    }

    /// How many transactions were refused by [`Self::apply`].
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn slot(&mut self, id: &Id, output_index: u64) -> Option<&mut Slot> {
        let index = usize::try_from(output_index).ok()?;
        self.transactions.get_mut(id)?.outputs.get_mut(index)
    }
}

impl Ledger for MemoryLedger {
    fn contains(&self, id: &Id) -> bool {
        self.transactions.contains_key(id)
    }

    fn find(&self, id: &Id, output_index: u64) -> Found {
        let Some(entry) = self.transactions.get(id) else {
            return Found::NoTransaction;
        };
        let slot = usize::try_from(output_index)
            .ok()
            .and_then(|index| entry.outputs.get(index));
        match slot {
            None => Found::NoOutput,
            Some(slot) if slot.spent => Found::Spent,
            Some(slot) => Found::Unspent(Coin {
                asset: entry.asset,
                amount: slot.amount,
                condition: slot.condition,
            }),
        }
    }
}
