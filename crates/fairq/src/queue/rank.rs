//! The longest flow, found without a search.
//!
//! Flows stand in classes by length, eight to a doubling, so the longest class holds flows that are
//! within an eighth of the longest one. A bit for each class is set while the class has a flow.

use std::iter::successors;

use super::slab::{Linked, List, Slab};

/// Lengths to 7 have a class each, then each of 61 doublings has eight.
const CLASSES: usize = 8 + 61 * 8;
/// Up to this length a queue is short.
pub(crate) const SHORT: usize = 7;

pub(crate) struct Rank<Tag> {
    classes: Box<[List<Tag>]>,
    occupied: [u64; CLASSES.div_ceil(64)],
}

impl<Tag> Rank<Tag> {
    pub(crate) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| List::default()).collect(),
            occupied: [0; CLASSES.div_ceil(64)],
        }
    }

    /// Moves a node whose length changes. A node of length 0 is in no class.
    pub(crate) fn update<N: Linked<Tag>>(
        &mut self,
        slab: &mut Slab<N>,
        number: u32,
        (before, after): (u64, u64),
    ) {
        let (former, class) = (class_of(before), class_of(after));
        if former == class {
            return;
        }
        if before > 0 {
            let list = &mut self.classes[former];
            list.remove(slab, number);
            if list.is_empty() {
                self.occupied[former / 64] &= !(1 << (former % 64));
            }
        }
        if after > 0 {
            self.classes[class].push_back(slab, number);
            self.occupied[class / 64] |= 1 << (class % 64);
        }
    }

    /// One of the longest, within an eighth.
    pub(crate) fn longest(&self) -> Option<u32> {
        self.classes[self.class_below(CLASSES)?].head()
    }

    /// Whether a short node is here beside one that is not.
    pub(crate) fn is_uneven(&self) -> bool {
        // The short lengths have a class each.
        let short = self.occupied[0] & ((2 << SHORT) - 1);
        short != 0
            && (self.occupied[0] != short || self.occupied[1..].iter().any(|word| *word != 0))
    }

    /// Nodes from long to short, in the order of their classes.
    pub(crate) fn descending<N: Linked<Tag>>(&self, slab: &Slab<N>) -> impl Iterator<Item = u32> {
        let classes = successors(self.class_below(CLASSES), |class| self.class_below(*class));
        classes.flat_map(|class| {
            successors(self.classes[class].head(), |node| List::next(slab, *node))
        })
    }

    /// The highest class in use below this one.
    fn class_below(&self, class: usize) -> Option<usize> {
        let mut word = class / 64;
        let mut bits = self
            .occupied
            .get(word)
            .map_or(0, |bits| bits & ((1 << (class % 64)) - 1));
        loop {
            if bits != 0 {
                return Some(word * 64 + 63 - bits.leading_zeros() as usize);
            }
            word = word.checked_sub(1)?;
            bits = self.occupied[word];
        }
    }
}

fn class_of(length: u64) -> usize {
    if length < 8 {
        return length as usize;
    }
    let octave = length.ilog2();
    let eighth = (length >> (octave - 3)) & 7;
    ((octave as usize - 2) << 3) | eighth as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::slab::Link;

    struct Tag;

    struct Node {
        link: Link<Tag>,
    }

    impl Linked<Tag> for Node {
        fn link(&self) -> &Link<Tag> {
            &self.link
        }

        fn link_mut(&mut self) -> &mut Link<Tag> {
            &mut self.link
        }
    }

    #[test]
    fn classes_rise_with_the_length() {
        assert_eq!((class_of(1), class_of(7), class_of(8)), (1, 7, 8));
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
        let lengths = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3]);
        let classes: Vec<usize> = lengths.map(class_of).collect();
        assert!(classes.is_sorted());
    }

    #[test]
    fn short_beside_long_is_uneven() {
        let mut slab = Slab::new();
        let mut rank = Rank::<Tag>::new();
        let nodes = [0; 2].map(|_| {
            slab.insert(Node {
                link: Link::default(),
            })
        });
        let mut lengths = [0; 2];
        let mut is_uneven = |after: [u64; 2]| {
            for at in 0..2 {
                rank.update(&mut slab, nodes[at], (lengths[at], after[at]));
            }
            lengths = after;
            rank.is_uneven()
        };
        for even in [[0, 0], [7, 1], [0, 5_000], [8, 9], [u64::MAX, 8]] {
            assert!(!is_uneven(even), "{even:?}");
        }
        for uneven in [[7, 8], [1, 5_000], [u64::MAX, 1]] {
            assert!(is_uneven(uneven), "{uneven:?}");
        }
    }

    proptest! {
        #[test]
        fn the_longest_within_an_eighth(
            steps in prop::collection::vec((0_usize..12, 0_u64..2_000, 0_u32..50), 1..200),
        ) {
            let mut slab = Slab::new();
            let mut rank = Rank::new();
            let mut lengths = [0_u64; 12];
            for _ in 0..12 {
                slab.insert(Node { link: Link::default() });
            }
            for (node, mantissa, shift) in steps {
                let before = std::mem::replace(&mut lengths[node], mantissa << shift);
                rank.update(&mut slab, node as u32, (before, lengths[node]));
                let longest = lengths.iter().copied().max().unwrap();
                match rank.longest() {
                    Some(number) => {
                        let found = lengths[number as usize];
                        prop_assert!(found <= longest && found > longest - longest / 8 - 1);
                    }
                    None => prop_assert_eq!(longest, 0),
                }
                let all: Vec<u64> = rank.descending(&slab).map(|n| lengths[n as usize]).collect();
                prop_assert_eq!(all.len(), lengths.iter().filter(|&&l| l > 0).count());
                let classes: Vec<usize> = all.iter().rev().map(|&length| class_of(length)).collect();
                prop_assert!(classes.is_sorted());
            }
        }
    }
}
