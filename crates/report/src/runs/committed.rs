//! Commits over time without the edges of blocks.

use measure::BlockRow;

use crate::runs::course::usual_distance;

/// How many transactions a chain had committed by a time, as if a block's came evenly since the block
/// before: seconds with and without a block would only show how far blocks are apart. After a stall or
/// a pause a block's count for `REACH` usual intervals at most, and nothing is committed before.
#[derive(Debug, Clone)]
pub struct CommittedCourse {
    /// When blocks were seen, in seconds since the origin, and how many were committed by then.
    seen: Vec<(f64, f64)>,
}

impl CommittedCourse {
    /// Of the own transactions with code 0 in `blocks`, which ascend.
    pub fn of_blocks(blocks: &[BlockRow]) -> Self {
        let at = |block: &BlockRow| block.observed_ns as f64 / 1e9;
        let begin = blocks.first().map_or(0.0, |first| {
            let interval_s = first.interval_ms.unwrap_or(1_000.0) / 1e3;
            (at(first) - interval_s.max(0.0)).max(0.0)
        });
        let usual = usual_distance(blocks.iter().map(at));
        let mut seen = vec![(begin, 0.0)];
        let (mut sum, mut before) = (0, begin);
        for block in blocks {
            let (at, count) = (at(block), block.committed());
            if let Some(usual) = usual
                && at - before > REACH * usual
            {
                seen.push((at - usual, sum as f64));
            }
            sum += count;
            seen.push((at, sum as f64));
            before = at;
        }
        Self { seen }
    }

    /// Commits per second between two times in seconds since the origin.
    pub fn rate(&self, from: f64, to: f64) -> f64 {
        (self.by(to) - self.by(from)) / (to - from).max(1e-9)
    }

    fn by(&self, time: f64) -> f64 {
        let after = self.seen.partition_point(|(seen, _)| *seen <= time);
        let before = after
            .checked_sub(1)
            .and_then(|before| self.seen.get(before));
        match (before, self.seen.get(after)) {
            (None, _) => 0.0,
            (Some((_, count)), None) => *count,
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * (time - from) / (to - from).max(1e-9)
            }
        }
    }
}

/// Usual intervals over which a block's transactions are spread at most.
const REACH: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at_s: u64, own_txs: u64) -> BlockRow {
        BlockRow {
            observed_ns: at_s * 1_000_000_000,
            interval_ms: Some(4_000.0),
            own_txs,
            ..BlockRow::default()
        }
    }

    #[test]
    fn a_block_counts_evenly_since_the_one_before_and_nothing_is_lost() {
        let course = CommittedCourse::of_blocks(&[block(4, 400), block(8, 800)]);
        assert_eq!(course.rate(1.0, 2.0), 100.0);
        assert_eq!(course.rate(3.0, 5.0), 150.0);
        assert_eq!(course.rate(0.0, 12.0) * 12.0, 1_200.0);
        assert_eq!(course.rate(9.0, 10.0), 0.0);
        assert_eq!(CommittedCourse::of_blocks(&[]).rate(0.0, 1.0), 0.0);
    }

    #[test]
    fn a_stall_is_not_bridged() {
        let course = CommittedCourse::of_blocks(&[4, 5, 6, 16, 17].map(|at_s| block(at_s, 100)));
        assert_eq!(course.rate(7.0, 15.0), 0.0);
        assert_eq!(course.rate(15.0, 16.0), 100.0);
        assert_eq!(course.rate(0.0, 20.0) * 20.0, 500.0);
    }
}
