//! A number of transactions, fractions included.

use std::fmt;

use crate::decimal::to_decimal;

/// A number of transactions in units of 10⁻¹⁵: the area under a profile.
///
/// The unit is what one nanosecond at a millionth of a transaction per second amounts to, so that
/// the area under a constant rate is the plain product of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Count(u128);

/// Units of area per transaction.
pub(crate) const ONE: u128 = 1_000_000_000_000_000;

impl Count {
    pub(crate) const fn from_area(area: u128) -> Self {
        Self(area)
    }

    /// Whole transactions, rounded down.
    pub const fn whole(self) -> u64 {
        (self.0 / ONE) as u64
    }

    /// What is left above [`Count::whole`], in 10⁻¹⁵ transactions.
    pub const fn fraction(self) -> u64 {
        (self.0 % ONE) as u64
    }

    /// Whole transactions, rounded up: how many due times lie before the instant the integral was
    /// taken at.
    pub const fn rounded_up(self) -> u64 {
        self.0.div_ceil(ONE) as u64
    }

    /// All of it in 10⁻¹⁵ transactions.
    pub const fn as_femto(self) -> u128 {
        self.0
    }

    /// Transactions, for display and statistics only.
    pub fn as_f64(self) -> f64 {
        self.whole() as f64 + self.fraction() as f64 / ONE as f64
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = to_decimal(self.fraction(), 15);
        write!(f, "{}{}", self.whole(), &fraction[1..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_into_whole_and_fraction() {
        let count = Count::from_area(2 * ONE + ONE / 4);
        assert_eq!(
            (count.whole(), count.fraction(), count.rounded_up()),
            (2, 250_000_000_000_000, 3)
        );
        assert_eq!(count.to_string(), "2.25");
        assert_eq!(Count::from_area(3 * ONE).rounded_up(), 3);
    }
}
