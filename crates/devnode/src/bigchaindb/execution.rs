//! Which transactions of a block take effect.
//!
//! In order, each is held against what is committed and what came before it in the block. On
//! several threads the block is divided by **asset**: a transaction that takes effect spends
//! outputs of its own asset only, so those of other assets can neither help nor hinder it, and
//! each thread sees all that matters in the block's order. Divided by transaction, as in the
//! original's parallel mode, two spends of one output meet different threads and both take effect.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bigchain::{Effect, Found, Id, Ledger};

use super::state::{CommittedState, unspent};
use crate::hash::ByPrefix;

/// A transaction of a block; none if it is to fail in any case.
type Candidate = Option<Arc<Effect>>;

/// Of each transaction whether it takes effect, checked by so many threads.
pub(super) fn execute(state: &CommittedState, block: &[Candidate], workers: usize) -> Vec<bool> {
    let mut takes_effect = vec![false; block.len()];
    if workers <= 1 || block.len() <= 1 {
        for (index, good) in check_share(state, block, 0..block.len()) {
            takes_effect[index] = good;
        }
        return takes_effect;
    }
    let mut shares: Vec<Vec<usize>> = vec![Vec::new(); workers];
    for (index, effect) in block.iter().enumerate() {
        if let Some(asset) = effect.as_ref().and_then(|effect| effect.asset()) {
            shares[route(&asset, workers)].push(index);
        }
    }
    let checked: Vec<Vec<(usize, bool)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || check_share(state, block, share.into_iter())))
            .collect();
        // A thread that failed has checked nothing: its share takes no effect.
        let results = threads.into_iter().map(|thread| thread.join());
        results.map(Result::unwrap_or_default).collect()
    });
    for (index, good) in checked.into_iter().flatten() {
        takes_effect[index] = good;
    }
    takes_effect
}

/// The thread that judges the transactions of an asset.
fn route(asset: &Id, workers: usize) -> usize {
    let [first, second, ..] = asset.0;
    usize::from(u16::from_le_bytes([first, second])) % workers
}

fn check_share(
    state: &CommittedState,
    block: &[Candidate],
    share: impl Iterator<Item = usize>,
) -> Vec<(usize, bool)> {
    let mut ledger = BlockLedger {
        committed: state,
        made: HashMap::default(),
        spent: HashSet::new(),
    };
    share
        .map(|index| {
            (
                index,
                block[index]
                    .as_ref()
                    .is_some_and(|effect| ledger.take(effect)),
            )
        })
        .collect()
}

/// What is committed, and what came earlier in the block.
#[derive(Debug)]
struct BlockLedger<'a> {
    committed: &'a CommittedState,
    made: HashMap<Id, &'a Effect, ByPrefix>,
    spent: HashSet<(Id, u64)>,
}

impl<'a> BlockLedger<'a> {
    /// Takes a transaction in if it passes.
    fn take(&mut self, effect: &'a Effect) -> bool {
        if effect.check(self).is_err() {
            return false;
        }
        self.spent.extend(effect.spends());
        self.made.insert(effect.id(), effect);
        true
    }
}

impl Ledger for BlockLedger<'_> {
    fn contains(&self, id: &Id) -> bool {
        self.made.contains_key(id) || self.committed.contains(id)
    }

    fn find(&self, id: &Id, output_index: u64) -> Found {
        if self.spent.contains(&(*id, output_index)) {
            return Found::Spent;
        }
        match (self.made.get(id), usize::try_from(output_index)) {
            (Some(effect), Ok(index)) => unspent(effect, index),
            (Some(_), Err(_)) => Found::NoOutput,
            (None, _) => self.committed.find(id, output_index),
        }
    }
}
