//! Student's t distribution.

use libm::lgamma;

/// Probability that a value lies below `t`; `freedom` degrees of freedom, not necessarily whole.
///
/// With x = ν/(ν + t²) the part beyond |t| on both sides is I_x(ν/2, 1/2) (DLMF 8.17; Abramowitz and Stegun
/// 26.7.1), the regularised incomplete beta function.
pub(crate) fn below(t: f64, freedom: f64) -> f64 {
    let tail = 0.5 * incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// The value below which this share of the distribution lies, by bisection of [`below`]: to 1e-9 of
/// it or better.
pub(crate) fn quantile(share: f64, freedom: f64) -> f64 {
    if share < 0.5 {
        return -quantile(1.0 - share, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while below(high, freedom) < share && high < LARGEST {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if below(middle, freedom) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The regularised incomplete beta function by its continued fraction (DLMF 8.17.22), evaluated by
/// the modified method of Lentz (Press et al., "Numerical Recipes", 3rd edition, sections 5.2 and 6.4).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let ln_front = a * x.ln() + b * (1.0 - x).ln() + lgamma(a + b) - lgamma(a) - lgamma(b);
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction / before - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    ln_front.exp() * fraction / a
}

/// A quantile beyond it is of no use: one degree of freedom has 99.99999 % below 3.2e6.
const LARGEST: f64 = 1e9;
/// Halves an interval of 1e9 to less than 1e-9.
const BISECTIONS: u32 = 60;
/// The fraction needs about as many terms as the root of the larger parameter (Press et al.), which is
/// half the degrees of freedom here.
const TERMS: u32 = 300;
const TINY: f64 = 1e-300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_published_table() {
        // NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2; infinitely many degrees of
        // freedom are the normal distribution.
        for (share, freedom, published) in [
            (0.90, 1.0, 3.078),
            (0.95, 1.0, 6.314),
            (0.975, 1.0, 12.706),
            (0.99, 1.0, 31.821),
            (0.95, 2.0, 2.920),
            (0.975, 2.0, 4.303),
            (0.95, 3.0, 2.353),
            (0.975, 4.0, 2.776),
            (0.995, 4.0, 4.604),
            (0.99, 9.0, 2.821),
            (0.975, 10.0, 2.228),
            (0.999, 18.0, 3.610),
            (0.975, 30.0, 2.042),
            (0.995, 100.0, 2.626),
            (0.975, 1e6, 1.960),
        ] {
            let found = quantile(share, freedom);
            assert!(
                (found - published).abs() < 0.001,
                "{share} {freedom}: {found} for {published}"
            );
            assert!((quantile(1.0 - share, freedom) + found).abs() < 1e-6);
        }
    }

    #[test]
    fn a_quantile_has_its_share_below_it() {
        for freedom in [1.0, 1.7, 2.5, 4.0, 33.3, 500.0] {
            for share in [0.01, 0.3, 0.5, 0.8, 0.999] {
                let back = below(quantile(share, freedom), freedom);
                assert!((back - share).abs() < 1e-9, "{share} {freedom}: {back}");
            }
        }
    }
}
