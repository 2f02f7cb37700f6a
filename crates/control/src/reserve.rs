//! Room kept for clients that ask for less than their share.

use std::collections::VecDeque;

use pacing::Nanos;

use crate::window::remember;

/// Places in the window and the mempool that a long queue leaves free until the next block is due.
///
/// A flood takes every place there is, as early as the pace lets it; a client that asks for little then waits for
/// the next block with the flood. So as many places as such clients needed between recent blocks are kept
/// from queues that are long, ever fewer of them as the interval passes: what is not needed is used in the end.
/// Where nobody's queue is short beside a long one, nothing is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserve {
    /// Writes that left since the last block for the sake of a short queue, and between recent blocks.
    taken: usize,
    recent: VecDeque<f64>,
    /// When the last block was known.
    since: Nanos,
}

impl Reserve {
    /// So many left for the sake of a short queue.
    pub(crate) const fn took(&mut self, count: usize) {
        self.taken += count;
    }

    /// A block.
    pub(crate) fn block(&mut self, now: Nanos) {
        remember(&mut self.recent, std::mem::take(&mut self.taken) as f64);
        self.since = now;
    }

    /// Places of `room` that are kept; blocks are `interval` seconds apart.
    pub(crate) fn places(&self, now: Nanos, room: f64, interval: f64) -> usize {
        let needed = self.recent.iter().copied().fold(0.0, f64::max);
        let elapsed = now.saturating_sub(self.since).as_secs_f64();
        let left = 1.0 - elapsed / (KEPT * interval);
        // A part of a place is a place: one that asks for ten a second needs it at any time.
        (needed.min(MOST * room) * left.max(0.0)).ceil() as usize
    }
}

/// The part of the interval until which some are kept. A node takes what is in the next block some time before
/// that is known here.
const KEPT: f64 = 0.75;
/// The part of all places that is kept at most.
const MOST: f64 = 0.125;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_places_are_kept_as_short_queues_needed_and_ever_fewer() {
        let at = Nanos::from_millis;
        let mut reserve = Reserve::default();
        assert_eq!(reserve.places(at(0), 1_000.0, 1.0), 0);
        reserve.took(20);
        reserve.block(at(1_000));
        let kept =
            [1_000, 1_310, 1_610, 1_750, 5_000].map(|ms| reserve.places(at(ms), 1_000.0, 1.0));
        assert_eq!(kept, [20, 12, 4, 0, 0]);
        // Of a small room a small part.
        assert_eq!(reserve.places(at(1_000), 80.0, 1.0), 10);
        // The most of four blocks counts, and is forgotten after them.
        for second in 2..=4 {
            reserve.block(at(second * 1_000));
            assert_eq!(reserve.places(at(second * 1_000), 1_000.0, 1.0), 20);
        }
        reserve.block(at(5_000));
        assert_eq!(reserve.places(at(5_000), 1_000.0, 1.0), 0);
    }
}
