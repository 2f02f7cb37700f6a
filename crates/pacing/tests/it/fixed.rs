//! The areas of smooth profiles in fixed point: the reference that the floating-point closed forms
//! are held against.
//!
//! Numbers are unsigned with 120 fractional bits ("Q120", below 256) unless said otherwise.

/// Fractional bits.
const BITS: u32 = 120;
/// One.
const ONE: u128 = 1 << BITS;
/// The natural logarithm of two.
const LN_2: u128 = 0x00B1_7217_F7D1_CF79_ABC9_E3B3_9803_F2F6;
/// A quarter turn.
const HALF_PI: u128 = 0x0192_1FB5_4442_D184_6989_8CC5_1701_B839;

/// The 256-bit product, high half first.
fn widening_mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a0 * b0;
    let (cross, other) = (a1 * b0, a0 * b1);
    let middle = (low >> 64) + (cross & LOW) + (other & LOW);
    let high = a1 * b1 + (cross >> 64) + (other >> 64) + (middle >> 64);
    (high, (middle << 64) | (low & LOW))
}

/// `a · b / 2^shift`, rounded down, for `0 < shift < 128` and a result below 2^128.
fn mul_shift(a: u128, b: u128, shift: u32) -> u128 {
    let (high, low) = widening_mul(a, b);
    (high << (128 - shift)) | (low >> shift)
}

/// `a · b / c`, rounded down, for a result below 2^128 and `c` below 2^127.
fn mul_div(a: u128, b: u128, c: u128) -> u128 {
    let (high, low) = widening_mul(a, b);
    if high == 0 {
        return low / c;
    }
    // Long division bit by bit; the remainder starts below c because the result fits.
    let (mut rest, mut quotient) = (high, 0_u128);
    for bit in (0..128).rev() {
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if rest >= c {
            rest -= c;
            quotient |= 1;
        }
    }
    quotient
}

fn mul(a: u128, b: u128) -> u128 {
    mul_shift(a, b, BITS)
}

/// The natural logarithm of `upper / lower`, for `0 < lower <= upper < 2^64`.
///
/// `upper / lower = 2^n · (1 + z) / (1 - z)` with `0 <= z < 1/3`, and
/// `ln((1 + z) / (1 - z)) = 2 · (z + z³/3 + z⁵/5 + …)`. Off by less than 2^-110.
fn ln_ratio(upper: u64, lower: u64) -> u128 {
    let (upper, mut lower) = (u128::from(upper), u128::from(lower));
    let mut twos = 0;
    while lower * 2 <= upper {
        lower *= 2;
        twos += 1;
    }
    let z = mul_div(upper - lower, ONE, upper + lower);
    let square = mul(z, z);
    let (mut power, mut odd, mut sum) = (z, 1, 0);
    while power > 0 {
        sum += power / odd;
        power = mul(power, square);
        odd += 2;
    }
    twos * LN_2 + 2 * sum
}

/// `e^x` as `(mantissa, n)`, meaning `mantissa · 2^n` with the mantissa in `[1, 2)`.
///
/// Off by less than 2^-110 of itself.
fn exp(x: u128) -> (u128, u32) {
    let (twos, rest) = (x / LN_2, x % LN_2);
    let (mut term, mut n, mut sum) = (ONE, 1, 0);
    while term > 0 {
        sum += term;
        term = mul(term, rest) / n;
        n += 1;
    }
    // At most 256 / ln 2 twos.
    (sum.min(2 * ONE - 1), twos as u32)
}

/// The sine and cosine of an angle in the first quarter. Off by less than 2^-110.
fn sin_cos(angle: u128) -> (u128, u128) {
    // Terms of the series in turn: +cos, +sin, -cos, -sin.
    let mut sums = [0_u128; 4];
    let (mut term, mut n) = (ONE, 1);
    while term > 0 {
        sums[(n - 1) as usize % 4] += term;
        term = mul(term, angle) / n;
        n += 1;
    }
    let sine = sums[1].saturating_sub(sums[3]).min(ONE);
    let cosine = sums[0].saturating_sub(sums[2]).min(ONE);
    (sine, cosine)
}

/// The sine of a part of a turn, and one minus its cosine.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The size of the sine.
    sine: u128,
    /// Whether the sine is negative.
    falling_below: bool,
    /// One minus the cosine: 0 to 2.
    versine: u128,
}

/// Looks at `part / whole` of a turn, for `part <= whole < 2^64`.
fn turn(part: u64, whole: u64) -> Turn {
    let quarters = 4 * u128::from(part);
    let (quarter, rest) = (quarters / u128::from(whole), quarters % u128::from(whole));
    let (sine, cosine) = sin_cos(mul_div(HALF_PI, rest, u128::from(whole)));
    let (sine, falling_below, versine) = match quarter % 4 {
        0 => (sine, false, ONE - cosine),
        1 => (cosine, false, ONE + sine),
        2 => (sine, true, ONE + cosine),
        _ => (cosine, true, ONE - sine),
    };
    Turn {
        sine,
        falling_below,
        versine,
    }
}

/// The area under `from · (to / from)^(t / span)` up to `t`, in 10⁻¹⁵ transactions, for rates in
/// millionths per second above zero and times in nanoseconds. Off by less than 2^-80 of itself.
pub(crate) fn exponential_area(from: u64, to: u64, span: u64, t: u64) -> u128 {
    let folds = ln_ratio(from.max(to), from.min(to));
    if folds == 0 {
        return u128::from(from) * u128::from(t);
    }
    // Always the smaller rate times a power of e that is not negative.
    let (low, part) = if to >= from {
        (from, t)
    } else {
        (to, span - t)
    };
    let (mantissa, twos) = exp(mul_div(folds, u128::from(part), u128::from(span)));
    // low · 2^twos is at most the greater rate, below 2^44.
    let rate = mul_shift(u128::from(low) << twos, mantissa, BITS - RATE_BITS);
    let change = rate.abs_diff(u128::from(from) << RATE_BITS);
    // The fractional bits of rate, span and logarithm cancel.
    mul_div(change, u128::from(span) << (BITS - RATE_BITS), folds)
}

/// The area under `mean + amplitude · sin(2π·t / period)` up to `t`, in the same units.
pub(crate) fn sine_area(mean: u64, amplitude: u64, period: u64, t: u64) -> u128 {
    let swing = u128::from(amplitude) * u128::from(period);
    let turn = turn(t % period, period);
    u128::from(mean) * u128::from(t) + mul_div(swing, turn.versine, 4 * HALF_PI)
}

/// Fractional bits of a rate.
const RATE_BITS: u32 = 80;

mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2^-105: well above the stated errors.
    const CLOSE: u128 = 1 << (BITS - 105);

    fn float(x: u128) -> f64 {
        x as f64 / ONE as f64
    }

    #[test]
    fn constants_agree_with_the_series() {
        // ln 2 = sum of 1 / (n · 2^n).
        let ln_2: u128 = (1..=BITS).map(|n| (ONE >> n) / u128::from(n)).sum();
        assert!(LN_2.abs_diff(ln_2) < CLOSE);
        // Machin (1706): pi / 4 = 4 · atan(1/5) - atan(1/239).
        let atan_inverse = |n: u128| {
            let (mut power, mut odd, mut plus, mut minus) = (ONE / n, 1, 0, 0);
            while power > 0 {
                if odd % 4 == 1 {
                    plus += power / odd;
                } else {
                    minus += power / odd;
                }
                power /= n * n;
                odd += 2;
            }
            plus - minus
        };
        let half_pi = 2 * (4 * atan_inverse(5) - atan_inverse(239));
        assert!(HALF_PI.abs_diff(half_pi) < CLOSE);
    }

    #[test]
    fn known_values() {
        assert!(ln_ratio(2, 1).abs_diff(LN_2) < CLOSE);
        assert_eq!(ln_ratio(7, 7), 0);
        let (mantissa, twos) = exp(ln_ratio(10, 1));
        assert_eq!(twos, 3);
        assert!(mantissa.abs_diff(ONE + ONE / 4) < CLOSE);
        let third = turn(1, 12);
        assert!(third.sine.abs_diff(ONE / 2) < CLOSE);
        assert_eq!(turn(1, 1).versine, 0);
        assert_eq!(turn(1, 2).versine, 2 * ONE);
    }

    proptest! {
        #[test]
        fn mul_div_agrees_with_its_inverse(a in 0..1_u128 << 126, b: u128, c in 1_u128..1 << 127) {
            let (high, low) = widening_mul(a, b);
            // The result fits.
            let c = c.max(high + 1);
            let quotient = mul_div(a, b, c);
            let (back_high, back_low) = widening_mul(quotient, c);
            let (rest, borrow) = low.overflowing_sub(back_low);
            prop_assert_eq!(high.wrapping_sub(back_high).wrapping_sub(u128::from(borrow)), 0);
            prop_assert!(rest < c);
        }

        #[test]
        fn exp_undoes_ln(upper in 1_u64..10_000_000_000_000, lower in 1_u64..10_000_000_000_000) {
            let (upper, lower) = (upper.max(lower), upper.min(lower));
            let (mantissa, twos) = exp(ln_ratio(upper, lower));
            let back = mul_shift(u128::from(lower) << twos, mantissa, BITS - 20);
            prop_assert!(back.abs_diff(u128::from(upper) << 20) <= 1);
        }

        #[test]
        fn agrees_with_floats(part in 0_u64..1_000_000) {
            let angle = part as f64 / 1e6 * std::f64::consts::TAU;
            let Turn { sine, falling_below, versine } = turn(part, 1_000_000);
            let sine = if falling_below { -float(sine) } else { float(sine) };
            prop_assert!((sine - angle.sin()).abs() < 1e-14);
            prop_assert!((float(versine) - (1.0 - angle.cos())).abs() < 1e-14);
        }
    }
}
