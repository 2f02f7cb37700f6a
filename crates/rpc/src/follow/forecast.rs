//! When the next block is expected, for a follower that nobody tells of blocks.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

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
