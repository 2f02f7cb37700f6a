//! A rate that changes by the same factor in equal times: the ramp of the Gigablock tests of 2017.

use std::sync::Arc;

use super::error::ProfileError;
use super::{
    check::check_duration,
    curve::{Curve, Knot, segments_for},
    shape::{Form, Piece, Shape},
};
use crate::{count, nanos::Nanos, rate::Rate};

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
    /// The natural logarithm of `to / from`: -30 to 30.
    folds: f64,
}

impl Exponential {
    pub(super) fn new(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        for (rate, verb) in [(from, "start at"), (to, "end at")] {
            if rate.is_zero() {
                return Err(ProfileError::new(format!(
                    "an exponential ramp cannot {verb} 0/s: use a rate above zero, such as 1/s"
                )));
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
        let (low, high) = (from.min(to), from.max(to));
        // Exact differences below 2^53, and no digits lost where the two rates are close.
        let folds = libm::log1p((high - low) as f64 / low as f64);
        Self {
            from,
            to,
            span,
            folds: if to >= from { folds } else { -folds },
        }
    }

    fn segment_bits(&self) -> u32 {
        let greatest_area = self.from.max(self.to) as f64 * self.span as f64;
        // The third derivative of the rate is at most peak · (folds / T)³.
        let whole_error = greatest_area / count::ONE as f64 * self.folds.abs().powi(3) / 384.0;
        segments_for(whole_error, greatest_area)
    }

    /// The rate at `part / whole` of the span, in millionths per second.
    fn rate(&self, part: u64, whole: u64) -> f64 {
        if part == whole {
            return self.to as f64;
        }
        self.from as f64 * libm::exp(self.folds * (part as f64 / whole as f64))
    }

    fn knot(&self, k: u64, knots: u64) -> Knot {
        let part = k as f64 / knots as f64;
        // (e^(folds · part) - 1) / folds, which tends to `part` as the two rates become one.
        let grown = if self.folds == 0.0 {
            part
        } else {
            libm::expm1(self.folds * part) / self.folds
        };
        Knot {
            area: (self.from as f64 * self.span as f64 * grown) as u128,
            rate: self.rate(k, knots),
        }
    }
}

impl Shape for Exponential {
    fn length(&self) -> u64 {
        self.growth.span
    }

    fn area(&self, t: u64) -> u128 {
        self.curve.area(t)
    }

    fn rate_at(&self, t: u64) -> Rate {
        let rate = self.growth.rate(t, self.growth.span);
        Rate::clamped(rate.round() as u64)
    }

    fn piece(&self, _area: u128) -> Piece {
        Piece::whole(self.curve.total(), Form::Curve(Arc::clone(&self.curve)))
    }
}
