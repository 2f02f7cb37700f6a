//! How far apart the chain's blocks would be if they were small.

/// The base interval T₀ in T = T₀ + (time for the transactions). The blocks of an overloaded node
/// with a large mempool become many seconds long (CometBFT 0.38 with 50,000 slots was measured to
/// make one in 8 s), so the interval itself does not show what is normal.
///
/// It follows intervals that are shorter, and the interval of an empty block as extrapolated from
/// two blocks in a row of very different sizes, for a fresh start without small blocks. It rises by
/// evidence only: when the rate was lowered because intervals were too long, blocks became 40 %
/// lighter, and the intervals less than 10 % shorter, then transactions are not the cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaseInterval {
    secs: Option<f64>,
    /// Transactions and interval of the last block.
    last: Option<(f64, f64)>,
    /// Transactions and interval when the rate was first lowered because of long intervals.
    heavy: Option<(f64, f64)>,
}

/// From a block this much larger than the last one an empty one is extrapolated,
const GROWN: f64 = 1.25;
/// but not below this share of the smaller one's interval: one of them may have been late.
const FARTHEST: f64 = 0.5;
/// Weight of a shorter interval.
const WEIGHT: f64 = 0.3;
/// Blocks must become lighter, to this share of what they were,
const LIGHTER: f64 = 0.6;
/// and the interval below this share.
const SHORTER: f64 = 0.9;

impl BaseInterval {
    /// A block of `txs` came `secs` after the one before.
    pub(super) fn block(&mut self, txs: f64, secs: f64) {
        if secs <= 0.0 {
            return;
        }
        let base = self.secs.get_or_insert(secs);
        let mut shorter = secs;
        if let Some((fewer, sooner)) = self.last.replace((txs, secs))
            && fewer > 0.0
            && txs >= GROWN * fewer
            && secs > sooner
        {
            let a_tx = (secs - sooner) / (txs - fewer);
            shorter = (sooner - fewer * a_tx).max(FARTHEST * sooner);
        }
        if shorter < *base {
            *base += WEIGHT * (shorter - *base);
        }
    }

    /// The interval of this block was too long, and the rate is about to be lowered.
    pub(super) fn too_long(&mut self, txs: f64, secs: f64) {
        let (heavy, was) = *self.heavy.get_or_insert((txs, secs));
        if txs > heavy {
            self.heavy = Some((txs, secs));
        } else if txs <= LIGHTER * heavy && secs >= SHORTER * was {
            self.secs = Some(secs);
            self.heavy = None;
        }
    }

    /// The interval was short enough.
    pub(super) const fn short_enough(&mut self) {
        self.heavy = None;
    }

    /// Seconds; none before the first interval.
    pub(super) const fn secs(&self) -> Option<f64> {
        self.secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_does_not_raise_it() {
        let mut base = BaseInterval::default();
        for i in 0..1_000 {
            base.block(4_000.0, 1.0 + f64::from(i % 10) / 4.0);
        }
        assert!((base.secs().unwrap() - 1.0).abs() < 0.05);
        // Blocks get lighter, and that helps.
        base.too_long(4_000.0, 4.0);
        base.too_long(3_000.0, 3.2);
        base.too_long(2_000.0, 3.1);
        base.short_enough();
        base.too_long(2_000.0, 3.1);
        assert!((base.secs().unwrap() - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_fresh_start_under_load_is_extrapolated() {
        let mut base = BaseInterval::default();
        for txs in [2_000.0, 4_000.0, 8_000.0, 16_000.0, 32_000.0] {
            base.block(txs, 1.0 + txs / 4_000.0);
        }
        assert!(base.secs().unwrap() < 1.25, "{:?}", base.secs());
    }

    #[test]
    fn a_chain_that_has_slowed_down_is_followed() {
        let mut base = BaseInterval::default();
        base.block(4_000.0, 1.0);
        let mut txs = 4_000.0;
        for _ in 0..3 {
            assert_eq!(base.secs(), Some(1.0));
            base.too_long(txs, 6.0);
            txs *= 0.7;
        }
        assert_eq!(base.secs(), Some(6.0));
    }
}
