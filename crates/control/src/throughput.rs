//! Committed transactions a second, from blocks, every height once.

use std::collections::BTreeSet;

use pacing::Nanos;

use crate::load::Load;

/// A block of the chain as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSeen {
    /// Its height, 1 or more.
    pub height: u64,
    /// All of its transactions.
    pub all: Load,
    /// Those that were sent from here.
    pub ours: Load,
    /// When the node announced it, or else when it was read.
    pub observed: Nanos,
}

/// How a block was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The next one, or a later one: the heights between them are noted as missing.
    New,
    /// One that was missing: it counts in the total, not in the rate, whose time has passed.
    Late,
    /// One that was counted before; it changes nothing.
    Duplicate,
}

/// Counts committed transactions.
///
/// The rate is a ratio of two decayed sums, transactions over seconds, so that uneven intervals do
/// not bias it. A block decays both by e^−min(1/5, interval / 10 s): the memory is five blocks or
/// ten seconds, whichever is longer. Every height counts once, whichever node it came from. (The
/// decline of throughput in BEP-19 was an error of measurement: `tm-bench` of June 2018 read no more
/// than one page of 21 blocks.)
#[derive(Clone, Debug, Default)]
pub struct Throughput {
    /// The highest height and when it was observed.
    highest: Option<(u64, Nanos)>,
    missing: BTreeSet<u64>,
    /// Decayed sums.
    txs: f64,
    secs: f64,
    blocks: f64,
    /// Transactions counted in all.
    total: u64,
}

/// Blocks in the memory of the rate, and seconds, whichever is longer.
const MEMORY_BLOCKS: f64 = 5.0;
const MEMORY_SECS: f64 = 10.0;
/// Missing heights that can still be counted when they come late; those of a longer gap are lost.
const MISSING: u64 = 4_096;

impl Throughput {
    /// Nothing counted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a block. The first one only starts the clock: the time in which its transactions came
    /// is unknown, so they count in the total and not in the rate.
    pub fn block(&mut self, block: &BlockSeen) -> Counted {
        let Some((highest, at)) = self.highest else {
            self.highest = Some((block.height, block.observed));
            self.total += block.all.txs;
            return Counted::New;
        };
        if block.height <= highest {
            if self.missing.remove(&block.height) {
                self.total += block.all.txs;
                return Counted::Late;
            }
            return Counted::Duplicate;
        }
        self.note_missing(highest + 1, block.height);
        self.total += block.all.txs;
        let interval = block.observed.saturating_sub(at).as_secs_f64();
        let keep = (-(interval / MEMORY_SECS).min(1.0 / MEMORY_BLOCKS)).exp();
        self.txs = self.txs * keep + block.all.txs as f64;
        self.secs = self.secs * keep + interval;
        self.blocks = self.blocks * keep + 1.0;
        self.highest = Some((block.height, block.observed.max(at)));
        Counted::New
    }

    /// Heights begin anew: another chain, or the same one from its start. What was counted stays.
    pub fn restart(&mut self) {
        *self = Self {
            total: self.total,
            ..Self::default()
        };
    }

    fn note_missing(&mut self, from: u64, to: u64) {
        for height in from.max(to.saturating_sub(MISSING))..to {
            if self.missing.len() as u64 == MISSING {
                self.missing.pop_first();
            }
            self.missing.insert(height);
        }
    }

    /// Committed transactions a second, smoothed; 0 until two blocks were seen.
    pub fn rate(&self) -> f64 {
        ratio(self.txs, self.secs)
    }

    /// The same, but the time since the last block counts as well once it is longer than usual: a
    /// halted chain commits less and less.
    pub fn rate_at(&self, now: Nanos) -> f64 {
        let open = self
            .highest
            .map_or(0.0, |(_, at)| now.saturating_sub(at).as_secs_f64());
        ratio(self.txs, self.secs + (open - self.interval()).max(0.0))
    }

    /// Mean seconds between blocks, smoothed; 0 until two blocks were seen.
    pub fn interval(&self) -> f64 {
        ratio(self.secs, self.blocks)
    }

    /// When the highest block was observed.
    pub fn last_block(&self) -> Option<Nanos> {
        self.highest.map(|(_, at)| at)
    }

    /// Committed transactions in all, each once.
    pub const fn total(&self) -> u64 {
        self.total
    }
}

fn ratio(above: f64, below: f64) -> f64 {
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(height: u64, txs: usize, observed: Nanos) -> BlockSeen {
        BlockSeen {
            height,
            all: Load::of_txs(txs as u64),
            ours: Load::ZERO,
            observed,
        }
    }

    /// 1,000 s at about 1,000 tx/s, of which 21 blocks, one page, are 2 %.
    #[test]
    fn controller_21_more_than_21_blocks_equal_the_ground_truth() {
        let mut throughput = Throughput::new();
        let mut truth = 0;
        for height in 1..=900 {
            let txs = 1_000 + (height as usize * 7_919) % 223;
            truth += txs as u64;
            let at = Nanos::from_millis(height * 1_111);
            assert_eq!(throughput.block(&block(height, txs, at)), Counted::New);
        }
        assert_eq!(throughput.total(), truth);
        let mean = truth as f64 / 900.0 / 1.111;
        // The smoothed rate remembers some ten blocks, whose sizes vary by a tenth.
        assert!((throughput.rate() / mean - 1.0).abs() < 0.05);
        assert!((throughput.interval() - 1.111).abs() < 1e-9);
    }

    #[test]
    fn every_height_counts_once_and_late_ones_still_count() {
        let mut throughput = Throughput::new();
        let second = Nanos::from_secs;
        assert_eq!(throughput.block(&block(5, 10, second(1))), Counted::New);
        assert_eq!(
            throughput.block(&block(5, 10, second(1))),
            Counted::Duplicate
        );
        assert_eq!(throughput.block(&block(8, 40, second(4))), Counted::New);
        assert_eq!(throughput.block(&block(6, 20, second(5))), Counted::Late);
        assert_eq!(
            throughput.block(&block(6, 20, second(5))),
            Counted::Duplicate
        );
        assert_eq!(
            throughput.block(&block(4, 99, second(5))),
            Counted::Duplicate
        );
        assert_eq!(throughput.total(), 70);
        assert_eq!(throughput.missing.len(), 1);
        assert!((throughput.rate() - 40.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_replaced_chain_is_counted_from_its_start() {
        let mut throughput = Throughput::new();
        throughput.block(&block(1_000, 10, Nanos::from_secs(1)));
        throughput.restart();
        assert_eq!(
            throughput.block(&block(1, 20, Nanos::from_secs(2))),
            Counted::New
        );
        assert_eq!(
            throughput.block(&block(2, 30, Nanos::from_secs(3))),
            Counted::New
        );
        assert_eq!(throughput.total(), 60);
        assert!((throughput.rate() - 30.0).abs() < 1e-9);
    }

    #[test]
    fn a_gap_without_end_costs_no_memory() {
        let mut throughput = Throughput::new();
        throughput.block(&block(1, 1, Nanos::from_secs(1)));
        throughput.block(&block(u64::MAX - 1, 1, Nanos::from_secs(2)));
        assert_eq!(throughput.missing.len() as u64, MISSING);
        throughput.block(&block(u64::MAX, 1, Nanos::from_secs(3)));
        assert_eq!(throughput.missing.len() as u64, MISSING);
    }

    #[test]
    fn a_halted_chain_commits_less_and_less() {
        let mut throughput = Throughput::new();
        for height in 1..=60 {
            throughput.block(&block(height, 1_000, Nanos::from_secs(height)));
        }
        let at = |secs| throughput.rate_at(Nanos::from_secs(secs));
        assert!((at(61) - 1_000.0).abs() < 1.0);
        assert!(at(70) < 600.0);
        assert!(at(600) < 20.0);
    }

    proptest! {
        /// The smoothed rate of a steady chain is its rate, however long its blocks take.
        #[test]
        fn a_steady_chain_has_its_rate(txs in 1_usize..20_000, interval_ms in 200_u64..20_000) {
            let mut throughput = Throughput::new();
            for height in 1..=50 {
                throughput.block(&block(height, txs, Nanos::from_millis(interval_ms * height)));
            }
            let rate = txs as f64 * 1_000.0 / interval_ms as f64;
            prop_assert!((throughput.rate() / rate - 1.0).abs() < 1e-6);
        }

        /// Blocks in any order and any number of times: every height counts once in the total.
        #[test]
        fn order_and_repetition_do_not_change_the_total(
            heights in prop::collection::vec(1_u64..200, 1..300),
        ) {
            let mut throughput = Throughput::new();
            for (i, &height) in heights.iter().enumerate() {
                throughput.block(&block(height, height as usize, Nanos::from_millis(i as u64)));
            }
            let first = heights[0];
            let distinct: BTreeSet<u64> =
                heights.iter().copied().filter(|&height| height >= first).collect();
            prop_assert_eq!(throughput.total(), distinct.iter().sum::<u64>());
        }
    }
}
