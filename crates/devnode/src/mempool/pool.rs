//! What the mempool holds in order of arrival, and what it has seen.

use lru::LruCache;

use super::Depth;
use crate::app::{Hash, Tx};
use crate::hash::ByPrefix;

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

/// An LRU set of transaction hashes.
#[derive(Debug)]
pub(super) struct SeenCache {
    capacity: usize,
    seen: LruCache<Hash, (), ByPrefix>,
}

impl SeenCache {
    /// A cache of `capacity` hashes; 0 remembers nothing.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: LruCache::unbounded_with_hasher(ByPrefix),
        }
    }

    /// Remembers a hash; false if it was known, which counts as seeing it again.
    pub(super) fn push(&mut self, hash: Hash) -> bool {
        let known = self.seen.put(hash, ()).is_some();
        if self.seen.len() > self.capacity {
            self.seen.pop_lru();
        }
        !known
    }

    pub(super) fn remove(&mut self, hash: &Hash) {
        self.seen.pop(hash);
    }

    pub(super) fn clear(&mut self) {
        self.seen.clear();
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

    fn hash(n: u8) -> Hash {
        let mut hash = [0; 32];
        hash[0] = n;
        hash
    }

    #[test]
    fn the_least_recently_seen_goes_first() {
        let mut cache = SeenCache::new(2);
        assert!(cache.push(hash(1)));
        assert!(cache.push(hash(2)));
        assert!(!cache.push(hash(1)));
        assert!(cache.push(hash(3)));
        assert!(!cache.push(hash(1)));
        assert!(cache.push(hash(2)));
    }

    #[test]
    fn a_cache_of_nothing_knows_nothing() {
        let mut cache = SeenCache::new(0);
        assert!(cache.push(hash(1)));
        assert!(cache.push(hash(1)));
    }

    proptest! {
        /// Against the plain definition: a list in order of last sight.
        #[test]
        fn the_cache_behaves_like_a_list(capacity in 1_usize..6, steps in prop::collection::vec((0_u8..8, any::<bool>()), 0..200)) {
            let mut cache = SeenCache::new(capacity);
            let mut list: Vec<u8> = Vec::new();
            for (key, remove) in steps {
                if remove {
                    cache.remove(&hash(key));
                    list.retain(|known| *known != key);
                } else {
                    let known = list.contains(&key);
                    prop_assert_eq!(cache.push(hash(key)), !known);
                    list.retain(|other| *other != key);
                    if list.len() == capacity {
                        list.remove(0);
                    }
                    list.push(key);
                }
                prop_assert_eq!(cache.seen.len(), list.len());
            }
        }
    }
}
