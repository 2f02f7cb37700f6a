//! Transactions in order of arrival, removable by hash.

use std::collections::{HashMap, VecDeque};

use super::Depth;
use crate::chain::block::Tx;
use crate::chain::merkle::Hash;
use crate::chain::prefix::ByPrefix;

/// Empty slots that are tolerated beyond the live ones before the queue is tidied.
const SLACK: usize = 1024;

/// A queue with holes: removal empties a slot, and slots are found by their number.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slots: VecDeque<Option<Tx>>,
    /// Number of the first slot.
    first: u64,
    numbers: HashMap<Hash, u64, ByPrefix>,
    bytes: u64,
}

impl Pool {
    pub(super) fn depth(&self) -> Depth {
        Depth {
            txs: self.numbers.len(),
            bytes: self.bytes,
        }
    }

    /// Appends a transaction; one that is there already stays where it is.
    pub(super) fn push(&mut self, tx: Tx) {
        let number = self.first + self.slots.len() as u64;
        if let std::collections::hash_map::Entry::Vacant(entry) = self.numbers.entry(tx.hash) {
            entry.insert(number);
            self.bytes += tx.bytes.len() as u64;
            self.slots.push_back(Some(tx));
        }
    }

    pub(super) fn remove(&mut self, hash: &Hash) {
        let Some(number) = self.numbers.remove(hash) else {
            return;
        };
        let slot = usize::try_from(number - self.first)
            .ok()
            .and_then(|at| self.slots.get_mut(at));
        if let Some(tx) = slot.and_then(Option::take) {
            self.bytes -= tx.bytes.len() as u64;
        }
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
        }
        if self.slots.len() > 2 * self.numbers.len() + SLACK {
            self.tidy();
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Tx> {
        self.slots.iter().flatten()
    }

    /// Hashes of the transactions that do not pass.
    pub(super) fn failing(&self, passes: impl Fn(&Tx) -> bool) -> Vec<Hash> {
        let failing = self.iter().filter(|tx| !passes(tx));
        failing.map(|tx| tx.hash).collect()
    }

    /// Closes the holes behind a transaction that stays long.
    fn tidy(&mut self) {
        self.slots.retain(Option::is_some);
        for (number, tx) in (self.first..).zip(self.slots.iter().flatten()) {
            self.numbers.insert(tx.hash, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn tx(n: u16) -> Tx {
        Tx::new(Bytes::from(n.to_le_bytes().to_vec()))
    }

    #[test]
    fn a_transaction_that_stays_does_not_keep_holes() {
        let mut pool = Pool::default();
        pool.push(tx(0));
        for n in 1..10_000 {
            pool.push(tx(n));
            pool.remove(&tx(n).hash);
        }
        assert_eq!(pool.depth(), Depth { txs: 1, bytes: 2 });
        assert!(pool.slots.len() <= SLACK + 2);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_list(steps in prop::collection::vec((0_u16..40, any::<bool>()), 0..400)) {
            let mut pool = Pool::default();
            let mut list: Vec<u16> = Vec::new();
            for (n, remove) in steps {
                if remove {
                    pool.remove(&tx(n).hash);
                    list.retain(|known| *known != n);
                } else {
                    pool.push(tx(n));
                    if !list.contains(&n) {
                        list.push(n);
                    }
                }
                let order: Vec<Bytes> = pool.iter().map(|tx| tx.bytes.clone()).collect();
                let expected: Vec<Bytes> = list.iter().map(|n| tx(*n).bytes).collect();
                prop_assert_eq!(order, expected);
                prop_assert_eq!(pool.depth().bytes, 2 * list.len() as u64);
            }
        }
    }
}
