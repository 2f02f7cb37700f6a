//! Transactions that wait for a parent.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Orphans by the parent that each waits for, at most so many; the oldest goes first.
#[derive(Debug)]
pub(super) struct OrphanPool<Id, Tx> {
    /// In order of arrival.
    waiting: BTreeMap<u64, (Id, Tx)>,
    of_parent: HashMap<Id, Vec<u64>>,
    arrivals: u64,
    bound: usize,
}

impl<Id: Copy + Eq + Hash, Tx> OrphanPool<Id, Tx> {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            of_parent: HashMap::new(),
            arrivals: 0,
            bound,
        }
    }

    /// Adds an orphan. Returns one that had to go for it, with its parent: the oldest, or with a bound of
    /// nothing the orphan itself.
    pub(super) fn add(&mut self, parent: Id, tx: Tx) -> Option<(Id, Tx)> {
        self.of_parent
            .entry(parent)
            .or_default()
            .push(self.arrivals);
        self.waiting.insert(self.arrivals, (parent, tx));
        self.arrivals += 1;
        if self.waiting.len() <= self.bound {
            return None;
        }
        let (arrival, (parent, tx)) = self.waiting.pop_first()?;
        if let Some(children) = self.of_parent.get_mut(&parent) {
            children.retain(|child| *child != arrival);
            if children.is_empty() {
                self.of_parent.remove(&parent);
            }
        }
        Some((parent, tx))
    }

    /// Takes out those that wait for this parent, in order of arrival.
    pub(super) fn release(&mut self, parent: &Id) -> Vec<Tx> {
        let children = self.of_parent.remove(parent).unwrap_or_default();
        children
            .iter()
            .filter_map(|child| self.waiting.remove(child))
            .map(|(_, tx)| tx)
            .collect()
    }

    /// Takes all out, in order of arrival.
    pub(super) fn release_all(&mut self) -> Vec<Tx> {
        self.of_parent.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().map(|(_, tx)| tx).collect()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_children_leave_in_the_order_in_which_they_came() {
        let mut pool = OrphanPool::new(3);
        for (parent, tx) in [("a", 1), ("b", 2), ("a", 3)] {
            assert_eq!(pool.add(parent, tx), None);
        }
        assert_eq!(pool.add("b", 4), Some(("a", 1)));
        assert_eq!(pool.release(&"b"), [2, 4]);
        assert_eq!(pool.release(&"b"), [0; 0]);
        assert_eq!(pool.release_all(), [3]);
        assert_eq!(OrphanPool::new(0).add("a", 5), Some(("a", 5)));
    }
}
