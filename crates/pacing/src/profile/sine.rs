//! A rate that swings around a mean.

use std::f64::consts::{PI, TAU};
use std::sync::Arc;

use super::error::ProfileError;
use super::{
    check::check_duration,
    curve::{Curve, Knot, segments_for},
    shape::{Form, Piece, Shape},
};
use crate::{count, nanos::Nanos, rate::Rate};

/// `rate(t) = mean + amplitude · sin(2π·t/P)`; the area up to t is
/// `mean·t + amplitude·P/2π · (1 - cos(2π·t/P))`, of which only one period is kept: a whole one has
/// exactly `mean·P`, so periods do not drift.
#[derive(Debug)]
pub(super) struct Sine {
    swing: Swing,
    length: u64,
    /// One period.
    curve: Arc<Curve>,
}

#[derive(Debug, Clone, Copy)]
struct Swing {
    mean: u64,
    amplitude: u64,
    period: u64,
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
        let swing = Swing {
            mean: mean.as_micros(),
            amplitude: amplitude.as_micros(),
            period: period.as_nanos(),
        };
        let bits = swing.segment_bits();
        let curve = Curve::new(swing.period, bits, |k| swing.knot(k, 1 << bits));
        Ok(Self {
            swing,
            length: duration.as_nanos(),
            curve: Arc::new(curve),
        })
    }

    fn period_area(&self) -> u128 {
        self.curve.total()
    }
}

impl Swing {
    fn segment_bits(&self) -> u32 {
        let greatest_area = (self.mean + self.amplitude) as f64 * self.period as f64;
        // The third derivative of the rate is at most amplitude · (2π / P)³.
        let swing_area = self.amplitude as f64 * self.period as f64 / count::ONE as f64;
        let whole_error = swing_area * TAU.powi(3) / 384.0;
        segments_for(whole_error, greatest_area)
    }

    /// The rate at `part / whole` of the period, in millionths per second.
    fn rate(&self, part: u64, whole: u64) -> f64 {
        let angle = TAU * (part as f64 / whole as f64);
        self.mean as f64 + self.amplitude as f64 * libm::sin(angle)
    }

    fn knot(&self, k: u64, knots: u64) -> Knot {
        let mean_area = u128::from(self.mean) * u128::from(self.period);
        // 1 - cos(2x) = 2·sin²(x) keeps its digits where the cosine is close to 1.
        let sine = libm::sin(PI * (k as f64 / knots as f64));
        let swing_area = self.amplitude as f64 * self.period as f64 / PI * sine * sine;
        Knot {
            // Below 2^116: the mean's part is exact, so that a whole period has no error at all.
            area: mean_area * u128::from(k) / u128::from(knots) + swing_area as u128,
            rate: self.rate(k, knots),
        }
    }
}

impl Shape for Sine {
    fn length(&self) -> u64 {
        self.length
    }

    fn area(&self, t: u64) -> u128 {
        let (periods, rest) = (t / self.swing.period, t % self.swing.period);
        u128::from(periods) * self.period_area() + self.curve.area(rest)
    }

    fn rate_at(&self, t: u64) -> Rate {
        let rate = self.swing.rate(t % self.swing.period, self.swing.period);
        Rate::clamped(rate.round() as u64)
    }

    fn piece(&self, area: u128) -> Piece {
        // The area is below that of all periods begun, which are at most 2^55.
        let periods = (area / self.period_area()) as u64;
        let area_start = u128::from(periods) * self.period_area();
        Piece {
            start: periods * self.swing.period,
            area_start,
            area_end: (area_start + self.period_area()).min(self.area(self.length)),
            form: Form::Curve(Arc::clone(&self.curve)),
        }
    }
}
