//! When each height was first heard of.

use std::collections::VecDeque;

use pacing::Nanos;

/// The heights that were announced and not delivered yet, with their instants.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// Heights and instants rise.
    heights: VecDeque<Heard>,
    latest: u64,
    /// When the node last announced a height by itself: it had no higher one then.
    told_at: Option<Nanos>,
}

/// A height that was heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    height: u64,
    /// When.
    pub(super) at: Nanos,
    /// How much earlier the node may have had it; `None` where it said so by itself.
    pub(super) resolution: Option<Nanos>,
}

impl Announced {
    /// The node has block `height` at the instant `now`, and perhaps has had it for up to `resolution`.
    pub(super) fn announce(&mut self, height: u64, now: Nanos, resolution: Option<Nanos>) {
        if height <= self.latest {
            return;
        }
        self.latest = height;
        let now = self.heights.back().map_or(now, |last| last.at.max(now));
        let since_told = self.told_at.map(|told_at| now.saturating_sub(told_at));
        let resolution = resolution.map(|open| open.min(since_told.unwrap_or(open)));
        if resolution.is_none() {
            self.told_at = Some(now);
        }
        // Past the bound only the instants of later heights are lost: they get that of the next
        // announcement that is kept, or of their arrival.
        if self.heights.len() < MAX_HEIGHTS {
            self.heights.push_back(Heard {
                height,
                at: now,
                resolution,
            });
        }
    }

    /// The highest block the node is known to have; 0 = none.
    pub(super) const fn latest(&self) -> u64 {
        self.latest
    }

    /// When and how this height or a higher one was first heard of.
    pub(super) fn first_of(&self, height: u64) -> Option<Heard> {
        let at = self.heights.partition_point(|heard| heard.height < height);
        self.heights.get(at).copied()
    }

    /// Forgets this height and those below.
    pub(super) fn forget_to(&mut self, height: u64) {
        let gone = self.heights.partition_point(|heard| heard.height <= height);
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
        assert_eq!(announced.first_of(1), None);
        announced.announce(3, Nanos::new(30), None);
        announced.announce(2, Nanos::new(31), None);
        announced.announce(5, Nanos::new(50), Some(Nanos::new(9)));
        let first = |height| announced.first_of(height).unwrap();
        let instants = [1, 3, 4, 5].map(|height| first(height).at.as_nanos());
        assert_eq!((instants, announced.first_of(6)), ([30, 30, 50, 50], None));
        assert_eq!(
            (first(3).resolution, first(4).resolution),
            (None, Some(Nanos::new(9)))
        );
        // A poll that overtakes an announcement: the height before was announced a moment ago.
        announced.announce(6, Nanos::new(60), None);
        announced.announce(7, Nanos::new(64), Some(Nanos::new(64)));
        assert_eq!(
            announced.first_of(7).unwrap().resolution,
            Some(Nanos::new(4))
        );
        announced.forget_to(4);
        assert_eq!(announced.first_of(1).unwrap().at, Nanos::new(50));
        announced.forget_to(7);
        assert_eq!((announced.latest(), announced.first_of(1)), (7, None));
    }
}
