//! The exact set.

use std::collections::HashSet;

use super::Filter;
use crate::key::Key;

/// Every key, exactly. It grows with the keys until it is cleared and keeps its memory then; the number
/// of keys in an epoch bounds it.
#[derive(Debug, Clone)]
pub struct ExactSet<K> {
    keys: HashSet<K>,
}

impl<K> Default for ExactSet<K> {
    fn default() -> Self {
        Self {
            keys: HashSet::new(),
        }
    }
}

impl<K: Key> Filter<K> for ExactSet<K> {
    fn claim(&mut self, key: &K) -> bool {
        self.keys.insert(*key)
    }

    fn contains(&self, key: &K) -> bool {
        self.keys.contains(key)
    }

    fn clear(&mut self) {
        self.keys.clear();
    }
}
