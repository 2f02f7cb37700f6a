//! A rate that changes by the same factor in equal times: the ramp of the Gigablock tests of 2017.

use std::{fmt, sync::Arc};

use super::{
    curve::{Curve, Knot, RATE_BITS, segments_for},
    fixed,
    limits::check_duration,
    shape::{Form, LocalStep, Piece, Shape},
};
use crate::{Nanos, ProfileError, Rate, count};

/// `rate(t) = from · (to / from)^(t / T)`; the area up to t is `(rate(t) - from) · T / ln(to / from)`.
#[derive(Debug)]
pub(super) struct Exponential {
    growth: Growth,
    curve: Arc<Curve>,
}

#[derive(Debug, Clone, Copy)]
struct Growth {
    from: u64,
    to: u64,
    span: u64,
    /// The natural logarithm of the greater rate by the smaller, Q120: at most 30.
    folds: u128,
}

impl Exponential {
    pub(super) fn new(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        for (rate, verb) in [(from, "start at"), (to, "end at")] {
            if rate.is_zero() {
                return Err(ProfileError::ExponentialZero { verb });
            }
        }
        check_duration("the duration of the exponential ramp", duration)?;
        let growth = Growth::new(from.as_micros(), to.as_micros(), duration.as_nanos());
        let bits = growth.segment_bits();
        let curve = Curve::new(growth.span, bits, |k| growth.knot(k, 1 << bits));
        Ok(Self {
            growth,
            curve: Arc::new(curve),
        })
    }
}

impl Growth {
    fn new(from: u64, to: u64, span: u64) -> Self {
        let folds = fixed::ln_ratio(from.max(to), from.min(to));
        Self {
            from,
            to,
            span,
            folds,
        }
    }

    fn segment_bits(&self) -> u32 {
        let greatest_area = self.from.max(self.to) as f64 * self.span as f64;
        let folds = self.folds as f64 / fixed::ONE as f64;
        // The third derivative of the rate is at most peak · (folds / T)³.
        let whole_error = greatest_area / count::ONE as f64 * folds.powi(3) / 384.0;
        segments_for(whole_error, greatest_area)
    }

    /// The rate at `part / whole` of the span, with [`RATE_BITS`] fractional bits.
    fn rate(&self, part: u64, whole: u64) -> u128 {
        // Always the smaller rate times a power of e that is not negative.
        let (low, part) = if self.to >= self.from {
            (self.from, part)
        } else {
            (self.to, whole - part)
        };
        if part == whole {
            return u128::from(self.from.max(self.to)) << RATE_BITS;
        }
        let exponent = fixed::mul_div(self.folds, u128::from(part), u128::from(whole));
        let (mantissa, twos) = fixed::exp(exponent);
        // low · 2^twos is at most the greater rate, below 2^44.
        fixed::mul_shift(u128::from(low) << twos, mantissa, fixed::BITS - RATE_BITS)
    }

    fn knot(&self, k: u64, knots: u64) -> Knot {
        let rate = self.rate(k, knots);
        let area = if self.folds == 0 {
            fixed::mul_div(
                u128::from(self.from) * u128::from(self.span),
                u128::from(k),
                u128::from(knots),
            )
        } else {
            let change = rate.abs_diff(u128::from(self.from) << RATE_BITS);
            // The fractional bits of rate, span and logarithm cancel.
            let span = u128::from(self.span) << (fixed::BITS - RATE_BITS);
            fixed::mul_div(change, span, self.folds)
        };
        Knot { area, rate }
    }
}

impl Shape for Exponential {
    fn name(&self) -> &'static str {
        "exponential"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (
            Rate::clamped(self.growth.from),
            Rate::clamped(self.growth.to),
        );
        write!(
            f,
            "exponential {from} to {to} in {}",
            Nanos::new(self.growth.span)
        )
    }

    fn length(&self) -> u64 {
        self.growth.span
    }

    fn area(&self, t: u64) -> u128 {
        self.curve.area(t)
    }

    fn rate_at(&self, t: u64) -> Rate {
        let rate = self.growth.rate(t, self.growth.span);
        Rate::clamped(((rate + (1 << (RATE_BITS - 1))) >> RATE_BITS) as u64)
    }

    fn peak(&self) -> Rate {
        Rate::clamped(self.growth.from.max(self.growth.to))
    }

    fn step(&self, _index: u32) -> LocalStep {
        let end = self.growth.span;
        let rate = Rate::clamped((self.curve.total() / u128::from(end)) as u64);
        LocalStep {
            start: 0,
            end,
            rate,
            pause: false,
        }
    }

    fn piece(&self, _area: u128) -> Piece {
        Piece {
            start: 0,
            area_start: 0,
            area_end: self.curve.total(),
            form: Form::Curve(Arc::clone(&self.curve)),
        }
    }
}
