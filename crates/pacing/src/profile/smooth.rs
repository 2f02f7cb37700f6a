//! Smooth rates as staircases of one millisecond.
//!
//! The area at each whole millisecond, and at the end, is the exact integral, which [`Law::area`] rounds once.
//! Within a millisecond the rate is the mean one, rounded down to a millionth per second; what that leaves
//! (less than 10⁻⁹ transactions) falls on the last nanosecond. So totals are exact, the area never falls and
//! nothing adds up over time.

use std::f64::consts::TAU;
use std::fmt::Debug;

use super::shape::{Piece, ProfileError, Shape, check_duration};
use crate::nanos::Nanos;
use crate::rate::Rate;

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

/// `rate(t) = mean + amplitude · sin(2π·t/P)`. A whole period has exactly the area `mean·P`, so that periods
/// do not drift.
///
/// The area is computed from the nearest trough: there rates and areas are small, and a float keeps the digits
/// that the difference of two neighbours needs (tested: [`Law::area`] never falls).
#[derive(Debug)]
pub(super) struct Sine {
    mean: u64,
    amplitude: u64,
    period: u64,
    length: u64,
    /// The area from a trough to the start, a quarter of a period later.
    before: u128,
}

impl Sine {
    pub(super) fn new(
        mean: Rate,
        amplitude: Rate,
        period: Nanos,
        duration: Nanos,
    ) -> Result<Self, ProfileError> {
        if mean.is_zero() {
            return Err(ProfileError::nothing_offered("the mean rate"));
        }
        if amplitude > mean {
            return Err(ProfileError::new(format!(
                "the amplitude {amplitude} is above the mean {mean}: the rate would fall below 0/s, use at most the mean"
            )));
        }
        if mean.as_micros() + amplitude.as_micros() > Rate::MAX.as_micros() {
            return Err(ProfileError::new(format!(
                "mean {mean} and amplitude {amplitude} add up to more than 10000000/s: lower one of them"
            )));
        }
        check_duration("the period of the sine", period)?;
        check_duration("the duration of the sine", duration)?;
        let mut sine = Self {
            mean: mean.as_micros(),
            amplitude: amplitude.as_micros(),
            period: period.as_nanos(),
            length: duration.as_nanos(),
            before: 0,
        };
        sine.before = sine.after_trough(sine.period);
        Ok(sine)
    }

    fn period_area(&self) -> u128 {
        u128::from(self.mean) * u128::from(self.period)
    }

    /// The area of the first `quarters` quarter nanoseconds after a trough, for at most two periods.
    fn after_trough(&self, quarters: u64) -> u128 {
        let period = 4 * self.period;
        if quarters > period {
            self.period_area() + self.after_trough(quarters - period)
        } else if quarters > period / 2 {
            self.period_area() - self.rise(period - quarters)
        } else {
            self.rise(quarters)
        }
    }

    /// The same for at most half a period: `(mean - amplitude)·t + amplitude·(t - P/2π·sin(2π·t/P))`.
    fn rise(&self, quarters: u64) -> u128 {
        let steady = u128::from(self.mean - self.amplitude) * u128::from(quarters) / 4;
        let angle = TAU * (quarters as f64 / (4 * self.period) as f64);
        let swing = self.amplitude as f64 * (self.period as f64 / TAU) * minus_sine(angle);
        (steady + swing as u128).min(self.period_area() / 2)
    }
}

/// `x - sin(x)`, without the digits that the difference loses where x is small.
fn minus_sine(x: f64) -> f64 {
    if x > 1.0 {
        return x - libm::sin(x);
    }
    // x³/3! · (1 - x²/(4·5) · (1 - x²/(6·7) · …)): what follows eight factors is below 10^-18.
    let square = x * x;
    let mut series = 1.0;
    for even in (4..=18).rev().step_by(2) {
        let even = f64::from(even);
        series = 1.0 - square / (even * (even + 1.0)) * series;
    }
    x * square / 6.0 * series
}

impl Law for Sine {
    fn length(&self) -> u64 {
        self.length
    }

    fn area(&self, t: u64) -> u128 {
        let (periods, rest) = (t / self.period, t % self.period);
        let part = self.after_trough(self.period + 4 * rest) - self.before;
        u128::from(periods) * self.period_area() + part
    }

    fn rate(&self, t: u64) -> Rate {
        let angle = TAU * ((t % self.period) as f64 / self.period as f64);
        let rate = self.mean as f64 + self.amplitude as f64 * libm::sin(angle);
        Rate::clamped(rate.round() as u64)
    }
}
