//! The longest flows.

use std::collections::BTreeSet;

/// Up to this length a queue is short.
pub(crate) const SHORT: usize = 7;

/// Flows by their length; one of length 0 is not here.
#[derive(Default)]
pub(crate) struct Rank(BTreeSet<(u64, u32)>);

impl Rank {
    /// Moves a flow whose length changes.
    pub(crate) fn update(&mut self, flow: u32, (before, after): (u64, u64)) {
        if before != after {
            self.0.remove(&(before, flow));
            if after > 0 {
                self.0.insert((after, flow));
            }
        }
    }

    /// One of the longest.
    pub(crate) fn longest(&self) -> Option<u32> {
        self.descending().next()
    }

    /// Whether a short flow is here beside one that is not.
    pub(crate) fn is_uneven(&self) -> bool {
        let is_short = |flow: &(u64, u32)| flow.0 <= SHORT as u64;
        self.0.first().is_some_and(is_short) && !self.0.last().is_some_and(is_short)
    }

    /// Flows from long to short.
    pub(crate) fn descending(&self) -> impl Iterator<Item = u32> {
        self.0.iter().rev().map(|(_, flow)| *flow)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_beside_long_is_uneven() {
        let mut rank = Rank::default();
        let mut lengths = [0; 2];
        let mut is_uneven = |after: [u64; 2]| {
            for at in 0..2 {
                rank.update(at as u32, (lengths[at], after[at]));
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
        fn flows_come_by_their_length(
            steps in prop::collection::vec((0_usize..12, 0_u64..2_000, 0_u32..50), 1..200),
        ) {
            let mut rank = Rank::default();
            let mut lengths = [0_u64; 12];
            for (flow, mantissa, shift) in steps {
                let before = std::mem::replace(&mut lengths[flow], mantissa << shift);
                rank.update(flow as u32, (before, lengths[flow]));
                let longest = rank.longest().map_or(0, |flow| lengths[flow as usize]);
                prop_assert_eq!(longest, lengths.into_iter().max().unwrap());
                let all: Vec<u64> = rank.descending().map(|flow| lengths[flow as usize]).collect();
                prop_assert_eq!(all.len(), lengths.iter().filter(|&&length| length > 0).count());
                prop_assert!(all.is_sorted_by(|one, next| one >= next));
            }
        }
    }
}
