//! What gave first: when each sign of an overload began, in the order of time.
//!
//! Only what was counted is looked at, so the same function serves the live view (seconds, no blocks),
//! the report and a run that was killed.

use std::fmt;

use super::limits::{BACKLOG_BLOCKS, FULL_SHARE, NOTICED_SHARE, STALL_INTERVALS, STALL_LEAST_S};
use crate::manifest::NodeLimits;
use crate::rows::{BlockRow, SeriesRow};

/// A sign of an overload and when it began.
#[derive(Debug, Clone, PartialEq)]
pub struct Onset {
    /// Seconds since the origin.
    pub at_s: f64,
    /// What began.
    pub sign: Sign,
}

/// What begins when a node or a generator cannot keep up.
#[derive(Debug, Clone, PartialEq)]
pub enum Sign {
    /// Block after block holds as much as a block can; what and how much.
    BlocksFull(u64, &'static str),
    /// Blocks stopped, for this many seconds, while transactions waited.
    NoBlock(f64),
    /// Accepted transactions wait for more than the next block, and they become more.
    Backlog,
    /// The mempool holds this many, which is all that it takes.
    MempoolFull(u64),
    /// The node refuses transactions.
    Refusals,
    /// Answers are missing or unusable.
    Errors,
    /// No answer at all, for this many seconds.
    NoAnswer(f64),
    /// Transactions fail in their blocks.
    FailedInBlocks,
    /// Transactions are given up before they are sent.
    Unsent,
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlocksFull(limit, of) => write!(f, "blocks full at {limit} {of}"),
            Self::NoBlock(span_s) => write!(f, "no block for {span_s:.1} s"),
            Self::Backlog => f.write_str("backlog"),
            Self::MempoolFull(txs) => write!(f, "mempool full at {txs}"),
            Self::Refusals => f.write_str("refusals"),
            Self::Errors => f.write_str("errors in place of answers"),
            Self::NoAnswer(span_s) => write!(f, "no answer for {span_s:.0} s"),
            Self::FailedInBlocks => f.write_str("transactions fail in blocks"),
            Self::Unsent => f.write_str("transactions given up unsent"),
        }
    }
}

impl fmt::Display for Onset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:.0} s", self.sign, self.at_s)
    }
}

/// The signs of an overload while load was offered, the first one first; none in a healthy run.
/// `offered_s` is when the offering ended; `blocks` may be empty where they are not at hand.
#[must_use]
pub fn onsets(
    series: &[SeriesRow],
    blocks: &[BlockRow],
    limits: &NodeLimits,
    offered_s: f64,
) -> Vec<Onset> {
    let whole = series.partition_point(|row| row.second as f64 + row.span_s <= offered_s + 1e-6);
    let run = Offering {
        seconds: &series[..whole.max(usize::from(!series.is_empty()))],
        blocks: &blocks[..blocks.partition_point(|block| seen_s(block) <= offered_s)],
        limits,
        offered_s,
    };
    let signs = [
        run.full_blocks(),
        run.no_block(),
        run.backlog(),
        run.full_mempool(),
        run.share_of_offered(Sign::Refusals, |row| row.counts.rejected),
        run.share_of_offered(Sign::Errors, |row| row.counts.errors),
        run.no_answer(),
        run.share_of_offered(Sign::FailedInBlocks, |row| row.counts.commit_failed),
        run.share_of_offered(Sign::Unsent, |row| row.counts.unsent),
    ];
    let mut onsets: Vec<Onset> = signs.into_iter().flatten().collect();
    // Within a second the order of the signs above is that of cause and effect.
    onsets.sort_by(|one, other| one.at_s.floor().total_cmp(&other.at_s.floor()));
    onsets
}

/// The part of a run in which load was offered.
struct Offering<'a> {
    seconds: &'a [SeriesRow],
    blocks: &'a [BlockRow],
    limits: &'a NodeLimits,
    offered_s: f64,
}

/// A figure of a block.
type OfBlock = fn(&BlockRow) -> u64;

impl Offering<'_> {
    fn full_blocks(&self) -> Option<Onset> {
        let measures: [(Option<u64>, OfBlock, &str); 3] = [
            (self.limits.block_txs, |block| block.txs, "transactions"),
            (self.limits.block_bytes, |block| block.bytes, "bytes"),
            (self.plateau(), |block| block.txs, "transactions"),
        ];
        measures.into_iter().find_map(|(limit, of, what)| {
            let limit = limit?;
            let full = |block: &BlockRow| of(block) as f64 >= limit as f64 * FULL_SHARE;
            let first = self.blocks.windows(2).find(|two| two.iter().all(full))?;
            Some(Onset {
                at_s: seen_s(&first[0]),
                sign: Sign::BlocksFull(limit, what),
            })
        })
    }

    /// The size at which blocks stay although more waits: three in a row of one size, each of which
    /// left more waiting than a chain that keeps up leaves.
    fn plateau(&self) -> Option<u64> {
        let left = |block: &BlockRow| {
            let second = self.second_at(seen_s(block));
            second.is_some_and(|row| row.backlog as f64 > BACKLOG_BLOCKS * block.txs as f64)
        };
        self.blocks.windows(3).find_map(|three| {
            let most = three.iter().map(|block| block.txs).max()?;
            let equal = |block: &BlockRow| block.txs as f64 >= most as f64 * FULL_SHARE;
            (most > 1 && three.iter().all(|block| equal(block) && left(block))).then_some(most)
        })
    }

    /// The first gap between two blocks that is several times the usual one, with transactions waiting.
    fn no_block(&self) -> Option<Onset> {
        let times = || self.blocks.iter().map(seen_s);
        let last = times().next_back()?;
        let usual = self.usual_interval_s()?;
        let ends = times().skip(1).chain([self.offered_s.max(last)]);
        let limit = (STALL_INTERVALS * usual).max(usual + STALL_LEAST_S);
        let (from, to) = times().zip(ends).find(|(from, to)| {
            let waits = |row: &SeriesRow| row.backlog + row.in_flight > 0;
            to - from > limit && self.second_at(from + usual + 1.0).is_some_and(waits)
        })?;
        Some(Onset {
            at_s: from,
            sign: Sign::NoBlock(to - from),
        })
    }

    /// From when the backlog rises, second by second and by more than a chain that keeps up can leave
    /// waiting for its next block.
    fn backlog(&self) -> Option<Onset> {
        let usual = self.usual_interval_s().or_else(|| {
            let blocks: u64 = self.seconds.iter().map(|row| row.counts.blocks).sum();
            (blocks > 1).then(|| self.seconds.len() as f64 / blocks as f64)
        })?;
        // Blocks fall into some seconds and not into others, which the lowest of several does not show.
        let seconds = usual.ceil().max(1.0) as usize;
        let valleys: Vec<u64> = self
            .seconds
            .windows(seconds)
            .filter_map(|rows| rows.iter().map(|row| row.backlog).min())
            .collect();
        let mut from = 0;
        for (at, pair) in valleys.windows(2).enumerate() {
            if pair[1] <= pair[0] {
                from = at + 1;
                continue;
            }
            let rows = &self.seconds[from + 1..=at + 1];
            let accepted: u64 = rows.iter().map(|row| row.counts.accepted).sum();
            let per_block = accepted as f64 / rows.len() as f64 * usual;
            let growth = (pair[1] - valleys[from]) as f64;
            if growth > (per_block * BACKLOG_BLOCKS).max(1.0) {
                return Some(Onset {
                    at_s: rows[0].second as f64,
                    sign: Sign::Backlog,
                });
            }
        }
        None
    }

    /// Where no limit is known, it is what the mempool held most, if the node refused something then.
    fn full_mempool(&self) -> Option<Onset> {
        let depth = |row: &SeriesRow| row.mempool_txs;
        let most = self.seconds.iter().filter_map(depth).max()?;
        let limit = self.limits.mempool_txs.unwrap_or(most);
        let full = |row: &&SeriesRow| {
            let refuses = self.limits.mempool_txs.is_some() || row.counts.rejected > 0;
            refuses && depth(row).is_some_and(|txs| txs as f64 >= limit as f64 * FULL_SHARE)
        };
        let first = self.seconds.iter().find(full)?;
        Some(Onset {
            at_s: first.second as f64,
            sign: Sign::MempoolFull(limit),
        })
    }

    fn share_of_offered(&self, sign: Sign, of: fn(&SeriesRow) -> u64) -> Option<Onset> {
        let noticed = |row: &&SeriesRow| {
            of(row) > 0 && of(row) as f64 > row.counts.offered as f64 * NOTICED_SHARE
        };
        let first = self.seconds.iter().find(noticed)?;
        Some(Onset {
            at_s: first.second as f64,
            sign,
        })
    }

    /// The first two seconds or more in which requests waited and no answer came.
    fn no_answer(&self) -> Option<Onset> {
        let silent = |row: &SeriesRow| {
            let counts = &row.counts;
            row.in_flight > 0 && counts.accepted + counts.rejected + counts.errors == 0
        };
        let chunks = self
            .seconds
            .chunk_by(|one, next| silent(one) == silent(next));
        let mut silences = chunks.filter(|rows| silent(&rows[0]) && rows.len() > 1);
        let rows = silences.next()?;
        Some(Onset {
            at_s: rows[0].second as f64,
            sign: Sign::NoAnswer(rows.len() as f64),
        })
    }

    /// The median time between two blocks.
    fn usual_interval_s(&self) -> Option<f64> {
        let times: Vec<f64> = self.blocks.iter().map(seen_s).collect();
        let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_by(f64::total_cmp);
        gaps.get(gaps.len() / 2).copied()
    }

    fn second_at(&self, time_s: f64) -> Option<&SeriesRow> {
        let after = self
            .seconds
            .partition_point(|row| row.second as f64 <= time_s);
        self.seconds.get(after.checked_sub(1)?)
    }
}

fn seen_s(block: &BlockRow) -> f64 {
    block.observed_ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    /// A second at this rate: what was offered, accepted and left waiting.
    fn second(second: u64, offered: u64, accepted: u64, backlog: u64) -> SeriesRow {
        SeriesRow {
            second,
            span_s: 1.0,
            counts: Counts {
                offered,
                sent: offered,
                accepted,
                rejected: offered - accepted,
                blocks: 1,
                ..Counts::default()
            },
            backlog,
            mempool_txs: Some(backlog),
            ..SeriesRow::default()
        }
    }

    fn block(at_ms: u64, txs: u64) -> BlockRow {
        BlockRow {
            observed_ns: at_ms * 1_000_000,
            txs,
            own_txs: txs,
            bytes: txs * 250,
            ..BlockRow::default()
        }
    }

    /// Blocks of at most 600 each second and a mempool of 2,000, under 400/s, then 1,000/s from 10 s.
    fn overload() -> (Vec<SeriesRow>, Vec<BlockRow>) {
        let (mut waiting, mut series, mut blocks) = (0, Vec::new(), Vec::new());
        for at in 0..20 {
            let offered = if at < 10 { 400 } else { 1_000 };
            let committed = waiting.min(600);
            blocks.push(block(at * 1_000 + 20, committed));
            let accepted = offered.min(2_000 + committed - waiting);
            waiting = waiting + accepted - committed;
            series.push(second(at, offered, accepted, waiting));
        }
        (series, blocks)
    }

    fn told(onsets: &[Onset]) -> Vec<String> {
        onsets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_overload_is_told_from_its_first_sign_to_the_refusals() {
        let (series, blocks) = overload();
        let expected = [
            "backlog from 10 s",
            "blocks full at 600 transactions from 11 s",
            "mempool full at 2000 from 13 s",
            "refusals from 13 s",
        ];
        let known = NodeLimits {
            block_txs: Some(600),
            mempool_txs: Some(2_000),
            ..NodeLimits::default()
        };
        let found = told(&onsets(&series, &blocks, &known, 20.0));
        assert_eq!(found, expected);
        let inferred = told(&onsets(&series, &blocks, &NodeLimits::default(), 20.0));
        assert_eq!(inferred, found, "the limits show without being known");
    }

    #[test]
    fn a_healthy_run_has_no_signs() {
        let series: Vec<SeriesRow> = (0..20).map(|at| second(at, 300, 300, 294)).collect();
        let blocks: Vec<BlockRow> = (0..20).map(|at| block(at * 1_000 + 20, 300)).collect();
        let known = NodeLimits {
            block_txs: Some(600),
            mempool_txs: Some(2_000),
            ..NodeLimits::default()
        };
        for limits in [known, NodeLimits::default()] {
            assert_eq!(onsets(&series, &blocks, &limits, 20.0), []);
            assert_eq!(onsets(&series, &[], &limits, 20.0), []);
        }
        // A chain whose blocks come a little later in each second.
        let drifting: Vec<SeriesRow> = (0..60).map(|at| second(at, 300, 300, 5 * at)).collect();
        assert_eq!(onsets(&drifting, &[], &NodeLimits::default(), 60.0), []);
        assert_eq!(onsets(&[], &[], &NodeLimits::default(), 0.0), []);
    }

    #[test]
    fn blocks_that_take_all_there_is_are_not_full() {
        let series: Vec<SeriesRow> = (0..20).map(|at| second(at, 300, 300, 2)).collect();
        let blocks: Vec<BlockRow> = (0..20).map(|at| block(at * 1_000 + 980, 300)).collect();
        assert_eq!(onsets(&series, &blocks, &NodeLimits::default(), 20.0), []);
    }

    #[test]
    fn a_frozen_node_shows_in_its_answers_and_its_blocks() {
        let frozen = |at: u64| (8..17).contains(&at);
        let series: Vec<SeriesRow> = (0..20)
            .map(|at| {
                let mut row = second(at, 300, if frozen(at) { 0 } else { 300 }, 293);
                row.counts.rejected = 0;
                row.in_flight = if frozen(at) { 16 } else { 0 };
                row
            })
            .collect();
        let blocks: Vec<BlockRow> = (0..20)
            .filter(|at| !frozen(*at))
            .map(|at| block(at * 1_000 + 20, 300))
            .collect();
        let found = onsets(&series, &blocks, &NodeLimits::default(), 20.0);
        assert_eq!(
            told(&found),
            ["no block for 10.0 s from 7 s", "no answer for 9 s from 8 s"]
        );
    }

    #[test]
    fn a_pause_without_blocks_is_no_stall() {
        let series: Vec<SeriesRow> = (0..20)
            .map(|at| match at {
                5..15 => second(at, 0, 0, 0),
                _ => second(at, 300, 300, 2),
            })
            .collect();
        let blocks: Vec<BlockRow> = (0..20)
            .filter(|at| !(6..15).contains(at))
            .map(|at| block(at * 1_000 + 980, 300))
            .collect();
        assert_eq!(onsets(&series, &blocks, &NodeLimits::default(), 20.0), []);
    }
}
