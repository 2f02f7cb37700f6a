//! A rate that changes evenly from one to another.

use std::fmt;

use super::error::ProfileError;
use super::{
    check::check_duration,
    shape::{Form, Piece, Shape},
    slope::Slope,
};
use crate::{nanos::Nanos, rate::Rate};

#[derive(Debug)]
pub(super) struct Linear(Slope);

impl Linear {
    pub(super) fn new(from: Rate, to: Rate, duration: Nanos) -> Result<Self, ProfileError> {
        if from.is_zero() && to.is_zero() {
            return Err(ProfileError::NothingOffered {
                what: "the rate at both ends",
            });
        }
        check_duration("the duration of the linear ramp", duration)?;
        let (from, to) = (from.as_micros(), to.as_micros());
        Ok(Self(Slope {
            from,
            to,
            span: duration.as_nanos(),
        }))
    }

    fn whole(&self) -> u128 {
        self.0.area(self.0.span)
    }
}

impl Shape for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (Rate::clamped(self.0.from), Rate::clamped(self.0.to));
        write!(f, "linear {from} to {to} in {}", Nanos::new(self.0.span))
    }

    fn length(&self) -> u64 {
        self.0.span
    }

    fn area(&self, t: u64) -> u128 {
        self.0.area(t)
    }

    fn rate_at(&self, t: u64) -> Rate {
        Rate::clamped(self.0.rate(t))
    }

    fn peak(&self) -> Rate {
        Rate::clamped(self.0.from.max(self.0.to))
    }

    fn piece(&self, _area: u128) -> Piece {
        Piece {
            start: 0,
            area_start: 0,
            area_end: self.whole(),
            form: Form::Linear(self.0),
        }
    }
}
