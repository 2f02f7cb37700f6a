//! A rate that changes by the same factor in equal times: the ramp of the Gigablock tests of 2017.

use super::{
    error::{ProfileError, check_duration},
    smooth::Law,
};
use crate::{nanos::Nanos, rate::Rate};

/// `rate(t) = from · (to / from)^(t / T)`; the area up to t is `(rate(t) - from) · T / ln(to / from)`.
///
/// It is computed from the end with the lower rate: there areas are small, and a float keeps the digits that
/// the difference of two neighbours needs (tested: [`Law::area`] never falls).
#[derive(Debug)]
pub(super) struct Exponential {
    from: u64,
    to: u64,
    span: u64,
    /// The natural logarithm of the higher rate over the lower: 0 to 30.
    folds: f64,
    total: u128,
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
        let (from, to) = (from.as_micros(), to.as_micros());
        // Exact differences below 2^53, and no digits lost where the two rates are close.
        let folds = libm::log1p(from.abs_diff(to) as f64 / from.min(to) as f64);
        let mut ramp = Self {
            from,
            to,
            span: duration.as_nanos(),
            folds,
            total: u128::MAX,
        };
        ramp.total = ramp.area_at_low_end(ramp.span);
        Ok(ramp)
    }

    /// The area of the `time` at the end with the lower rate.
    fn area_at_low_end(&self, time: u64) -> u128 {
        let low = self.from.min(self.to);
        if self.folds == 0.0 {
            return u128::from(low) * u128::from(time);
        }
        let grown = libm::expm1(self.folds * (time as f64 / self.span as f64));
        let area = low as f64 * self.span as f64 / self.folds * grown;
        (area as u128).min(self.total)
    }
}

impl Law for Exponential {
    fn length(&self) -> u64 {
        self.span
    }

    fn area(&self, t: u64) -> u128 {
        if self.to < self.from {
            self.total - self.area_at_low_end(self.span - t)
        } else {
            self.area_at_low_end(t)
        }
    }

    fn rate(&self, t: u64) -> Rate {
        let way = if self.to < self.from {
            self.span - t
        } else {
            t
        };
        let grown = libm::exp(self.folds * (way as f64 / self.span as f64));
        let rate = self.from.min(self.to) as f64 * grown;
        Rate::clamped(rate.round() as u64)
    }
}
