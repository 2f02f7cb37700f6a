//! How far apart the chain's blocks would be if they were small.

/// The base interval T₀ in T = T₀ + (time for the transactions). A node with a large mempool and
/// too much to do drifts to blocks of many seconds (`overload-measurements.md` 5.1: one block in 8 s
/// with 50,000 slots), so the interval itself is no measure of what is normal.
///
/// It follows every interval that is shorter. It rises only by blocks that are much lighter than
/// the heavy ones, extrapolated to an empty block through the mean heavy one, and only while
/// transactions waited: chains without empty blocks are silent when nobody sends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaseInterval {
    secs: Option<f64>,
    heavy_txs: f64,
    heavy_secs: f64,
}

/// Weight of the newest block.
const WEIGHT: f64 = 0.3;
/// A block with this share of the heaviest is heavy, one with less than the other share is light.
const HEAVY: f64 = 0.8;
const LIGHT: f64 = 0.7;
/// The heaviest is forgotten by this factor a block.
const FORGET: f64 = 0.99;

impl BaseInterval {
    /// A block of `txs` came `secs` after the one before. `waiting`: transactions waited for it.
    pub(super) fn block(&mut self, txs: f64, secs: f64, waiting: bool) {
        if secs <= 0.0 {
            return;
        }
        let base = self.secs.get_or_insert(secs);
        if secs < *base {
            *base += WEIGHT * (secs - *base);
        }
        self.heavy_txs *= FORGET;
        if txs >= HEAVY * self.heavy_txs {
            self.heavy_secs = if txs > self.heavy_txs / HEAVY {
                secs
            } else {
                self.heavy_secs + WEIGHT * (secs - self.heavy_secs)
            };
            self.heavy_txs = self.heavy_txs.max(txs);
        } else if waiting && txs >= 1.0 && txs <= LIGHT * self.heavy_txs {
            let a_tx = ((self.heavy_secs - secs) / (self.heavy_txs - txs)).max(0.0);
            let empty = (secs - txs * a_tx).clamp(secs * SHORTEST, secs);
            *base += WEIGHT * (empty - *base);
        }
    }

    /// Seconds; none before the first interval.
    pub(super) const fn secs(&self) -> Option<f64> {
        self.secs
    }
}

/// No extrapolation below this share of a block's own interval.
const SHORTEST: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_does_not_raise_it() {
        let mut base = BaseInterval::default();
        for i in 0..10 {
            let txs = f64::from(i) * 1_000.0;
            base.block(txs, 1.0 + txs / 4_000.0, true);
        }
        for _ in 0..1_000 {
            base.block(10_000.0, 3.5, true);
        }
        assert!((base.secs().unwrap() - 1.0).abs() < 0.05);
        // Lighter blocks are extrapolated: 6,000 transactions in 2.5 s tell of 1 s as well.
        for _ in 0..50 {
            base.block(6_000.0, 2.5, true);
        }
        assert!((base.secs().unwrap() - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_chain_that_slows_down_is_followed_once_blocks_get_lighter() {
        let mut base = BaseInterval::default();
        for _ in 0..100 {
            base.block(4_000.0, 1.0, true);
        }
        let mut txs = 24_000.0;
        for _ in 0..20 {
            base.block(txs, 6.0, true);
            txs *= 0.7;
        }
        assert!(base.secs().unwrap() > 5.0);
        // Silence without demand says nothing.
        let before = base.secs();
        base.block(1.0, 600.0, false);
        assert_eq!(base.secs(), before);
    }
}
