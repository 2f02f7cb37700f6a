//! A rate that changes evenly from one to another.

use super::error::ProfileError;
use super::{
    check::check_duration,
    shape::{Form, Piece, Shape},
    slope::Slope,
};
use crate::{nanos::Nanos, rate::Rate};

/// The slope of a linear ramp.
pub(super) fn linear(from: Rate, to: Rate, duration: Nanos) -> Result<Slope, ProfileError> {
    if from.is_zero() && to.is_zero() {
        return Err(ProfileError::nothing_offered("the rate at both ends"));
    }
    check_duration("the duration of the linear ramp", duration)?;
    Ok(Slope {
        from: from.as_micros(),
        to: to.as_micros(),
        span: duration.as_nanos(),
    })
}

impl Shape for Slope {
    fn length(&self) -> u64 {
        self.span
    }

    fn area(&self, t: u64) -> u128 {
        self.area(t)
    }

    fn rate_at(&self, t: u64) -> Rate {
        Rate::clamped(self.rate(t))
    }

    fn piece(&self, _area: u128) -> Piece {
        Piece::whole(self.area(self.span), Form::Linear(*self))
    }
}
