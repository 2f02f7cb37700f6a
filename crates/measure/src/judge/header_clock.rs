//! Whether the clock that stamps a chain's headers agrees with the clock of the run, and whether one of them was set
//! while the run went on.
//!
//! A block's header is stamped between two announcements: after that of the block before the last one, and before its
//! own. With BFT time by the votes for the block before it (CometBFT 0.38 spec/consensus/bft-time.md), with
//! proposer-based timestamps and in Bitcoin by the maker of the block. So each block bounds the difference of the
//! clocks; where later blocks contradict earlier ones, a clock was set.

use crate::format::rows::BlockRow;

/// The bounds that the headers' times put on the difference of the two clocks; constant in size.
#[derive(Debug, Clone, Default)]
pub struct HeaderClock {
    /// The last two heights in a row, and when each was there at the earliest.
    seen: [Option<(u64, i128)>; 2],
    /// The blocks up to the first contradiction, where there are enough of them.
    first: Option<Bounds>,
    /// Those since the last one.
    last: Option<Bounds>,
    /// The largest difference to the first ones.
    moved_ns: i128,
}

/// What the run's clock is ahead by of the headers', of some blocks that do not contradict each other.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least_ns: i128,
    most_ns: i128,
    blocks: u64,
    /// When the first and the last of them were seen.
    seen_ns: (u64, u64),
}

impl HeaderClock {
    /// Of blocks in the order of their heights.
    pub fn of<'a>(blocks: impl IntoIterator<Item = &'a BlockRow>) -> Self {
        let mut clock = Self::default();
        blocks.into_iter().for_each(|block| clock.block(block));
        clock
    }

    /// Takes the next block.
    pub(crate) fn block(&mut self, block: &BlockRow) {
        let observed_ns = i128::from(block.observed_ns);
        // What was polled may have been there before.
        let earliest_ns = observed_ns - (block.resolution_ms.unwrap_or(0.0) * 1e6) as i128;
        let at = |place: usize, below: u64| {
            let (height, earliest_ns) = self.seen[place]?;
            (height.checked_add(below)? == block.height).then_some(earliest_ns)
        };
        let (before, last_but_one) = (at(0, 1), at(1, 2));
        if let (Some(_), Some(least_ns)) = (before, last_but_one) {
            let header_ns = i128::from(block.header_time_unix_ns);
            self.bound(Bounds {
                least_ns: least_ns - header_ns,
                most_ns: observed_ns - header_ns,
                blocks: 1,
                seen_ns: (block.observed_ns, block.observed_ns),
            });
        }
        let before = self.seen[0].filter(|_| before.is_some());
        self.seen = [Some((block.height, earliest_ns)), before];
    }

    fn bound(&mut self, of: Bounds) {
        let joined = self.last.map(|last| last.and(of));
        if let Some(joined) = joined.filter(|it| it.least_ns - it.most_ns <= LIMIT_NS) {
            self.last = Some(joined);
        } else {
            let ended = self.last.replace(of);
            self.first = self.first.or(ended.filter(Bounds::are_enough));
        }
        let pair = self.first.zip(self.last.filter(Bounds::are_enough));
        let moved_ns = pair.map_or(0, |(first, last)| last.beyond(&first));
        if moved_ns.abs() > self.moved_ns.abs().max(LIMIT_NS) {
            self.moved_ns = moved_ns;
        }
    }

    /// Whether a clock was set while the run went on.
    pub const fn was_set(&self) -> bool {
        self.moved_ns != 0
    }

    /// Why the headers' times are no times of the run that began at `origin_unix_ns`; nothing where they may be.
    pub fn words(&self, origin_unix_ns: u64) -> Option<String> {
        if let Some(words) = self.set_words() {
            return Some(words);
        }
        let bounds = self.last.filter(Bounds::are_enough)?;
        let apart_ns = bounds.beyond(&Bounds {
            least_ns: -i128::from(origin_unix_ns),
            most_ns: -i128::from(origin_unix_ns),
            ..bounds
        });
        let side = if apart_ns > 0 { "behind" } else { "ahead of" };
        (apart_ns.abs() > LIMIT_NS).then(|| {
            format!(
                "the times in the headers of blocks are {:.1} s or more {side} this machine's clock",
                seconds(apart_ns)
            )
        })
    }

    /// That a clock was set, by how much at least, and what that means.
    pub(crate) fn set_words(&self) -> Option<String> {
        let side = if self.moved_ns > 0 {
            "fell behind"
        } else {
            "ran ahead of"
        };
        self.was_set().then(|| {
            format!(
                "the times in the headers of blocks {side} the run's clock by {:.1} s or more while it went on: a clock \
                 was set, or the followed node fell behind the others; header_time_ns and interval_ms of blocks.csv are \
                 no times of this run, and no stage of the node was judged by them",
                seconds(self.moved_ns)
            )
        })
    }
}

impl Bounds {
    fn and(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns.max(other.least_ns),
            most_ns: self.most_ns.min(other.most_ns),
            blocks: self.blocks + other.blocks,
            seen_ns: (self.seen_ns.0, other.seen_ns.1),
        }
    }

    /// What was held up is announced late, and all at once.
    const fn are_enough(&self) -> bool {
        let (from_ns, until_ns) = self.seen_ns;
        self.blocks >= FEWEST_BLOCKS && until_ns.saturating_sub(from_ns) >= SHORTEST_NS
    }

    /// How far they lie beyond the others, in nanoseconds; 0 where they have something in common.
    fn beyond(&self, others: &Self) -> i128 {
        let above = (self.least_ns - others.most_ns).max(0);
        let below = (others.least_ns - self.most_ns).max(0);
        above - below
    }
}

fn seconds(ns: i128) -> f64 {
    ns.abs() as f64 / 1e9
}

/// Bitcoin's headers have whole seconds, and announcements come with their own delay.
const LIMIT_NS: i128 = 2_000_000_000;
const FEWEST_BLOCKS: u64 = 3;
const SHORTEST_NS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN_UNIX_NS: u64 = 1_795_000_000_000_000_000;

    /// Blocks of these seconds, each stamped when the one before was voted for, 0.2 s before that was announced; the
    /// clock of the headers is ahead by `ahead_s` of the height.
    fn chain(seen_s: &[f64], ahead_s: impl Fn(u64) -> f64) -> Vec<BlockRow> {
        let blocks = (2..).zip(seen_s.windows(2));
        let block = |(height, pair): (u64, &[f64])| {
            let header_s = pair[0] - 0.2 + ahead_s(height);
            BlockRow {
                height,
                header_time_unix_ns: ORIGIN_UNIX_NS.cast_signed() + (header_s * 1e9) as i64,
                observed_ns: (pair[1] * 1e9) as u64,
                ..BlockRow::default()
            }
        };
        blocks.map(block).collect()
    }

    fn every_second(blocks: u32) -> Vec<f64> {
        (1..=blocks).map(f64::from).collect()
    }

    fn words(blocks: &[BlockRow]) -> Option<String> {
        HeaderClock::of(blocks).words(ORIGIN_UNIX_NS)
    }

    #[test]
    fn clocks_that_agree_are_not_spoken_of_however_irregular_the_blocks_are() {
        assert_eq!(words(&chain(&every_second(30), |_| 0.0)), None);
        let irregular = [1.0, 1.2, 1.4, 9.0, 9.1, 30.0, 31.0, 32.0, 90.0, 90.5, 91.0];
        assert_eq!(words(&chain(&irregular, |_| 0.0)), None);
        // As a proposer stamps them: when the block is made, after a pause.
        let mut made_late = chain(&irregular, |_| 0.0);
        for block in &mut made_late {
            let made_ns = ORIGIN_UNIX_NS + block.observed_ns - 50_000_000;
            block.header_time_unix_ns = made_ns.cast_signed();
        }
        assert_eq!(words(&made_late), None);
        assert_eq!(words(&[]), None);
    }

    #[test]
    fn a_clock_that_is_set_while_blocks_come_is_told_with_its_side() {
        let set = |by_s: f64| {
            let from = move |height| if height > 15 { by_s } else { 0.0 };
            words(&chain(&every_second(30), from)).unwrap()
        };
        let (ahead, behind) = (set(3_600.0), set(-3_600.0));
        assert!(
            ahead.contains("359") && ahead.contains("ran ahead of"),
            "{ahead}"
        );
        assert!(
            behind.contains("359") && behind.contains("fell behind"),
            "{behind}"
        );
        // BFT time never goes back: headers stand still until the clock has caught up.
        let standing = |height| {
            if height > 10 {
                10.0 - height as f64
            } else {
                0.0
            }
        };
        let standing = words(&chain(&every_second(40), standing)).unwrap();
        assert!(standing.contains("fell behind"), "{standing}");
        // There and back again.
        let excursion = |height| {
            if (10..20).contains(&height) {
                60.0
            } else {
                0.0
            }
        };
        assert!(HeaderClock::of(&chain(&every_second(30), excursion)).was_set());
    }

    #[test]
    fn a_clock_that_is_off_all_the_time_was_not_set() {
        let blocks = chain(&every_second(30), |_| 3_600.0);
        assert!(!HeaderClock::of(&blocks).was_set());
        let said = words(&blocks).unwrap();
        assert!(
            said.contains("s or more ahead of this machine's clock"),
            "{said}"
        );
        assert_eq!(
            words(&chain(&every_second(30), |_| 1.0)),
            None,
            "nearly right"
        );
    }

    /// Announcements that were held up, or heights that were polled after a broken connection, come late.
    #[test]
    fn blocks_that_are_seen_late_do_not_set_a_clock() {
        let mut held_up = chain(&every_second(30), |_| 0.0);
        for block in &mut held_up[2..16] {
            block.observed_ns = 17_500_000_000;
        }
        assert_eq!(words(&held_up), None);
        let mut held_up = chain(&every_second(17), |_| 0.0);
        for block in &mut held_up[10..] {
            block.observed_ns = 27_000_000_000;
            block.resolution_ms = Some(15_000.0);
        }
        assert_eq!(words(&held_up), None);
    }
}
