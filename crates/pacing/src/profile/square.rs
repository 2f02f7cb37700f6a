//! A square wave: high, then low, so many times.

use std::fmt::Debug;
use std::num::NonZeroU32;

use super::shape::{LocalStep, Piece, ProfileError, Shape, check_duration, check_steps};
use crate::nanos::Nanos;
use crate::rate::Rate;

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

/// A shape made of flat steps, of which it can tell each one without walking the others.
pub(super) trait Stairs: Debug + Send + Sync {
    fn endless(&self) -> bool {
        false
    }
    /// How many steps; at least one.
    fn count(&self) -> u32;
    /// When step `k` begins; for `k == count`, when the last one ends.
    fn start(&self, k: u32) -> u64;
    /// The rate of step `k < count`, in millionths per second.
    fn rate(&self, k: u32) -> u64;
    /// The area before step `k`; for `k == count`, all of it.
    fn area_before(&self, k: u32) -> u128;
    /// Whether step `k` is a rest.
    fn pause(&self, k: u32) -> bool {
        self.rate(k) == 0
    }
}

/// Makes a [`Shape`] of [`Stairs`].
#[derive(Debug)]
pub(super) struct Staircase<S>(pub(super) S);

impl<S: Stairs> Staircase<S> {
    /// The last step whose `key` is at most the wanted one; `key` never falls and is 0 at step 0.
    fn last_step(&self, at_most: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.0.count());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if at_most(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl<S: Stairs> Shape for Staircase<S> {
    fn length(&self) -> u64 {
        self.0.start(self.0.count())
    }

    fn endless(&self) -> bool {
        self.0.endless()
    }

    fn area(&self, t: u64) -> u128 {
        let k = self.step_at(t);
        self.0.area_before(k) + u128::from(self.0.rate(k)) * u128::from(t - self.0.start(k))
    }

    fn rate_at(&self, t: u64) -> Rate {
        Rate::clamped(self.0.rate(self.step_at(t)))
    }

    fn steps(&self) -> u32 {
        self.0.count()
    }

    fn step_at(&self, t: u64) -> u32 {
        self.last_step(|k| self.0.start(k) <= t)
    }

    fn step(&self, k: u32) -> LocalStep {
        LocalStep {
            start: self.0.start(k),
            end: self.0.start(k + 1),
            rate: Rate::clamped(self.0.rate(k)),
            pause: self.0.pause(k),
        }
    }

    fn piece(&self, area: u128, _near: Option<u64>) -> Piece {
        // Of a step and the pauses before it, all with the same area before them, the last is the
        // one that offers something.
        let k = self.last_step(|k| self.0.area_before(k) <= area);
        Piece {
            start: self.0.start(k),
            end: self.0.start(k + 1),
            area_start: self.0.area_before(k),
            area_end: self.0.area_before(k + 1),
            rate: self.0.rate(k),
        }
    }
}
