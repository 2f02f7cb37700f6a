//! How many transactions were accepted and in no block yet, within a second.

use measure::{BlockRow, SeriesRow};

/// The backlog of every second from its least to its most. The series has it at each second's end alone, which may
/// lie just before a block or just after it.
#[derive(Debug)]
pub(super) struct Backlog {
    /// When blocks were seen, and how many own transactions each took.
    taken: Vec<(f64, f64)>,
    /// Least and most of each second of the series.
    ends: Vec<(f64, f64)>,
}

impl Backlog {
    /// From what each second accepted, as if evenly, and what its blocks took, counted back from the second's end. A
    /// node that refused in a second accepted the most of it just after its block: what waited then is no more than
    /// was sampled.
    pub(super) fn of(series: &[SeriesRow], blocks: &[BlockRow]) -> Self {
        let taken = blocks.iter().map(|block| {
            let seen_s = block.observed_ns as f64 / 1e9;
            (seen_s, block.own_txs as f64)
        });
        let mut backlog = Self {
            taken: taken.collect(),
            ends: Vec::new(),
        };
        let befores = std::iter::once(0).chain(series.iter().map(|row| row.backlog));
        let seconds = series.iter().zip(befores).map(|(row, before)| {
            let (least, most) = backlog.within(row);
            let sampled = row.backlog.max(before).max(row.mempool_max.unwrap_or(0));
            match row.counts.rejected {
                0 => (least, most),
                _ => (least, most.min(sampled as f64)),
            }
        });
        backlog.ends = seconds.collect();
        backlog
    }

    /// Second's middle, least and most.
    pub(super) fn spans(&self, series: &[SeriesRow]) -> Vec<(f64, f64, f64)> {
        let seconds = series.iter().zip(&self.ends);
        let spans = seconds.map(|(row, (least, most))| (row.second as f64 + 0.5, *least, *most));
        spans.collect()
    }

    fn within(&self, row: &SeriesRow) -> (f64, f64) {
        let begin = row.second as f64;
        let (mut time, mut count) = (begin + row.span_s, row.backlog as f64);
        let rate = row.counts.accepted as f64 / row.span_s.max(1e-9);
        let (mut least, mut most) = (count, count);
        let mut reach = |count: f64| {
            least = least.min(count);
            most = most.max(count);
        };
        let first = self.taken.partition_point(|(seen, _)| *seen < begin);
        let after = self.taken.partition_point(|(seen, _)| *seen < time);
        for (seen, own) in self.taken[first..after].iter().rev() {
            // Just after the block, and just before it.
            count -= rate * (time - seen);
            reach(count.max(0.0));
            count = count.max(0.0) + own;
            reach(count);
            time = *seen;
        }
        reach((count - rate * (time - begin)).max(0.0));
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use measure::Counts;

    use super::*;

    fn second(second: u64, accepted: u64, backlog: u64) -> SeriesRow {
        SeriesRow {
            second,
            span_s: 1.0,
            backlog,
            counts: Counts {
                accepted,
                ..Counts::default()
            },
            ..SeriesRow::default()
        }
    }

    fn block(at_ms: u64, own_txs: u64) -> BlockRow {
        BlockRow {
            observed_ns: at_ms * 1_000_000,
            own_txs,
            ..BlockRow::default()
        }
    }

    #[test]
    fn a_steady_load_has_steady_ends_on_whichever_side_of_a_block_the_second_ends() {
        // A block in just over a second: one second ends after its block, the next one before it.
        let blocks = [block(990, 990), block(2_010, 1_020), block(2_990, 980)];
        let series = [
            second(0, 1_000, 10),
            second(1, 1_000, 1_010),
            second(2, 1_000, 10),
        ];
        let backlog = Backlog::of(&series, &blocks);
        for (place, (least, most)) in backlog.ends.iter().enumerate() {
            assert!(*least <= 10.0, "{place}: {least}");
            assert!((980.0..=1_020.0).contains(most), "{place}: {most}");
        }
        assert_eq!(backlog.spans(&series)[1].0, 1.5);
    }

    #[test]
    fn a_second_that_refused_has_no_more_than_was_sampled() {
        let mut full = second(0, 1_000, 200);
        full.mempool_max = Some(500);
        let blocks = [block(500, 900)];
        let most = |row: &SeriesRow| Backlog::of(std::slice::from_ref(row), &blocks).ends[0].1;
        assert_eq!(most(&full), 900.0, "200 after half a second of 1,000/s");
        full.counts.rejected = 1;
        assert_eq!(most(&full), 500.0);
    }

    #[test]
    fn a_backlog_that_grows_and_a_run_without_blocks_are_drawn_as_they_are() {
        let backlog = Backlog::of(&[second(0, 500, 500), second(1, 500, 1_000)], &[]);
        assert_eq!(backlog.ends, [(0.0, 500.0), (500.0, 1_000.0)]);
    }
}
