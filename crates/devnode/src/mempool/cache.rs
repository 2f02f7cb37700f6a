//! Remembers the last transactions that were seen, the least recently seen go first.

use lru::LruCache;

use crate::app::Hash;
use crate::chain::hash::ByPrefix;

/// An LRU set of transaction hashes.
#[derive(Debug)]
pub(crate) struct SeenCache {
    capacity: usize,
    seen: LruCache<Hash, (), ByPrefix>,
}

impl SeenCache {
    /// A cache of `capacity` hashes; 0 remembers nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            seen: LruCache::unbounded_with_hasher(ByPrefix),
        }
    }

    /// Remembers a hash; false if it was known, which counts as seeing it again.
    pub(crate) fn push(&mut self, hash: Hash) -> bool {
        let known = self.seen.put(hash, ()).is_some();
        if self.seen.len() > self.capacity {
            self.seen.pop_lru();
        }
        !known
    }

    pub(crate) fn remove(&mut self, hash: &Hash) {
        self.seen.pop(hash);
    }

    pub(crate) fn clear(&mut self) {
        self.seen.clear();
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
                prop_assert_eq!(cache.seen.len(), list.len());
            }
        }
    }
}
