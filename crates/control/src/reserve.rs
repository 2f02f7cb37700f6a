//! Places in the window that are kept for clients that ask for little.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::bound::Bound;
use crate::load::{Load, Unit};
use crate::window::{RECENT, remember};

/// One client that always has writes waiting takes each place that a block frees. So a part of the room is kept for the
/// others: as much as those that ask for little are expected to send until the next block, and what chance adds to
/// that; more of the window, for those who come for the first time, and while a block is late (`Pacer::kept`). It shrinks
/// with the time that is left, so that little is kept that nobody comes for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    /// What they sent before each of the last blocks, and in how many seconds.
    sent: VecDeque<(Load, f64)>,
    since_block: Load,
    /// When the last block was observed, and when its places were counted as free: once it was read.
    began: Nanos,
    freed: Nanos,
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
            freed: now,
            ..Self::default()
        }
    }

    /// Clients that ask for little sent so much.
    pub(crate) fn sent(&mut self, load: Load) {
        self.since_block = self.since_block + load;
    }

    /// A block that was observed earlier than it was read.
    pub(crate) fn block(&mut self, now: Nanos, observed: Nanos) {
        let secs = observed.saturating_sub(self.began).as_secs_f64();
        let sent = std::mem::take(&mut self.since_block);
        remember(&mut self.sent, RECENT, (sent, secs));
        (self.began, self.freed) = (observed, now);
    }

    /// Seconds since the last block freed places of the window.
    pub(crate) fn elapsed(&self, now: Nanos) -> f64 {
        now.saturating_sub(self.freed).as_secs_f64()
    }

    /// What a transaction of these has in the unit; `mean` while there is none.
    pub(crate) fn mean(&self, unit: Unit, mean: f64) -> f64 {
        let sent = self.so_far(Nanos::ZERO).0;
        if sent.txs == 0 { mean } else { sent.mean(unit) }
    }

    /// How many writes clients that ask for little are expected to send, one at least: until the next block's places are
    /// free in the mempool, and in the window, and in as long as a block takes. Blocks come `longest` seconds after each
    /// other; one in five is later than the four before it, by no known time.
    pub(crate) fn expected(&self, now: Nanos, longest: f64) -> [f64; 3] {
        let (sent, secs) = self.so_far(now);
        let per_second = sent.txs as f64 / secs.max(f64::MIN_POSITIVE);
        let left = |since| longest - now.saturating_sub(since).as_secs_f64();
        [left(self.began), left(self.freed), longest].map(|left| {
            let coming = per_second * left.max(0.0);
            (coming + DEVIATIONS * coming.sqrt()).max(1.0)
        })
    }

    /// What they sent, and in how many seconds.
    fn so_far(&self, now: Nanos) -> (Load, f64) {
        let since = now.saturating_sub(self.began).as_secs_f64();
        let add = |sum: (Load, f64), one: &(Load, f64)| (sum.0 + one.0, sum.1 + one.1);
        self.sent.iter().fold((self.since_block, since), add)
    }
}
