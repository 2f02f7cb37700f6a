//! Wide integers to floats, for guesses only.

/// 2^64.
const HIGH: f64 = 18_446_744_073_709_551_616.0;

/// About `x`, off by a few parts in 2^53. Cheaper than the cast, which rounds perfectly.
#[inline]
pub(crate) fn float(x: u128) -> f64 {
    ((x >> 64) as u64) as f64 * HIGH + (x as u64) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_good_as_the_cast(x: u128, shift in 0_u32..128) {
            let x = x >> shift;
            prop_assert!((float(x) - x as f64).abs() <= x as f64 * 1e-15);
        }
    }
}
