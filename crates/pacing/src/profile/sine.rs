//! A rate that swings around a mean.

use std::f64::consts::TAU;

use super::{
    error::{ProfileError, check_duration},
    smooth::Law,
};
use crate::{nanos::Nanos, rate::Rate};

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
