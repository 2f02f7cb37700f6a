//! tm-bench's table: transactions and blocks in each second.
//!
//! Its rules (`statistics.go` of tm-bench, tendermint/tools before and tendermint/tendermint 0.22.8
//! after July 2018): whole seconds since the start, by the time in a block's header; seconds without
//! a block count as 0; the deviation is that of the population. Two things differ from it here: every
//! block counts (until 22 June 2018 only the newest 21 headers did, which `newest` brings back), and
//! the statistics are exact instead of sampled. And where the headers' clock is not that of the machine, blocks count
//! by when they were seen: by their headers there would be none, or others.

use std::fmt;

use serde::Serialize;

use measure::{BlockRow, HeaderClock, RateStats};

use crate::Table;

/// Both lines of the table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TmBench {
    /// Transactions in blocks, those of others too.
    pub txs_per_sec: PerSecondStats,
    /// Blocks.
    pub blocks_per_sec: PerSecondStats,
}

/// One line of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PerSecondStats {
    /// Mean over all seconds.
    pub avg: f64,
    /// Standard deviation of the population.
    pub stddev: f64,
    /// Most in one second.
    pub max: u64,
    /// Sum.
    pub total: u64,
}

/// What part of a run the table is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TmBenchSpan {
    /// The run's origin, nanoseconds since the Unix epoch.
    pub origin_unix_ns: u64,
    /// Begin, in seconds since the origin.
    pub start_s: f64,
    /// How long transactions were sent, in seconds; a last one that is not whole has its own place
    /// among the seconds, and the average is over the time as it is.
    pub seconds: f64,
    /// How many of the newest blocks count; `None` for all, 21 for the old statistic.
    pub newest: Option<usize>,
}

impl TmBench {
    /// The table over `blocks`, which ascend.
    pub fn of(blocks: &[BlockRow], span: TmBenchSpan) -> Self {
        let length = span.seconds.clamp(0.0, MAX_SECONDS);
        let seconds = length.ceil() as usize;
        let mut txs = vec![0; seconds];
        let mut count = vec![0; seconds];
        let origin = i128::from(span.origin_unix_ns);
        let start = origin + (span.start_s * SECOND as f64) as i128;
        let end = start + (length * SECOND as f64) as i128;
        let is_off = HeaderClock::of(blocks).words(span.origin_unix_ns).is_some();
        let at = |block: &BlockRow| {
            if is_off {
                origin + i128::from(block.observed_ns)
            } else {
                i128::from(block.header_time_unix_ns)
            }
        };
        // The newest headers at the end of the run are asked for; those of before it do not count.
        let before_end = |block: &&BlockRow| at(block) < end;
        let newest = span.newest.unwrap_or(usize::MAX);
        for block in blocks.iter().filter(before_end).rev().take(newest) {
            let since = at(block) - start;
            if since < 0 {
                continue;
            }
            let second = (since / SECOND) as usize;
            if second < seconds {
                txs[second] += block.txs;
                count[second] += 1;
            }
        }
        Self {
            txs_per_sec: PerSecondStats::of(&txs, length),
            blocks_per_sec: PerSecondStats::of(&count, length),
        }
    }
}

impl PerSecondStats {
    fn of(values: &[u64], seconds: f64) -> Self {
        let Some(stats) = RateStats::of(values.iter().map(|value| *value as f64)) else {
            return Self::default();
        };
        let total: u64 = values.iter().sum();
        Self {
            avg: total as f64 / seconds,
            stddev: stats.stddev,
            max: stats.max as u64,
            total,
        }
    }
}

/// tm-bench's plain output: columns five blanks apart.
impl fmt::Display for TmBench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = Table::of([
            ("Txs/sec", &self.txs_per_sec, 0),
            ("Blocks/sec", &self.blocks_per_sec, 3),
        ])
        .text("Stats", |row| row.0)
        .text("Avg", |row| format!("{:.*}", row.2, row.1.avg))
        .text("StdDev", |row| format!("{:.*}", row.2, row.1.stddev))
        .text("Max", |row| row.1.max.to_string())
        .text("Total", |row| row.1.total.to_string());
        f.write_str(&table.table().tabbed(5))
    }
}

const SECOND: i128 = 1_000_000_000;
/// Twelve days; a longer run is cut there.
const MAX_SECONDS: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn block(height: u64, at_s: f64, txs: u64) -> BlockRow {
        BlockRow {
            height,
            header_time_unix_ns: (at_s * 1e9) as i64,
            observed_ns: ((at_s - 10.0).max(0.0) * 1e9) as u64,
            txs,
            ..BlockRow::default()
        }
    }

    fn span(seconds: f64, newest: Option<usize>) -> TmBenchSpan {
        TmBenchSpan {
            origin_unix_ns: 10_000_000_000,
            start_s: 0.0,
            seconds,
            newest,
        }
    }

    #[test]
    fn seconds_without_a_block_count() {
        let blocks = [
            block(1, 9.0, 99),
            block(2, 10.5, 100),
            block(3, 12.2, 300),
            block(4, 14.0, 7),
        ];
        let table = TmBench::of(&blocks, span(4.0, None));
        assert_eq!(table.txs_per_sec.total, 400);
        assert_eq!((table.txs_per_sec.avg, table.txs_per_sec.max), (100.0, 300));
        assert!((table.txs_per_sec.stddev - 122.474).abs() < 1e-3);
        assert_eq!(table.blocks_per_sec.avg, 0.5);
        assert_eq!(
            table.to_string(),
            "Stats          Avg       StdDev     Max     Total     \n\
             Txs/sec        100       122        300     400       \n\
             Blocks/sec     0.500     0.500      1       2         \n"
        );
    }

    /// BEP-19, 16 June 2018, line of 1,000 s: average 210, 0.021 blocks a second.
    #[test]
    fn the_window_of_21_blocks_makes_210_of_1_000() {
        let blocks: Vec<BlockRow> = (0..100)
            .map(|n| block(n, 10.0 + 10.0 * n as f64, 10_000))
            .collect();
        let all = TmBench::of(&blocks, span(1_000.0, None));
        assert_eq!(all.txs_per_sec.avg, 1_000.0);
        let old = TmBench::of(&blocks, span(1_000.0, Some(21)));
        assert_eq!(
            (old.txs_per_sec.avg, old.blocks_per_sec.avg),
            (210.0, 0.021)
        );
    }

    /// The table of a chain whose clock was an hour ahead had no block.
    #[test]
    fn blocks_of_a_chain_whose_clock_is_off_count_by_when_they_were_seen() {
        let table = |ahead_s: f64| {
            let mut blocks: Vec<BlockRow> =
                (1..=8).map(|n| block(n, 10.0 + n as f64, 100)).collect();
            for block in &mut blocks {
                block.header_time_unix_ns += (ahead_s * 1e9) as i64;
            }
            TmBench::of(&blocks, span(8.0, None))
        };
        assert_eq!(
            table(0.0).txs_per_sec.total,
            700,
            "the last one comes at the end"
        );
        assert_eq!(table(3_600.0), table(0.0));
        assert_eq!(table(-3_600.0), table(0.0));
    }

    #[test]
    fn half_a_second_is_half_a_second() {
        let table = TmBench::of(&[block(1, 10.25, 50)], span(0.5, None));
        assert_eq!((table.txs_per_sec.avg, table.txs_per_sec.max), (100.0, 50));
        let table = TmBench::of(&[block(1, 10.75, 50)], span(0.5, None));
        assert_eq!(table.txs_per_sec.total, 0);
    }

    #[test]
    fn an_empty_run_has_an_empty_table() {
        assert_eq!(
            TmBench::of(&[], span(0.0, None)).txs_per_sec,
            PerSecondStats::default()
        );
    }
}
