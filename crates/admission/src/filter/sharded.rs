//! A set that several threads claim from.

use std::sync::PoisonError;

use super::Filter;
use crate::key::Key;
use crate::sync::{Mutex, lock};

/// A set divided by key, each part behind a lock of its own: a key belongs to one part, so two claims of
/// it follow one another, and claims of others seldom meet.
#[derive(Debug)]
pub struct Sharded<F> {
    shards: Box<[Mutex<F>]>,
}

impl<F> Sharded<F> {
    /// Divides among these, at least one. Four times the number of threads makes meetings rare.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(shards: impl IntoIterator<Item = F>) -> Self {
        let shards: Box<[_]> = shards.into_iter().map(Mutex::new).collect();
        assert!(!shards.is_empty(), "a sharded set needs at least one shard");
        Self { shards }
    }

    /// [`Filter::claim`] for threads that share the set.
    pub fn claim_shared<K: Key>(&self, key: &K) -> bool
    where
        F: Filter<K>,
    {
        lock(&self.shards[self.shard(key)]).claim(key)
    }

    /// The shard of a key. Who crafts keys of one shard gains their waiting for one another, no more.
    fn shard<K: Key>(&self, key: &K) -> usize {
        let [.., last] = key.bits();
        (last >> 16) as usize % self.shards.len()
    }
}

impl<K: Key, F: Filter<K>> Filter<K> for Sharded<F> {
    fn claim(&mut self, key: &K) -> bool {
        self.claim_shared(key)
    }

    fn contains(&self, key: &K) -> bool {
        lock(&self.shards[self.shard(key)]).contains(key)
    }

    fn clear(&mut self) {
        for shard in &mut self.shards {
            shard
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::ExactSet;

    proptest! {
        #[test]
        fn it_is_the_set_that_it_divides(keys in prop::collection::vec((0_u32..20, 0_u32..70_000), 0..200), shards in 1_usize..5) {
            let mut sharded = Sharded::new(std::iter::repeat_with(ExactSet::default).take(shards));
            let mut exact = ExactSet::default();
            for (low, high) in keys {
                let key: crate::KeyBits = [low, 0, 0, 0, 0, 0, 0, high << 15];
                prop_assert_eq!(sharded.contains(&key), exact.contains(&key));
                prop_assert_eq!(sharded.claim(&key), exact.claim(&key));
            }
            Filter::<crate::KeyBits>::clear(&mut sharded);
            prop_assert!(!sharded.contains(&[0; 8]));
        }
    }
}
