//! Random numbers that are the same on every machine.

/// Sebastiano Vigna's SplitMix64 (2015), after Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014: a counter that is mixed.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// 2^64 divided by the golden ratio, made odd: the paper's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// One number from another, so that neighbouring words give numbers that have nothing in common: the
/// paper's finaliser, a bijection on 64-bit words.
#[inline]
pub const fn mix(word: u64) -> u64 {
    mixed(word.wrapping_add(GOLDEN))
}

#[inline]
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// A sequence of its own for every seed.
    pub fn new(seed: u64) -> Self {
        // Mixed first, so that neighbouring seeds do not begin at neighbouring counters.
        Self { state: mix(seed) }
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mixed(self.state)
    }

    /// An exponentially distributed area with the mean of one transaction, at most 45 of them.
    ///
    /// It is `-ln(u)` for u uniform in (0, 1], rounded to the unit of area. The logarithm is off by
    /// less than 10⁻¹⁴ transactions, which shifts the mean by no more than that.
    #[inline]
    pub(crate) fn exponential(&mut self) -> u64 {
        (minus_ln(self.next()) * crate::count::ONE as f64) as u64
    }
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
    fn the_generator_is_the_published_one() {
        // The reference implementation's first outputs for the state 1234567.
        let mut random = Random { state: 1_234_567 };
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
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
