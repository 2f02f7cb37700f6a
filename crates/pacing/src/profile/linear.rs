//! A rate that changes evenly from one to another.

use super::{
    error::{ProfileError, check_duration},
    smooth::Law,
};
use crate::{nanos::Nanos, rate::Rate};

/// The area up to t is `from·t + (to - from)·t² / (2·span)`, rounded down.
#[derive(Debug)]
pub(super) struct Linear {
    from: u64,
    to: u64,
    span: u64,
}

impl Linear {
    pub(super) fn new(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        if from.is_zero() && to.is_zero() {
            return Err(ProfileError::nothing_offered("the rate at both ends"));
        }
        check_duration("the duration of the linear ramp", duration)?;
        Ok(Self {
            from: from.as_micros(),
            to: to.as_micros(),
            span: duration.as_nanos(),
        })
    }
}

impl Law for Linear {
    fn length(&self) -> u64 {
        self.span
    }

    fn area(&self, t: u64) -> u128 {
        let start = u128::from(self.from) * u128::from(t);
        let divisor = 2 * u128::from(self.span);
        // product · t / divisor without leaving 128 bits: product < 2^99, divisor and t < 2^56.
        let product = u128::from(self.from.abs_diff(self.to)) * u128::from(t);
        let whole = (product / divisor) * u128::from(t);
        let rest = (product % divisor) * u128::from(t);
        if self.to < self.from {
            start - (whole + rest.div_ceil(divisor))
        } else {
            start + whole + rest / divisor
        }
    }

    fn rate(&self, t: u64) -> Rate {
        let change = i128::from(self.to) - i128::from(self.from);
        let rate = i128::from(self.from) + change * i128::from(t) / i128::from(self.span);
        Rate::clamped(rate as u64)
    }
}
