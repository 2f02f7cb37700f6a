//! Committed throughput in windows, and the baseline that is learnt from them.

use std::collections::VecDeque;

use pacing::Nanos;

/// Cuts the time into windows of at least five blocks and ten seconds, from block to block, and
/// learns from those in which writes waited throughout how much is usually committed.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// Where the open window began; none until a block was seen.
    start: Option<Nanos>,
    blocks: u32,
    txs: u64,
    /// Something disturbed the open window.
    spoilt: bool,
    /// The good windows of the last minutes: when they ended, and their rates.
    usual: VecDeque<(Nanos, f64)>,
}

/// So long that a stall with every block does not count as a fall.
const BLOCKS: u32 = 5;
const LENGTH: Nanos = Nanos::from_secs(10);
/// The baseline looks back so far, and decays because older windows leave it: a node that slows
/// down permanently is usual after ten minutes.
const MEMORY: Nanos = Nanos::from_secs(600);
const WINDOWS: usize = 60;
/// Before so many there is no baseline.
const LEARNT: usize = 6;
/// The upper quantile that counts as usual, so that a single window does not.
const QUANTILE: f64 = 0.9;

impl Windows {
    /// Counts a block. Transactions a second in the window that it ends, if writes waited throughout.
    pub(super) fn block(&mut self, observed: Nanos, txs: usize) -> Option<f64> {
        let Some(start) = self.start else {
            self.begin(observed);
            return None;
        };
        self.blocks += 1;
        self.txs += txs as u64;
        let length = observed.saturating_sub(start);
        if self.blocks < BLOCKS || length < LENGTH {
            return None;
        }
        let rate = self.txs as f64 / length.as_secs_f64();
        let good = !self.spoilt;
        self.begin(observed);
        good.then_some(rate)
    }

    fn begin(&mut self, at: Nanos) {
        self.start = Some(at);
        self.blocks = 0;
        self.txs = 0;
        self.spoilt = false;
    }

    /// The open window was disturbed and does not count.
    pub(super) const fn spoil(&mut self) {
        self.spoilt = true;
    }

    /// A window with this rate has ended.
    pub(super) fn learn(&mut self, now: Nanos, rate: f64) {
        let oldest = now.saturating_sub(MEMORY);
        while self.usual.len() == WINDOWS || self.usual.front().is_some_and(|(at, _)| *at < oldest)
        {
            self.usual.pop_front();
        }
        self.usual.push_back((now, rate));
    }

    /// What is usually committed a second while writes wait; none until it was learnt.
    pub(super) fn baseline(&self) -> Option<f64> {
        if self.usual.len() < LEARNT {
            return None;
        }
        let mut rates: Vec<f64> = self.usual.iter().map(|(_, rate)| *rate).collect();
        rates.sort_by(f64::total_cmp);
        let at = (rates.len() - 1) as f64 * QUANTILE;
        rates.get(at.round() as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_five_blocks_and_ten_seconds() {
        let mut windows = Windows::default();
        let seconds = Nanos::from_secs;
        assert!(windows.block(seconds(1), 9_999).is_none());
        // One-second blocks: ten of them.
        for second in 2..11 {
            assert!(windows.block(seconds(second), 100).is_none());
        }
        assert!((windows.block(seconds(11), 100).unwrap() - 100.0).abs() < 1e-9);
        // Ten-second blocks: five of them.
        for tens in 1..5 {
            assert!(windows.block(seconds(11 + 10 * tens), 100).is_none());
        }
        assert!((windows.block(seconds(61), 100).unwrap() - 10.0).abs() < 1e-9);
        windows.spoil();
        for second in 62..72 {
            assert!(windows.block(seconds(second), 100).is_none());
        }
        assert!(windows.baseline().is_none());
    }

    #[test]
    fn the_baseline_is_an_upper_quantile_of_the_last_ten_minutes() {
        let mut windows = Windows::default();
        for (at, rate) in (1..=6).map(|i| (Nanos::from_secs(i * 10), 1_000.0 - 10.0 * i as f64)) {
            assert!(windows.baseline().is_none());
            windows.learn(at, rate);
        }
        assert_eq!(windows.baseline(), Some(990.0));
        for i in 7..=66 {
            windows.learn(Nanos::from_secs(i * 10), 500.0);
        }
        assert_eq!(
            (windows.baseline(), windows.usual.len()),
            (Some(500.0), WINDOWS)
        );
    }
}
