//! A rate that swings around a mean.

use std::{fmt, sync::Arc};

use super::{
    curve::{Curve, Knot, RATE_BITS, segments_for},
    fixed,
    limits::check_duration,
    shape::{Form, LocalStep, Piece, Shape},
};
use crate::{Nanos, ProfileError, Rate, count};

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
            return Err(ProfileError::NothingOffered {
                what: "the mean rate",
            });
        }
        if amplitude > mean {
            return Err(ProfileError::AmplitudeAboveMean { mean, amplitude });
        }
        if mean.as_micros() + amplitude.as_micros() > Rate::MAX.as_micros() {
            return Err(ProfileError::CrestTooHigh { mean, amplitude });
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
        let whole_error = swing_area * std::f64::consts::TAU.powi(3) / 384.0;
        segments_for(whole_error, greatest_area)
    }

    /// The rate at `part / whole` of the period, with [`RATE_BITS`] fractional bits.
    fn rate(&self, part: u64, whole: u64) -> u128 {
        let turn = fixed::turn(part, whole);
        let mean = u128::from(self.mean) << RATE_BITS;
        let swing = fixed::mul_shift(
            u128::from(self.amplitude),
            turn.sine,
            fixed::BITS - RATE_BITS,
        );
        if turn.falling_below {
            mean - swing
        } else {
            mean + swing
        }
    }

    fn knot(&self, k: u64, knots: u64) -> Knot {
        let turn = fixed::turn(k, knots);
        let mean_area = u128::from(self.mean) * u128::from(self.period);
        let swing_area = u128::from(self.amplitude) * u128::from(self.period);
        let area = fixed::mul_div(mean_area, u128::from(k), u128::from(knots))
            + fixed::mul_div(swing_area, turn.versine, 4 * fixed::HALF_PI);
        Knot {
            area,
            rate: self.rate(k, knots),
        }
    }
}

impl Shape for Sine {
    fn name(&self) -> &'static str {
        "sine"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swing {
            mean,
            amplitude,
            period,
        } = self.swing;
        let (mean, amplitude) = (Rate::clamped(mean), Rate::clamped(amplitude));
        let (period, length) = (Nanos::new(period), Nanos::new(self.length));
        write!(
            f,
            "sine {mean} ±{amplitude} with a period of {period} for {length}"
        )
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn area(&self, t: u64) -> u128 {
        let (periods, rest) = (t / self.swing.period, t % self.swing.period);
        u128::from(periods) * self.period_area() + self.curve.area(rest)
    }

    fn rate_at(&self, t: u64) -> Rate {
        let rate = self.swing.rate(t % self.swing.period, self.swing.period);
        Rate::clamped(((rate + (1 << (RATE_BITS - 1))) >> RATE_BITS) as u64)
    }

    fn peak(&self) -> Rate {
        // A sine that ends before its first crest is not worth a formula.
        Rate::clamped(self.swing.mean + self.swing.amplitude)
    }

    fn step(&self, _index: u32) -> LocalStep {
        let rate = Rate::clamped((self.area(self.length) / u128::from(self.length)) as u64);
        LocalStep {
            start: 0,
            end: self.length,
            rate,
            pause: false,
        }
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
