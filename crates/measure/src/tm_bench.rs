//! The figures of tm-bench, Tendermint's old benchmark: averages per second of what ended up in blocks.
//!
//! Until 22 June 2018 it looked at one answer of `/blockchain`, which holds at most 21 headers, and
//! divided them by the whole duration (tendermint/tools, issue 101); from then on at every header
//! (tendermint/tendermint, tools/tm-bench/statistics.go). Both are computed here, from the same blocks.

/// How many headers one answer of `/blockchain` holds.
pub const BLOCKCHAIN_PAGE: usize = 21;

/// A block as its header shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderSeen {
    /// The chain's height.
    pub height: u64,
    /// The header's time, nanoseconds since the Unix epoch.
    pub time_unix_ns: i64,
    /// Transactions in the block.
    pub txs: u64,
}

/// The span that is looked at, by the clock of the headers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BenchSpan {
    /// Its begin, nanoseconds since the Unix epoch.
    pub start_unix_ns: i64,
    /// Its length in seconds, above zero.
    pub seconds: f64,
}

/// The table of tm-bench.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TmBench {
    /// Transactions per second.
    pub txs: BenchRow,
    /// Blocks per second.
    pub blocks: BenchRow,
}

/// One row of the table: over one count for each second of the span, the seconds without a block
/// included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BenchRow {
    /// The total over the length of the span.
    pub avg: f64,
    /// Standard deviation of the counts (divided by their number).
    pub stddev: f64,
    /// The highest count.
    pub max: u64,
    /// The sum of the counts.
    pub total: u64,
}

impl TmBench {
    /// Counts every header of the span, its end included, in any order, each height once.
    ///
    /// Where tm-bench rounds a header's second and drops what falls on the last one, the second is
    /// cut off here and the last one is counted, so that the total is the chain's.
    #[must_use]
    pub fn of(headers: &[HeaderSeen], span: BenchSpan) -> Self {
        let seconds = span.seconds.max(f64::MIN_POSITIVE);
        let buckets = (seconds.ceil() as usize).clamp(1, MAX_BUCKETS);
        let mut txs = vec![0_u64; buckets];
        let mut blocks = vec![0_u64; buckets];
        for header in headers {
            let Some(second) = span.second_of(header) else {
                continue;
            };
            let bucket = second.min(buckets - 1);
            txs[bucket] += header.txs;
            blocks[bucket] += 1;
        }
        Self {
            txs: BenchRow::of(&txs, seconds),
            blocks: BenchRow::of(&blocks, seconds),
        }
    }

    /// The same over the newest `window` headers at the end of the span, whatever its length: with
    /// [`BLOCKCHAIN_PAGE`] the statistic of June 2018, which falls with the duration of the run.
    #[must_use]
    pub fn of_newest(headers: &[HeaderSeen], span: BenchSpan, window: usize) -> Self {
        let mut there: Vec<HeaderSeen> = headers
            .iter()
            .copied()
            .filter(|header| span.offset(header) <= span.seconds)
            .collect();
        there.sort_unstable_by_key(|header| header.height);
        let oldest = there.len().saturating_sub(window);
        Self::of(&there[oldest..], span)
    }
}

impl BenchSpan {
    /// Seconds from the begin to the header; negative before it.
    fn offset(&self, header: &HeaderSeen) -> f64 {
        header.time_unix_ns.saturating_sub(self.start_unix_ns) as f64 / NANOS_PER_SECOND
    }

    /// The whole second in which the header falls; `None` outside of the span.
    fn second_of(&self, header: &HeaderSeen) -> Option<usize> {
        let offset = self.offset(header);
        (0.0..=self.seconds)
            .contains(&offset)
            .then_some(offset as usize)
    }
}

impl BenchRow {
    fn of(counts: &[u64], seconds: f64) -> Self {
        let total: u64 = counts.iter().sum();
        let mean = total as f64 / counts.len() as f64;
        let squares = counts.iter().map(|&count| (count as f64 - mean).powi(2));
        Self {
            avg: total as f64 / seconds,
            stddev: (squares.sum::<f64>() / counts.len() as f64).sqrt(),
            max: counts.iter().copied().max().unwrap_or(0),
            total,
        }
    }
}

const NANOS_PER_SECOND: f64 = 1e9;
/// A week of seconds; a longer span has its last second count for the rest.
const MAX_BUCKETS: usize = 7 * 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of `txs` every `every_s`, the first one at the first interval.
    fn chain(blocks: u64, every_s: f64, txs: u64) -> Vec<HeaderSeen> {
        (1..=blocks)
            .map(|height| HeaderSeen {
                height,
                time_unix_ns: START + (height as f64 * every_s * NANOS_PER_SECOND) as i64,
                txs,
            })
            .collect()
    }

    fn span(seconds: f64) -> BenchSpan {
        BenchSpan {
            start_unix_ns: START,
            seconds,
        }
    }

    const START: i64 = 1_529_000_000_000_000_000;

    #[test]
    fn the_published_figures_of_long_runs_are_21_full_blocks() {
        // BEP-19: blocks of 10,000; 210 tx/s with a deviation of 1,434 at 1,000 s, 420 at 500 s.
        let blocks = chain(2_000, 0.5, 10_000);
        let long = TmBench::of_newest(&blocks, span(1_000.0), BLOCKCHAIN_PAGE);
        assert_eq!(long.txs.avg, 210.0);
        assert_eq!(long.blocks.total, 21);
        let spread = chain(100, 10.0, 10_000);
        let published = TmBench::of_newest(&spread, span(1_000.0), BLOCKCHAIN_PAGE);
        assert_eq!((published.txs.avg, published.txs.max), (210.0, 10_000));
        assert_eq!(published.txs.stddev.round(), 1_434.0);
        assert_eq!(published.blocks.avg, 0.021);
        let all = TmBench::of(&spread, span(1_000.0));
        assert_eq!((all.txs.avg, all.txs.total), (1_000.0, 1_000_000));
        let half = TmBench::of_newest(&blocks, span(500.0), BLOCKCHAIN_PAGE);
        assert_eq!(half.txs.avg, 420.0);
    }

    #[test]
    fn a_short_run_is_the_same_in_both() {
        let blocks = chain(100, 1.0, 50);
        let all = TmBench::of(&blocks, span(10.0));
        assert_eq!(all, TmBench::of_newest(&blocks, span(10.0), 21));
        // The second 0 is empty, the block at the very end falls into the last one.
        assert_eq!(
            (all.txs.total, all.txs.max, all.blocks.total),
            (500, 100, 10)
        );
    }

    #[test]
    fn headers_before_the_span_are_no_part_of_it_and_empty_spans_are_zero() {
        let mut blocks = chain(10, 1.0, 50);
        blocks.push(HeaderSeen {
            height: 0,
            time_unix_ns: START - 1,
            txs: 7,
        });
        assert_eq!(TmBench::of(&blocks, span(10.0)).txs.total, 500);
        assert_eq!(TmBench::of(&[], span(3.0)), TmBench::default());
        // Half a second has one bucket; its average is still per second.
        let half = TmBench::of(&chain(1, 0.25, 50), span(0.5));
        assert_eq!(
            (half.txs.avg, half.txs.max, half.txs.stddev),
            (100.0, 50, 0.0)
        );
    }
}
