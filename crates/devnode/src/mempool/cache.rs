//! Remembers the last transactions that were seen, the least recently seen go first.

use std::collections::{HashMap, VecDeque};

use crate::chain::merkle::Hash;
use crate::chain::prefix::ByPrefix;

/// An LRU set of transaction hashes.
///
/// Its order is a queue with stale entries: a hash that is seen again gets a new entry, and only
/// the entry whose number is the hash's counts.
#[derive(Debug)]
pub(crate) struct SeenCache {
    capacity: usize,
    seen: HashMap<Hash, u64, ByPrefix>,
    order: VecDeque<(u64, Hash)>,
    next: u64,
}

/// Stale entries that are tolerated beyond the capacity before the queue is tidied.
const SLACK: usize = 1024;

impl SeenCache {
    /// A cache of `capacity` hashes; 0 remembers nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: HashMap::default(),
            order: VecDeque::new(),
            next: 0,
        }
    }

    /// Remembers a hash; false if it was known, which counts as seeing it again.
    pub(crate) fn push(&mut self, hash: Hash) -> bool {
        if self.capacity == 0 {
            return true;
        }
        self.next += 1;
        let known = self.seen.insert(hash, self.next).is_some();
        self.order.push_back((self.next, hash));
        if !known && self.seen.len() > self.capacity {
            self.evict();
        }
        if self.order.len() > 2 * self.capacity + SLACK {
            let seen = &self.seen;
            self.order
                .retain(|(number, hash)| seen.get(hash) == Some(number));
        }
        !known
    }

    pub(crate) fn remove(&mut self, hash: &Hash) {
        self.seen.remove(hash);
    }

    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.order.clear();
    }

    fn evict(&mut self) {
        while let Some((number, hash)) = self.order.pop_front() {
            if self.seen.get(&hash) == Some(&number) {
                self.seen.remove(&hash);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        fn it_behaves_like_a_list(capacity in 1_usize..6, steps in prop::collection::vec((0_u8..8, any::<bool>()), 0..200)) {
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
                prop_assert!(cache.order.len() <= 2 * capacity + SLACK);
            }
        }
    }
}
