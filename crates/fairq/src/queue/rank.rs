//! The longest flow, found without a search.
//!
//! Flows stand in classes by length, eight to a doubling, so the longest class holds flows that are
//! within an eighth of the longest one. A bit for each class says whether anybody is in it.

use super::slab::{Linked, List, Slab};

/// Which class a node stands in.
pub(crate) trait Ranked<Tag>: Linked<Tag> {
    fn class(&self) -> u16;
    fn class_mut(&mut self) -> &mut u16;
}

/// The class of a node of length zero: it is on no list.
pub(crate) const UNRANKED: u16 = u16::MAX;

/// Lengths to 7 have a class each, then each of 61 doublings has eight.
const CLASSES: usize = 8 + 61 * 8;

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

    /// Tells the new length of a node.
    pub(crate) fn update<N: Ranked<Tag>>(&mut self, slab: &mut Slab<N>, number: u32, length: u64) {
        let class = class_of(length);
        let former = std::mem::replace(slab[number].class_mut(), class);
        if former == class {
            return;
        }
        if former != UNRANKED {
            let list = &mut self.classes[usize::from(former)];
            list.remove(slab, number);
            if list.is_empty() {
                self.occupied[usize::from(former) / 64] &= !(1 << (former % 64));
            }
        }
        if class != UNRANKED {
            self.classes[usize::from(class)].push_front(slab, number);
            self.occupied[usize::from(class) / 64] |= 1 << (class % 64);
        }
    }

    /// One of the longest, within an eighth.
    pub(crate) fn longest(&self) -> Option<u32> {
        self.classes[self.class_below(CLASSES)?].head()
    }

    /// Nodes from long to short, in the order of their classes.
    pub(crate) fn descending<'a, N: Ranked<Tag>>(
        &'a self,
        slab: &'a Slab<N>,
    ) -> impl Iterator<Item = u32> + 'a {
        let mut at = self.longest();
        std::iter::from_fn(move || {
            let number = at?;
            at = List::next(slab, number).or_else(|| {
                let class = usize::from(slab[number].class());
                self.classes[self.class_below(class)?].head()
            });
            Some(number)
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

fn class_of(length: u64) -> u16 {
    match u16::try_from(length) {
        Ok(0) => UNRANKED,
        Ok(short @ 1..8) => short,
        _ => {
            let octave = length.ilog2();
            let eighth = (length >> (octave - 3)) & 7;
            u16::try_from((u64::from(octave - 2) << 3) | eighth).expect("there are 496 classes")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::queue::slab::Link;

    struct Tag;

    struct Node {
        link: Link<Tag>,
        class: u16,
    }

    impl Linked<Tag> for Node {
        fn link(&self) -> &Link<Tag> {
            &self.link
        }

        fn link_mut(&mut self) -> &mut Link<Tag> {
            &mut self.link
        }
    }

    impl Ranked<Tag> for Node {
        fn class(&self) -> u16 {
            self.class
        }

        fn class_mut(&mut self) -> &mut u16 {
            &mut self.class
        }
    }

    #[test]
    fn classes_rise_with_the_length() {
        assert_eq!((class_of(1), class_of(7), class_of(8)), (1, 7, 8));
        assert_eq!(usize::from(class_of(u64::MAX)), CLASSES - 1);
        let lengths = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + (1 << bit) / 3]);
        let classes: Vec<u16> = lengths.map(class_of).collect();
        assert!(classes.is_sorted());
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
                slab.insert(Node { link: Link::default(), class: UNRANKED });
            }
            for (node, mantissa, shift) in steps {
                lengths[node] = mantissa << shift;
                rank.update(&mut slab, node as u32, lengths[node]);
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
                let classes: Vec<u16> = all.iter().rev().map(|&length| class_of(length)).collect();
                prop_assert!(classes.is_sorted());
            }
        }
    }
}
