//! The exact area under a rate that changes evenly.

use super::bisect::last_where;

/// A rate that goes from `from` to `to` in `span` nanoseconds, and its exact area.
///
/// The area at `t` is `from·t + (to - from)·t² / (2·span)`, rounded down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slope {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) span: u64,
}

impl Slope {
    /// The rate's change over the whole span, in millionths per second.
    pub(crate) fn change(&self) -> i64 {
        self.to.cast_signed() - self.from.cast_signed()
    }

    /// The rate at the start, in millionths per second.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// The length in nanoseconds: at most [`crate::Profile::MAX_DURATION`], below 2^55.
    pub(crate) fn span(&self) -> u64 {
        self.span
    }

    pub(crate) fn area(&self, t: u64) -> u128 {
        let start = u128::from(self.from) * u128::from(t);
        let divisor = 2 * u128::from(self.span);
        // product · t / divisor without leaving 128 bits: product < 2^99, divisor and t < 2^56.
        let product = u128::from(self.change().unsigned_abs()) * u128::from(t);
        let whole = (product / divisor) * u128::from(t);
        let rest = (product % divisor) * u128::from(t);
        if self.change() < 0 {
            start - (whole + rest.div_ceil(divisor))
        } else {
            start + whole + rest / divisor
        }
    }

    pub(super) fn rate(&self, t: u64) -> u64 {
        let change = i128::from(self.change()) * i128::from(t) / i128::from(self.span);
        (i128::from(self.from) + change) as u64
    }

    pub(crate) fn invert(&self, area: u128) -> u64 {
        last_where(self.span, self.guess(area), |t| self.area(t) <= area)
    }

    /// Where the area is about `area`: the root of the quadratic, in the form that does not cancel.
    fn guess(&self, area: u128) -> u64 {
        let (from, change) = (self.from as f64, self.change() as f64);
        let area = area as f64;
        let discriminant = from * from + 2.0 * change * area / self.span as f64;
        (2.0 * area / (from + discriminant.max(0.0).sqrt())) as u64
    }
}
