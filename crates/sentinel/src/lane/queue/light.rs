//! Which clients ask for little.

use fairq::{Neutral, Weight};
use pacing::Nanos;

use crate::lane::status::Tally;

/// What clients have had of the places that the last block freed, in the price of their writes. A client asks for little
/// while it has had less than the mean of those that had any, by their weights, in these places or in those before, and
/// its queue is short: for such clients places are kept.
#[derive(Default)]
pub(super) struct Places {
    /// Blocks so far.
    block: u32,
    price: u64,
    weights: u64,
    /// The mean for a weight of one before the last block.
    mean_before: f64,
}

/// What a client has had.
#[derive(Default)]
pub(super) struct Had {
    pub(super) tally: Tally,
    /// The block after which it had the rest.
    block: u32,
    price: u64,
}

impl Neutral for Had {
    /// It counts until the next block, so it may always be forgotten.
    fn is_neutral(&self, _now: Nanos) -> bool {
        true
    }
}

impl Places {
    /// A block frees places.
    pub(super) fn block(&mut self) {
        *self = Self {
            block: self.block.wrapping_add(1),
            mean_before: self.mean(),
            ..Self::default()
        };
    }

    fn mean(&self) -> f64 {
        self.price as f64 / self.weights.max(1) as f64
    }

    /// A client takes some.
    pub(super) fn take(&mut self, had: &mut Had, weight: Weight, price: u32) {
        if had.block != self.block || had.price == 0 {
            (had.block, had.price) = (self.block, 0);
            self.weights += u64::from(weight.shares());
        }
        had.price += u64::from(price);
        self.price += u64::from(price);
        had.tally.dispatched += 1;
    }

    /// Whether a client asks for little, whose queue is short or is not.
    pub(super) fn is_little(&self, had: Option<&Had>, weight: Weight, is_short: bool) -> bool {
        let had = had.filter(|had| had.block == self.block);
        let price = had.map_or(0, |had| had.price);
        let part = self.mean().max(self.mean_before) * f64::from(weight.shares());
        is_short && (price as f64) < part
    }
}
