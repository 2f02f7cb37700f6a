//! Transactions in order of arrival, removable by hash.

use lru::LruCache;

use super::Depth;
use crate::app::{Hash, Tx};
use crate::chain::hash::ByPrefix;

/// A queue from which any transaction can be taken: a map whose entries are linked in the order in
/// which they came.
#[derive(Debug)]
pub(super) struct Pool {
    txs: LruCache<Hash, Tx, ByPrefix>,
    bytes: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            txs: LruCache::unbounded_with_hasher(ByPrefix),
            bytes: 0,
        }
    }
}

impl Pool {
    pub(super) fn depth(&self) -> Depth {
        Depth {
            txs: self.txs.len(),
            bytes: self.bytes,
        }
    }

    /// Appends a transaction; one that is there already stays where it is.
    pub(super) fn push(&mut self, tx: Tx) {
        if !self.txs.contains(&tx.hash) {
            self.bytes += tx.bytes.len() as u64;
            self.txs.put(tx.hash, tx);
        }
    }

    pub(super) fn remove(&mut self, hash: &Hash) {
        if let Some(tx) = self.txs.pop(hash) {
            self.bytes -= tx.bytes.len() as u64;
        }
    }

    /// The transactions, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Tx> {
        self.txs.iter().rev().map(|(_, tx)| tx)
    }

    /// Hashes of the transactions that do not pass.
    pub(super) fn failing(&self, passes: impl Fn(&Tx) -> bool) -> Vec<Hash> {
        let failing = self.iter().filter(|tx| !passes(tx));
        failing.map(|tx| tx.hash).collect()
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
