//! How due times are spread inside a profile: evenly, in bursts, or as a Poisson process.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use base::Random;

use crate::decimal::{Kind, ValueError};
use crate::size::ONE;

/// How due times are spread inside a profile.
///
/// As text: `even`, `poisson`, `burst:N`. The seed of `poisson` is given apart from the text; a
/// parsed one is 0 until [`Arrivals::with_seed`] sets it.
///
/// How to choose: `Even` shows what a rate does and nothing else; `Poisson` is what many
/// independent clients look like; `Burst` is what one client that wakes on a timer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Arrivals {
    /// Each transaction when the integral of the profile reaches its index.
    #[default]
    Even,
    /// A Poisson process whose intensity is the profile: the gaps between transactions, measured
    /// in planned transactions, are exponential with mean 1. The same seed gives the same times.
    Poisson {
        /// Any number.
        seed: u64,
    },
    /// `size` transactions together, at the instant the first of them is due under [`Arrivals::Even`].
    Burst {
        /// How many leave together.
        size: NonZeroU32,
    },
}

impl Arrivals {
    /// The same arrivals, with this seed where there is one.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Poisson { .. } => Self::Poisson { seed },
            other => other,
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson { .. } => f.write_str("poisson"),
            Self::Burst { size } => write!(f, "burst:{size}"),
        }
    }
}

impl FromStr for Arrivals {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refuse = |reason| ValueError::not_a(&ARRIVALS, text, reason);
        match text.trim() {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson { seed: 0 }),
            "burst" => Err(refuse("burst needs a size, such as burst:10")),
            other => {
                let size = other.strip_prefix("burst:");
                let size = size.ok_or_else(|| refuse("there is no such kind"))?;
                let size = size.parse().map_err(|_| refuse(BURST_SIZE))?;
                Ok(Self::Burst { size })
            }
        }
    }
}

const ARRIVALS: Kind = Kind("a kind of arrivals", "use even, poisson or burst:N");
const BURST_SIZE: &str = "the size of a burst is a whole number from 1 to 4294967295";

/// An exponentially distributed area with the mean of one transaction, at most 45 of them.
///
/// It is `-ln(u)` for u uniform in (0, 1], rounded to the unit of area. The logarithm is off by
/// less than 10⁻¹⁴ transactions, which shifts the mean by no more than that.
#[inline]
pub(crate) fn exponential(random: &mut Random) -> u64 {
    (minus_ln(random.word()) * ONE as f64) as u64
}

/// `-ln((x + 1) / 2^64)`, from additions and multiplications only, so that it is the same
/// everywhere.
///
/// With `x = 2^(63 - n) · m` and `1 <= m < 2`, it is `(n + 1)·ln 2 - ln m`; the logarithm of m is
/// that of the middle c of its 1/256th from a table, plus `ln(1 + r)` for `r = m/c - 1`, whose
/// series is short as `|r| <= 1/512`.
#[inline]
fn minus_ln(x: u64) -> f64 {
    // 0 would have no leading bit; u is (x | 1) / 2^64, a difference of at most 2^-64.
    let x = x | 1;
    let zeros = x.leading_zeros();
    let mantissa = x << zeros;
    let entry = &TABLE[(mantissa >> 55) as usize & 0xFF];
    // The mantissa's 52 bits below the leading one, as a float in [1, 2).
    let m = f64::from_bits(0x3FF0_0000_0000_0000 | ((mantissa << 1) >> 12));
    let r = m * entry.inverse - 1.0;
    let ln_1_r = r * (1.0 - r * (1.0 / 2.0 - r * (1.0 / 3.0 - r * (1.0 / 4.0 - r * (1.0 / 5.0)))));
    let ln_m = entry.ln + ln_1_r;
    (f64::from(zeros + 1) * std::f64::consts::LN_2 - ln_m).max(0.0)
}

#[derive(Clone, Copy)]
struct Entry {
    /// 1 / c.
    inverse: f64,
    /// -ln(1 / c).
    ln: f64,
}

static TABLE: [Entry; 256] = table();

const fn table() -> [Entry; 256] {
    let mut table = [Entry {
        inverse: 1.0,
        ln: 0.0,
    }; 256];
    let mut index = 0;
    while index < 256 {
        let middle = 1.0 + (index as f64 + 0.5) / 256.0;
        let inverse = 1.0 / middle;
        table[index] = Entry {
            inverse,
            ln: ln(middle),
        };
        index += 1;
    }
    table
}

/// The logarithm of a number in [1, 2) by the series of the inverse hyperbolic tangent.
const fn ln(x: f64) -> f64 {
    let z = (x - 1.0) / (x + 1.0);
    // Smallest terms first, for the sake of the last bits; z² <= 1/9.
    let (mut sum, mut odd) = (0.0, 41);
    while odd >= 1 {
        sum = sum * z * z + 1.0 / odd as f64;
        odd -= 2;
    }
    2.0 * z * sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["even", "poisson", "burst:10"] {
            assert_eq!(text.parse::<Arrivals>().unwrap().to_string(), text);
        }
        assert_eq!(
            "poisson".parse::<Arrivals>().unwrap().with_seed(7),
            Arrivals::Poisson { seed: 7 }
        );
        assert_eq!(Arrivals::Even.with_seed(7), Arrivals::Even);
    }

    #[test]
    fn refuses_with_what_is_allowed() {
        for text in [
            "",
            "odd",
            "burst",
            "burst:0",
            "burst:x",
            "burst:-1",
            "even:3",
            "poisson:3",
        ] {
            let message = text.parse::<Arrivals>().unwrap_err().to_string();
            assert!(
                message.contains("use even, poisson or burst:N"),
                "{message}"
            );
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert!(minus_ln(u64::MAX) < 1e-15);
        assert!((minus_ln(0) - 64.0 * std::f64::consts::LN_2).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn the_logarithm_is_close(x: u64, shift in 0_u32..64) {
            let x = x >> shift;
            let exact = -(((x | 1) as f64) / 2_f64.powi(64)).ln();
            prop_assert!((minus_ln(x) - exact).abs() < 1e-14 * exact.max(1.0));
        }
    }
}
