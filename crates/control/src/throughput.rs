//! Committed transactions a second, from blocks, every height once.

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

/// Measures committed transactions a second.
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
    /// Decayed sums.
    txs: f64,
    secs: f64,
    blocks: f64,
}

/// Blocks in the memory of the rate, and seconds, whichever is longer.
const MEMORY_BLOCKS: f64 = 5.0;
const MEMORY_SECS: f64 = 10.0;

impl Throughput {
    /// Counts a block, unless its height was counted or passed before: whether it did. The first one only
    /// starts the clock, as the time in which its transactions came is unknown.
    pub fn block(&mut self, block: &BlockSeen) -> bool {
        let (highest, at) = self.highest.unwrap_or((0, block.observed));
        if block.height <= highest {
            return false;
        }
        if self.highest.is_some() {
            let interval = block.observed.saturating_sub(at).as_secs_f64();
            let keep = (-(interval / MEMORY_SECS).min(1.0 / MEMORY_BLOCKS)).exp();
            self.txs = self.txs * keep + block.all.txs as f64;
            self.secs = self.secs * keep + interval;
            self.blocks = self.blocks * keep + 1.0;
        }
        self.highest = Some((block.height, block.observed.max(at)));
        true
    }

    /// Committed transactions a second, smoothed; 0 until two blocks were seen.
    pub fn rate(&self) -> f64 {
        ratio(self.txs, self.secs)
    }

    /// The same, but the time since the last block counts as well once it is longer than usual: a
    /// halted chain commits less and less.
    pub fn rate_at(&self, now: Nanos) -> f64 {
        let last = self.last_block().unwrap_or(now);
        let open = now.saturating_sub(last).as_secs_f64();
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
            all: Load {
                txs: txs as u64,
                ..Load::default()
            },
            ours: Load::default(),
            observed,
        }
    }

    /// 1,000 s at about 1,000 tx/s, of which 21 blocks, one page, are 2 %.
    #[test]
    fn controller_21_more_than_21_blocks_equal_the_ground_truth() {
        let mut throughput = Throughput::default();
        let (mut truth, mut measured) = (0, 0.0);
        for height in 1..=900 {
            let txs = 1_000 + (height as usize * 7_919) % 223;
            truth += txs as u64;
            let at = Nanos::from_millis(height * 1_111);
            assert!(throughput.block(&block(height, txs, at)));
            // The smoothed rate remembers some ten blocks, whose sizes vary by a tenth.
            let mean = truth as f64 / height as f64 / 1.111;
            assert!(height < 10 || (throughput.rate() / mean - 1.0).abs() < 0.1);
            measured += throughput.rate() * 1.111;
        }
        assert!((measured / truth as f64 - 1.0).abs() < 0.01, "{measured}");
        assert!((throughput.interval() - 1.111).abs() < 1e-9);
    }

    #[test]
    fn every_height_counts_once() {
        let mut throughput = Throughput::default();
        let second = Nanos::from_secs;
        for (height, txs, at, counts) in [
            (5, 10, 1, true),
            (5, 10, 1, false),
            (8, 40, 4, true),
            (6, 20, 5, false),
            (8, 40, 5, false),
        ] {
            assert_eq!(throughput.block(&block(height, txs, second(at))), counts);
        }
        assert!((throughput.rate() - 40.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_halted_chain_commits_less_and_less() {
        let mut throughput = Throughput::default();
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
            let mut throughput = Throughput::default();
            for height in 1..=50 {
                throughput.block(&block(height, txs, Nanos::from_millis(interval_ms * height)));
            }
            let rate = txs as f64 * 1_000.0 / interval_ms as f64;
            prop_assert!((throughput.rate() / rate - 1.0).abs() < 1e-6);
        }
    }
}
