//! Smooth rates as staircases of one millisecond.
//!
//! The area at each whole millisecond, and at the end, is the exact integral, which [`Law::area`] rounds once.
//! Within a millisecond the rate is the mean one, rounded down to a millionth per second; what that leaves
//! (less than 10⁻⁹ transactions) falls on the last nanosecond. So totals are exact, the area never falls and
//! nothing adds up over time.

use std::fmt::Debug;

use super::{
    error::{ProfileError, check_duration},
    shape::{Piece, Shape},
};
use crate::{nanos::Nanos, rate::Rate};

/// The length of a step in nanoseconds.
const STEP: u64 = 1_000_000;
/// How often the search follows the slope before it halves the range instead.
const MAX_GUESSES: u32 = 8;

/// A rate as a formula of time. Times are nanoseconds since its start, up to `length`.
pub(super) trait Law: Debug + Send + Sync {
    /// Where it ends.
    fn length(&self) -> u64;
    /// The integral up to `t`: 0 at 0, and from one millisecond to the next it never falls.
    fn area(&self, t: u64) -> u128;
    /// The rate at `t`.
    fn rate(&self, t: u64) -> Rate;
}

/// Makes a [`Shape`] of a [`Law`].
#[derive(Debug)]
pub(super) struct Smooth<L>(pub(super) L);

impl<L: Law> Smooth<L> {
    fn time(&self, step: u64) -> u64 {
        (step * STEP).min(self.0.length())
    }

    fn step(&self, step: u64) -> Piece {
        let (start, end) = (self.time(step), self.time(step + 1));
        let (area_start, area_end) = (self.0.area(start), self.0.area(end));
        Piece {
            start,
            end,
            area_start,
            area_end,
            // At most the peak rate.
            rate: ((area_end - area_start) / u128::from(end - start)) as u64,
        }
    }
}

impl<L: Law> Shape for Smooth<L> {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn area(&self, t: u64) -> u128 {
        if t.is_multiple_of(STEP) || t == self.0.length() {
            return self.0.area(t);
        }
        let step = self.step(t / STEP);
        step.area_start + u128::from(step.rate) * u128::from(t - step.start)
    }

    fn rate_at(&self, t: u64) -> Rate {
        self.0.rate(t)
    }

    fn piece(&self, area: u128, near: Option<u64>) -> Piece {
        // The step is in low..high.
        let (mut low, mut high) = (0, self.0.length().div_ceil(STEP));
        let mut step = match near {
            Some(near) => near / STEP,
            None => scaled(area, high, self.0.area(self.0.length())),
        };
        let mut guesses = 0;
        loop {
            step = step.clamp(low, high - 1);
            let piece = self.step(step);
            let slope = piece.area_end - piece.area_start;
            if piece.area_start > area {
                high = step;
                let back = scaled(piece.area_start - area, 1, slope);
                step = step.saturating_sub(back.saturating_add(1));
            } else if piece.area_end <= area {
                low = step + 1;
                step = step.saturating_add(scaled(area - piece.area_start, 1, slope));
            } else {
                return piece;
            }
            guesses += 1;
            if guesses >= MAX_GUESSES {
                step = low + (high - low) / 2;
            }
        }
    }
}

/// `value · factor / divisor`, as far as 64 bits hold it.
fn scaled(value: u128, factor: u64, divisor: u128) -> u64 {
    let product = value.saturating_mul(u128::from(factor));
    let quotient = product.checked_div(divisor).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// A rate that changes evenly: the area up to t is `from·t + (to - from)·t² / (2·span)`, rounded down.
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
