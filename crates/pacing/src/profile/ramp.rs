//! A ramp in steps: start + k · step every interval.

use super::shape::{ENDLESS, MAX_STEPS, ProfileError, check_duration, check_steps};
use super::square::Stairs;
use crate::{nanos::Nanos, rate::Rate, rate::SignedRate};

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
