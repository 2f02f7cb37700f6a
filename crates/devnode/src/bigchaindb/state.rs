//! What is committed: the ledger, and the indices that the HTTP API asks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bigchain::block::AppHash;
use bigchain::{Coin, Effect, Found, Id, Ledger, Operation, PublicKey};

use crate::chain::store::TxPlace;
use crate::hash::ByPrefix;

/// A reference to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputRef {
    pub(super) transaction: Id,
    pub(super) index: u32,
}

/// Which outputs a query selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFilter {
    All,
    Spent,
    Unspent,
}

/// The committed state.
///
/// Its bound is a number of transactions: past it the oldest is forgotten with its outputs. What
/// is forgotten cannot be spent any more, and is not known as a duplicate.
#[derive(Debug)]
pub(super) struct CommittedState {
    transactions: HashMap<Id, Entry, ByPrefix>,
    /// The transactions in the order of the chain.
    order: VecDeque<Id>,
    /// The TRANSFERs of each asset, in the order of the chain.
    transfers: HashMap<Id, VecDeque<Id>, ByPrefix>,
    /// The outputs in which each key is, in the order of the chain.
    outputs: HashMap<PublicKey, VecDeque<OutputRef>>,
    app_hash: AppHash,
    retain: usize,
}

#[derive(Debug)]
struct Entry {
    effect: Arc<Effect>,
    place: TxPlace,
    /// Of each output whether it is spent; empty while none is.
    spent: Box<[bool]>,
}

impl CommittedState {
    /// A state of at most so many transactions, at least one.
    pub(super) fn new(retain: usize) -> Self {
        Self {
            transactions: HashMap::default(),
            order: VecDeque::new(),
            transfers: HashMap::default(),
            outputs: HashMap::new(),
            app_hash: AppHash::default(),
            retain: retain.max(1),
        }
    }

    pub(super) fn app_hash(&self) -> &AppHash {
        &self.app_hash
    }

    /// Where a transaction is; none if it is unknown or forgotten.
    pub(super) fn place(&self, id: &Id) -> Option<TxPlace> {
        self.transactions.get(id).map(|entry| entry.place)
    }

    /// The transactions of an asset in the order of the chain: its CREATE, then its TRANSFERs.
    pub(super) fn of_asset(&self, asset: &Id, operation: Option<Operation>) -> Vec<TxPlace> {
        let create = (operation != Some(Operation::Transfer))
            .then(|| self.transactions.get(asset))
            .flatten()
            .filter(|entry| entry.effect.operation() == Operation::Create);
        let transfers = (operation != Some(Operation::Create))
            .then(|| self.transfers.get(asset))
            .flatten();
        let transfers = transfers
            .into_iter()
            .flatten()
            .filter_map(|id| self.transactions.get(id));
        create
            .into_iter()
            .chain(transfers)
            .map(|entry| entry.place)
            .collect()
    }

    /// The outputs in which a key is, in the order of the chain.
    pub(super) fn outputs(&self, key: &PublicKey, filter: OutputFilter) -> Vec<OutputRef> {
        let wanted = |output: &&OutputRef| match filter {
            OutputFilter::All => true,
            OutputFilter::Spent => self.is_spent(output),
            OutputFilter::Unspent => !self.is_spent(output),
        };
        let outputs = self.outputs.get(key).into_iter().flatten();
        outputs.filter(wanted).copied().collect()
    }

    fn is_spent(&self, output: &OutputRef) -> bool {
        self.transactions
            .get(&output.transaction)
            .is_some_and(|entry| entry.is_spent(output.index as usize))
    }

    /// Adds a block's valid transactions, each with its index.
    pub(super) fn apply(&mut self, height: u64, valid: &[(u32, Arc<Effect>)], app_hash: AppHash) {
        for (index, effect) in valid {
            let place = TxPlace {
                height,
                index: *index,
            };
            self.add(effect, place);
        }
        self.app_hash = app_hash;
        while self.order.len() > self.retain {
            self.forget_oldest();
        }
    }

    fn add(&mut self, effect: &Arc<Effect>, place: TxPlace) {
        let id = effect.id();
        for (spent, index) in effect.spends() {
            if let Some(entry) = self.transactions.get_mut(&spent) {
                entry.spend(index);
            }
        }
        if effect.operation() == Operation::Transfer
            && let Some(asset) = effect.asset()
        {
            self.transfers.entry(asset).or_default().push_back(id);
        }
        for (index, made) in (0..).zip(effect.makes()) {
            for key in &made.keys {
                let output = OutputRef {
                    transaction: id,
                    index,
                };
                self.outputs.entry(*key).or_default().push_back(output);
            }
        }
        let entry = Entry {
            effect: Arc::clone(effect),
            place,
            spent: Box::default(),
        };
        self.transactions.insert(id, entry);
        self.order.push_back(id);
    }

    /// The oldest transaction is the first in every list that it is in.
    fn forget_oldest(&mut self) {
        let Some(id) = self.order.pop_front() else {
            return;
        };
        let Some(entry) = self.transactions.remove(&id) else {
            return;
        };
        if let Some(asset) = entry.effect.asset()
            && let Some(transfers) = self.transfers.get_mut(&asset)
        {
            if transfers.front() == Some(&id) {
                transfers.pop_front();
            }
            if transfers.is_empty() {
                self.transfers.remove(&asset);
            }
        }
        for key in entry.effect.makes().iter().flat_map(|made| &made.keys) {
            if let Some(outputs) = self.outputs.get_mut(key) {
                while outputs.front().is_some_and(|first| first.transaction == id) {
                    outputs.pop_front();
                }
                if outputs.is_empty() {
                    self.outputs.remove(key);
                }
            }
        }
    }
}

impl Entry {
    fn is_spent(&self, index: usize) -> bool {
        self.spent.get(index).copied().unwrap_or(false)
    }

    fn spend(&mut self, index: u64) {
        if self.spent.is_empty() {
            self.spent = vec![false; self.effect.makes().len()].into_boxed_slice();
        }
        let spent = usize::try_from(index)
            .ok()
            .and_then(|index| self.spent.get_mut(index));
        if let Some(spent) = spent {
            *spent = true;
        }
    }
}

impl Ledger for CommittedState {
    fn contains(&self, id: &Id) -> bool {
        self.transactions.contains_key(id)
    }

    fn find(&self, id: &Id, output_index: u64) -> Found {
        let Some(entry) = self.transactions.get(id) else {
            return Found::NoTransaction;
        };
        match usize::try_from(output_index) {
            Ok(index) if entry.is_spent(index) => Found::Spent,
            Ok(index) => unspent(&entry.effect, index),
            Err(_) => Found::NoOutput,
        }
    }
}

/// What is found at an unspent output.
pub(super) fn unspent(effect: &Effect, index: usize) -> Found {
    match (effect.makes().get(index), effect.asset()) {
        (Some(made), Some(asset)) => Found::Unspent(Coin {
            asset,
            amount: made.amount,
            condition: made.condition,
        }),
        _ => Found::NoOutput,
    }
}
