//! A square wave: high, then low, so many times.

use std::num::NonZeroU32;

use super::{
    error::{ProfileError, check_duration, check_steps},
    stairs::Stairs,
};
use crate::{nanos::Nanos, rate::Rate};

#[derive(Debug)]
pub(super) struct Square {
    high: Rate,
    low: Rate,
    on: u64,
    off: u64,
    cycles: u32,
}

impl Square {
    pub(super) fn new(
        high: Rate,
        low: Rate,
        on: Nanos,
        off: Nanos,
        cycles: NonZeroU32,
    ) -> Result<Self, ProfileError> {
        if high.is_zero() {
            return Err(ProfileError::nothing_offered("the high rate"));
        }
        if low >= high {
            return Err(ProfileError::new(format!(
                "the low rate {low} is not below the high rate {high}: a square wave needs low < high"
            )));
        }
        check_duration("the on time", on)?;
        check_duration("the off time", off)?;
        check_steps(2 * u128::from(cycles.get()))?;
        let whole = on
            .saturating_add(off)
            .saturating_mul(u64::from(cycles.get()));
        check_duration("the square wave", whole)?;
        Ok(Self {
            high,
            low,
            on: on.as_nanos(),
            off: off.as_nanos(),
            cycles: cycles.get(),
        })
    }
}

impl Stairs for Square {
    fn count(&self) -> u32 {
        2 * self.cycles
    }

    fn start(&self, k: u32) -> u64 {
        let cycles = u64::from(k / 2) * (self.on + self.off);
        if k.is_multiple_of(2) {
            cycles
        } else {
            cycles + self.on
        }
    }

    fn rate(&self, k: u32) -> u64 {
        if k.is_multiple_of(2) {
            self.high.as_micros()
        } else {
            self.low.as_micros()
        }
    }

    fn area_before(&self, k: u32) -> u128 {
        let on = u128::from(self.high.as_micros()) * u128::from(self.on);
        let off = u128::from(self.low.as_micros()) * u128::from(self.off);
        let cycles = u128::from(k / 2) * (on + off);
        if k.is_multiple_of(2) {
            cycles
        } else {
            cycles + on
        }
    }

    fn pause(&self, k: u32) -> bool {
        !k.is_multiple_of(2)
    }
}
