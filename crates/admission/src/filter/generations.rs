//! A filter with a guaranteed memory.

use super::{FastFilter, Filter};
use crate::key::Key;

/// Two filters: new keys go into the younger, and when that holds a generation, the older is cleared and
/// becomes the younger. The last `generation` keys are always remembered, and never more than twice as
/// many.
#[derive(Debug, Clone)]
pub struct TwoGenerationFilter<F = FastFilter> {
    younger: F,
    older: F,
    /// Keys in the younger.
    held: usize,
    generation: usize,
}

impl<F: Clone> TwoGenerationFilter<F> {
    /// A filter that remembers at least the last `generation` keys, of two copies of an empty filter. A
    /// fast filter of 16 positions stays below one false conflict in a million up to about 100,000.
    pub fn new(empty: F, generation: usize) -> Self {
        Self {
            older: empty.clone(),
            younger: empty,
            held: 0,
            generation: generation.max(1),
        }
    }
}

impl<K: Key, F: Filter<K>> Filter<K> for TwoGenerationFilter<F> {
    fn claim(&mut self, key: &K) -> bool {
        let known = self.contains(key);
        if self.held == self.generation {
            std::mem::swap(&mut self.younger, &mut self.older);
            self.younger.clear();
            self.held = 0;
        }
        self.held += usize::from(self.younger.claim(key));
        !known
    }

    fn contains(&self, key: &K) -> bool {
        self.younger.contains(key) || self.older.contains(key)
    }

    fn clear(&mut self) {
        self.younger.clear();
        self.older.clear();
        self.held = 0;
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::ExactSet;
    use crate::key::KeyBits;

    proptest! {
        /// Whatever is claimed: the last distinct keys of a generation are known, and none older than two.
        #[test]
        fn the_last_generation_is_always_remembered(
            generation in 1_usize..8,
            claims in prop::collection::vec(0_u32..30, 0..200),
        ) {
            let mut filter = TwoGenerationFilter::new(ExactSet::<KeyBits>::default(), generation);
            // Distinct keys, the most recently claimed last.
            let mut recent: Vec<u32> = Vec::new();
            for number in claims {
                let key = [number; 8];
                let known = filter.contains(&key);
                prop_assert_eq!(filter.claim(&key), !known);
                recent.retain(|other| *other != number);
                recent.push(number);
                for last in recent.iter().rev().take(generation) {
                    prop_assert!(filter.contains(&[*last; 8]));
                }
                let held = (0..30).filter(|number| filter.contains(&[*number; 8])).count();
                prop_assert!(held <= 2 * generation);
            }
        }
    }
}
