//! Shapes of few rates: a ramp in steps (start + k · step every interval), and a square wave (high, then low, so many
//! times).

use std::fmt::Debug;
use std::num::NonZeroU32;

use super::shape::{
    ENDLESS, LocalStep, MAX_STEPS, Piece, ProfileError, Shape, check_duration, check_steps,
};
use crate::nanos::Nanos;
use crate::rate::{Rate, SignedRate};

#[derive(Debug)]
pub(super) struct Ramp {
    start: Rate,
    step: SignedRate,
    every: u64,
    to: Option<Rate>,
    count: u32,
}

impl Ramp {
    pub(super) fn new(
        start: Rate,
        step: SignedRate,
        every: Nanos,
        to: Option<Rate>,
    ) -> Result<Self, ProfileError> {
        check_duration("the time between steps", every)?;
        let count = match to {
            _ if step.is_zero() => return Err(ProfileError::new(ZERO_STEP.to_owned())),
            Some(to) => {
                let count = steps_to(start, step, to)?;
                let length = u128::from(every.as_nanos()) * u128::from(count);
                check_duration(
                    "the ramp",
                    Nanos::new(u64::try_from(length).unwrap_or(u64::MAX)),
                )?;
                count
            }
            None => endless_steps(start, step, every)?,
        };
        let count = check_steps(u128::from(count))?;
        Ok(Self {
            start,
            step,
            every: every.as_nanos(),
            to,
            count,
        })
    }

    pub(super) fn peak(&self) -> Rate {
        Rate::clamped(self.rate(0).max(self.rate(self.count - 1)))
    }

    fn unclamped(&self, k: u32) -> i64 {
        self.start.as_micros().cast_signed() + self.step.as_micros() * i64::from(k)
    }
}

/// Steps from `start` up to and including the one that reaches `to` or would pass it.
fn steps_to(start: Rate, step: SignedRate, to: Rate) -> Result<u64, ProfileError> {
    let away = if step.is_negative() {
        to > start
    } else {
        to < start
    };
    if away {
        return Err(ProfileError::new(format!(
            "a step of {step} never leads from {start} to {to}: give the step the other sign, or swap the ends"
        )));
    }
    let distance = start.as_micros().abs_diff(to.as_micros());
    Ok(distance.div_ceil(step.magnitude().as_micros()) + 1)
}

/// Steps of a ramp without an end: up to the highest rate there is, or as far as can be counted.
fn endless_steps(start: Rate, step: SignedRate, every: Nanos) -> Result<u64, ProfileError> {
    let size = step.magnitude().as_micros();
    if step.is_negative() {
        let at = start.as_micros() / size + 1;
        return Err(ProfileError::new(format!(
            "the step {step} makes the rate negative: from {start} it falls below 0/s at step {at}; \
             give the ramp an end between 0/s and {start}"
        )));
    }
    let to_highest = (Rate::MAX.as_micros() - start.as_micros()) / size + 1;
    let countable = ENDLESS / every.as_nanos();
    Ok(to_highest.min(countable).min(u64::from(MAX_STEPS)))
}

impl Stairs for Ramp {
    fn endless(&self) -> bool {
        self.to.is_none()
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn start(&self, k: u32) -> u64 {
        self.every * u64::from(k)
    }

    fn rate(&self, k: u32) -> u64 {
        match self.to {
            Some(to) if k + 1 == self.count => to.as_micros(),
            // Steps end before the rate would leave 0..=10,000,000/s.
            _ => self.unclamped(k).unsigned_abs(),
        }
    }

    fn area_before(&self, k: u32) -> u128 {
        if k == self.count {
            let last = u128::from(self.rate(k - 1)) * u128::from(self.every);
            return self.area_before(k - 1) + last;
        }
        // The sum of start + j · step over j < k.
        let (n, pairs) = (i128::from(k), i128::from(k) * (i128::from(k) - 1) / 2);
        let sum =
            n * i128::from(self.start.as_micros()) + pairs * i128::from(self.step.as_micros());
        sum.unsigned_abs() * u128::from(self.every)
    }
}

const ZERO_STEP: &str = "the step is 0/s: a ramp needs a step above or below zero (for one rate use a constant profile)";

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

/// A shape made of flat steps, of which it can compute each one without walking the others.
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
