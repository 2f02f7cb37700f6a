//! Places in the window that are kept for clients that ask for little.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::bound::Bound;
use crate::load::{Load, Unit};
use crate::window::{RECENT, remember};

/// One client that always has writes waiting takes each place that a block frees. So a part of the room is kept for the
/// others: as much as those that ask for little are expected to send until the next block, and what chance adds to
/// that; more of the window, for those who come for the first time (`Pacer::shared`). It shrinks with the time that is
/// left, so that nothing is kept that nobody comes for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    /// What they sent before each of the last blocks, and in how many seconds.
    sent: VecDeque<(Load, f64)>,
    since_block: Load,
    began: Nanos,
}

/// What may leave whatever the rate is.
pub(crate) struct Room {
    /// Writes, and those of them for which no place is kept.
    pub(crate) all: usize,
    pub(crate) shared: usize,
    /// The same in the window's unit.
    pub(crate) amount: f64,
    pub(crate) shared_amount: f64,
    /// What bounds those that no place is kept for.
    pub(crate) bound: Bound,
}

/// Standard deviations of a random number of arrivals for which there is room beyond the mean (square-root staffing:
/// Halfin and Whitt 1981): 98 of 100 times it is enough.
const DEVIATIONS: f64 = 2.0;

impl Reserve {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            began: now,
            ..Self::default()
        }
    }

    /// Clients that ask for little sent so much.
    pub(crate) fn sent(&mut self, load: Load) {
        self.since_block = self.since_block + load;
    }

    /// A block.
    pub(crate) fn block(&mut self, observed: Nanos) {
        let secs = observed.saturating_sub(self.began).as_secs_f64();
        let sent = std::mem::take(&mut self.since_block);
        remember(&mut self.sent, RECENT, (sent, secs));
        self.began = observed;
    }

    /// Seconds since the last block.
    pub(crate) fn elapsed(&self, now: Nanos) -> f64 {
        now.saturating_sub(self.began).as_secs_f64()
    }

    /// What clients that ask for little are expected to send until the next block, which comes `longest` seconds after
    /// the last, in the unit, of which a transaction has `mean`: a place at least.
    pub(crate) fn expected(&self, now: Nanos, unit: Unit, mean: f64, longest: f64) -> f64 {
        let elapsed = self.elapsed(now);
        let all = self.sent.iter().copied();
        let (sent, secs) = all.fold((self.since_block, elapsed), |sum, one| {
            (sum.0 + one.0, sum.1 + one.1)
        });
        let left = (longest - elapsed).max(0.0);
        let coming = sent.txs as f64 * left / secs.max(f64::MIN_POSITIVE);
        let each = if sent.txs == 0 { mean } else { sent.mean(unit) };
        (coming + DEVIATIONS * coming.sqrt()).max(1.0) * each
    }
}
