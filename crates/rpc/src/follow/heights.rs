//! When each height was first heard of, and when the next one is expected.

use std::collections::VecDeque;
use std::time::Duration;

use pacing::Nanos;
use tokio::time::Instant;

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
    /// How much earlier the node may have had it; `None` where the node announced it.
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

/// Plans the polls of a node around the instants at which its next blocks are expected.
///
/// A poll finds a block later than it came, by as much as the time since the poll before. Polls are dense
/// where a block is expected and rare elsewhere; there are at most 50 a second.
#[derive(Debug, Default)]
pub(super) struct Forecast {
    /// Heights and when they were found, rising.
    found: VecDeque<(u64, Instant)>,
}

impl Forecast {
    /// A poll has found this height.
    pub(super) fn found(&mut self, height: u64, now: Instant) {
        if self.found.back().is_some_and(|(last, _)| height <= *last) {
            return;
        }
        if self.found.len() > INTERVALS {
            self.found.pop_front();
        }
        self.found.push_back((height, now));
    }

    /// When to poll after a poll at `now`; `rare` is the longest pause.
    pub(super) fn next_poll(&self, now: Instant, rare: Duration) -> Instant {
        let Some((expected, margin)) = self.expected() else {
            return now + FIRST_PAUSE.min(rare);
        };
        let (begin, end) = (expected - margin, expected + margin);
        if now < begin {
            return begin.min(now + rare);
        }
        // A block that is late may be late by any time: the longer, the less it matters when exactly.
        let overdue = now.saturating_duration_since(end);
        let pause = (margin / DENSE_POLLS).max(overdue / 4);
        now + pause.clamp(SHORTEST_PAUSE, rare.max(SHORTEST_PAUSE))
    }

    /// When the next block is expected, and by how much it may come earlier or later.
    fn expected(&self) -> Option<(Instant, Duration)> {
        let pairs = self.found.iter().zip(self.found.iter().skip(1));
        let each = |((before, from), (height, to)): (&(u64, Instant), &(u64, Instant))| {
            let heights = u32::try_from(height - before).unwrap_or(u32::MAX);
            (*to - *from) / heights
        };
        let mut intervals: Vec<Duration> = pairs.map(each).collect();
        if intervals.len() < FEWEST_INTERVALS {
            return None;
        }
        intervals.sort_unstable();
        let middle = intervals[intervals.len() / 2];
        let apart = intervals.iter().map(|interval| interval.abs_diff(middle));
        let margin = apart.max()?.max(SHORTEST_PAUSE * 2).min(middle);
        let (_, last) = self.found.back()?;
        Some((*last + middle, margin))
    }
}

/// Intervals between blocks that are remembered.
const INTERVALS: usize = 8;
/// With fewer nothing is expected.
const FEWEST_INTERVALS: usize = 2;
/// Between polls while nothing is expected.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// At most 50 polls a second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// Polls before, and as many after the expected instant.
const DENSE_POLLS: u32 = 8;

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

#[cfg(test)]
mod forecast_tests {
    use super::*;

    const RARE: Duration = Duration::from_millis(250);

    /// Polls a chain whose blocks come at these instants (milliseconds); how late each block was found,
    /// and the number of polls.
    fn poll(blocks: &[u64]) -> (Vec<u64>, usize) {
        let start = Instant::now();
        let (mut forecast, mut now, mut polls, mut late) =
            (Forecast::default(), start, 0, Vec::new());
        while late.len() < blocks.len() {
            let at = (now - start).as_millis() as u64;
            let height = blocks.iter().filter(|block| **block <= at).count();
            late.extend(blocks[late.len()..height].iter().map(|block| at - block));
            forecast.found(height as u64, now);
            polls += 1;
            now = forecast.next_poll(now, RARE);
        }
        (late, polls)
    }

    #[test]
    fn regular_blocks_are_found_within_20_ms_with_fewer_than_ten_polls_each() {
        let blocks: Vec<u64> = (1..=60).map(|number| number * 1_003).collect();
        let (late, polls) = poll(&blocks);
        assert!(late[4..].iter().all(|late| *late <= 20), "{late:?}");
        assert!(polls < 60 * 10 + 40, "{polls} polls");
    }

    #[test]
    fn irregular_blocks_are_found_within_a_part_of_their_irregularity() {
        // Up to 300 ms early or late.
        let blocks: Vec<u64> = (1..=60)
            .map(|number| number * 2_000 + number * 7_919 % 600)
            .collect();
        let (late, polls) = poll(&blocks);
        let found_late = late[8..].iter().filter(|late| **late > 80).count();
        assert!(found_late <= 3, "{late:?}");
        assert!(polls < 60 * 28, "{polls} polls");
    }

    #[test]
    fn there_are_at_most_50_polls_a_second_whatever_the_chain_does() {
        let (late, polls) = poll(&(1..=2_000).map(|number| number * 5).collect::<Vec<_>>());
        assert!(polls <= 501, "{polls} polls in 10 s");
        assert!(late.iter().all(|late| *late <= 50));
        // A chain that has stopped is polled as rarely as one that nothing is known of.
        let stopped = [1_000, 2_000, 3_000, 4_000, 64_000];
        let (late, polls) = poll(&stopped);
        assert!(polls < 80 + 4 * 60 + 40, "{polls} polls");
        assert!(late[4] <= 250, "{late:?}");
    }
}
