//! How much smaller a scenario is played than it is written.

use std::fmt;
use std::str::FromStr;

use pacing::Nanos;

/// A factor on every span of time and every count of a scenario; rates stay what they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// As written.
    pub const ONE: Self = Self(1.0);

    /// The factor.
    #[must_use]
    pub const fn factor(self) -> f64 {
        self.0
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }

    /// A span of time; one that is not empty stays so.
    #[must_use]
    pub fn time(self, span: Nanos) -> Nanos {
        self.offset(span).max(SHORTEST.min(span))
    }

    /// A point in time.
    #[must_use]
    pub fn offset(self, at: Nanos) -> Nanos {
        if self.is_one() {
            return at;
        }
        Nanos::from_nanos((at.as_nanos() as f64 * self.0).round() as u64)
    }

    /// A count of at least one.
    #[must_use]
    pub fn count(self, count: u64) -> u64 {
        if self.is_one() {
            return count;
        }
        ((count as f64 * self.0).round() as u64).max(count.min(1))
    }
}

impl FromStr for Scale {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(factor) if factor > 0.0 && factor <= LARGEST => Ok(Self(factor)),
            _ => Err("is no scale; give a number above 0 and at most 1000, e.g. 0.01"),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const LARGEST: f64 = 1_000.0;
/// Shorter than a transaction takes to be written.
const SHORTEST: Nanos = Nanos::from_micros(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_shrink_and_do_not_vanish() {
        let scale: Scale = "0.01".parse().unwrap();
        assert_eq!(scale.time(Nanos::from_secs(100)), Nanos::from_secs(1));
        assert_eq!(scale.time(Nanos::from_micros(1)), Nanos::from_micros(1));
        assert_eq!(scale.time(Nanos::ZERO), Nanos::ZERO);
        assert_eq!(
            (scale.count(1_000_000), scale.count(3), scale.count(0)),
            (10_000, 1, 0)
        );
        assert_eq!(Scale::ONE.time(Nanos::from_nanos(7)), Nanos::from_nanos(7));
    }

    #[test]
    fn what_is_no_factor_is_refused() {
        for text in ["0", "-1", "nan", "inf", "1001", "x", ""] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }
}
