//! Transactions that wait for what others may spend.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use crate::admit::Key;

/// A line behind each key that a transaction holds, in order of arrival.
///
/// A transaction stands in the lines of all its keys that are held when it comes, and holds its other keys from
/// then on. So a transaction waits only for earlier ones, and enters and leaves one line for each of
/// its keys, however the others conflict.
#[derive(Debug)]
pub(super) struct Lines<K, Tx> {
    /// Arrivals. Those that have left another way are skipped when their turn comes.
    of_key: HashMap<K, VecDeque<u64>>,
    waiting: BTreeMap<u64, Waiting<K, Tx>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Waiting<K, Tx> {
    tx: Tx,
    /// Keys that others hold.
    missing: HashSet<K>,
}

impl<K: Key, Tx> Lines<K, Tx> {
    pub(super) fn new() -> Self {
        Self {
            of_key: HashMap::new(),
            waiting: BTreeMap::new(),
            arrivals: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a transaction that waits for these keys, one at least.
    pub(super) fn stand(&mut self, tx: Tx, missing: HashSet<K>) {
        for key in &missing {
            let line = self.of_key.entry(*key).or_default();
            line.push_back(self.arrivals);
        }
        self.waiting.insert(self.arrivals, Waiting { tx, missing });
        self.arrivals += 1;
    }

    /// The holder of a key has left without spending it: the first in its line holds it now. Returns that one if it
    /// waits for nothing else.
    pub(super) fn pass_on(&mut self, key: &K) -> Option<Tx> {
        let line = self.of_key.get_mut(key)?;
        let waiting = &mut self.waiting;
        let next = std::iter::from_fn(|| line.pop_front()).find(|next| waiting.contains_key(next));
        if line.is_empty() {
            self.of_key.remove(key);
        }
        let next = next?;
        let missing = &mut waiting.get_mut(&next)?.missing;
        missing.remove(key);
        let is_ready = missing.is_empty();
        is_ready
            .then(|| waiting.remove(&next))?
            .map(|ready| ready.tx)
    }

    /// Takes out all that wait for a key, which is spent, each with the keys that it misses: it holds its others.
    pub(super) fn dissolve(&mut self, key: &K) -> Vec<(Tx, HashSet<K>)> {
        let line = self.of_key.remove(key).unwrap_or_default();
        line.into_iter()
            .filter_map(|arrival| self.waiting.remove(&arrival))
            .map(|waiting| (waiting.tx, waiting.missing))
            .collect()
    }

    /// Takes all out, in order of arrival.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Tx> + use<K, Tx> {
        self.of_key.clear();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().map(|waiting| waiting.tx)
    }
}

/// Orphans by the parent that each waits for, at most so many; the oldest goes first.
#[derive(Debug)]
pub(super) struct OrphanPool<Id, Tx> {
    /// In order of arrival.
    waiting: BTreeMap<u64, (Id, Tx)>,
    /// In order of arrival: the oldest of all is the first of its parent's.
    of_parent: HashMap<Id, VecDeque<u64>>,
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
            .push_back(self.arrivals);
        self.waiting.insert(self.arrivals, (parent, tx));
        self.arrivals += 1;
        if self.waiting.len() <= self.bound {
            return None;
        }
        let (_, (parent, tx)) = self.waiting.pop_first()?;
        if let Some(children) = self.of_parent.get_mut(&parent) {
            children.pop_front();
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
    use crate::admit::KeyBits;

    const fn key(number: u32) -> KeyBits {
        [number; 8]
    }

    #[test]
    fn a_key_goes_to_the_first_in_its_line_and_whoever_holds_all_its_keys_goes() {
        let mut lines = Lines::new();
        lines.stand('a', HashSet::from([key(1), key(2)]));
        lines.stand('b', HashSet::from([key(1)]));
        lines.stand('c', HashSet::from([key(2), key(2)]));
        assert_eq!(lines.pass_on(&key(3)), None);
        assert_eq!(lines.pass_on(&key(1)), None, "a waits for 2");
        assert_eq!(lines.pass_on(&key(2)), Some('a'));
        assert_eq!(lines.pass_on(&key(2)), Some('c'));
        assert_eq!(lines.pass_on(&key(1)), Some('b'));
        assert!(lines.is_empty() && lines.of_key.is_empty());
    }

    #[test]
    fn who_waits_for_a_spent_key_leaves_and_is_skipped_in_other_lines() {
        let mut lines = Lines::new();
        lines.stand('a', HashSet::from([key(1), key(2)]));
        lines.stand('b', HashSet::from([key(2)]));
        lines.stand('c', HashSet::from([key(1)]));
        let losers = lines.dissolve(&key(1));
        let (a, c) = ([key(1), key(2)].into(), [key(1)].into());
        assert_eq!(losers, [('a', a), ('c', c)]);
        assert_eq!(lines.pass_on(&key(2)), Some('b'));
        assert_eq!(lines.pass_on(&key(2)), None);
        assert!(lines.is_empty() && lines.of_key.is_empty());
    }

    #[test]
    fn all_leave_in_order_of_arrival() {
        let mut lines = Lines::new();
        for (tx, at) in [('a', 2), ('b', 1), ('c', 2)] {
            lines.stand(tx, HashSet::from([key(at)]));
        }
        assert_eq!(lines.take_all().collect::<String>(), "abc");
        assert!(lines.is_empty() && lines.of_key.is_empty());
    }

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
