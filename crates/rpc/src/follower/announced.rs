//! When each height was first heard of.

use std::collections::VecDeque;

use pacing::Nanos;

/// The heights that were announced and not delivered yet, with their instants.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Both parts rise.
    heights: VecDeque<(u64, Nanos)>,
    latest: u64,
}

impl Announced {
    /// The node has block `height` at the instant `now`.
    pub(super) fn hear(&mut self, height: u64, now: Nanos) {
        if height <= self.latest {
            return;
        }
        self.latest = height;
        // Past the bound only the instants of later heights are lost: they get that of the next
        // announcement that is kept, or of their arrival.
        if self.heights.len() < MAX_HEIGHTS {
            self.heights.push_back((height, now));
        }
    }

    /// The highest block the node is known to have; 0 = none.
    pub(super) const fn latest(&self) -> u64 {
        self.latest
    }

    /// When this height or a higher one was first heard of.
    pub(super) fn instant(&self, height: u64) -> Option<Nanos> {
        let at = self
            .heights
            .partition_point(|(announced, _)| *announced < height);
        self.heights.get(at).map(|(_, instant)| *instant)
    }

    /// Forgets this height and those below.
    pub(super) fn forget_to(&mut self, height: u64) {
        let gone = self
            .heights
            .partition_point(|(announced, _)| *announced <= height);
        self.heights.drain(..gone);
    }
}

/// At one block a second this is more than an hour of a reader that does not read.
const MAX_HEIGHTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_height_has_the_first_instant_that_implies_it() {
        let mut announced = Announced::default();
        assert_eq!(announced.instant(1), None);
        announced.hear(3, Nanos::new(30));
        announced.hear(2, Nanos::new(31));
        announced.hear(5, Nanos::new(50));
        let instants = [1, 3, 4, 5].map(|height| announced.instant(height).unwrap().as_nanos());
        assert_eq!((instants, announced.instant(6)), ([30, 30, 50, 50], None));
        announced.forget_to(4);
        assert_eq!(announced.instant(1), Some(Nanos::new(50)));
        announced.forget_to(5);
        assert_eq!((announced.latest(), announced.instant(1)), (5, None));
    }
}
