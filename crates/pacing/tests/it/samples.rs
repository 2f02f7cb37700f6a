//! Profiles of every shape, each with its integral computed another way.

use std::{f64::consts::TAU, num::NonZeroU32};

use pacing::{Nanos, Profile, Rate, SignedRate};
use proptest::prelude::*;

/// What a profile was made of.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Constant {
        rate: Rate,
        duration: Nanos,
    },
    Ramp {
        start: Rate,
        step: i64,
        every: Nanos,
        count: u32,
    },
    Linear {
        from: Rate,
        to: Rate,
        duration: Nanos,
    },
    Exponential {
        from: Rate,
        to: Rate,
        duration: Nanos,
    },
    Square {
        high: Rate,
        low: Rate,
        on: Nanos,
        off: Nanos,
        cycles: u32,
    },
    Sine {
        mean: Rate,
        amplitude: Rate,
        period: Nanos,
        duration: Nanos,
    },
    Trace {
        rows: Vec<(Nanos, Rate)>,
        end: Nanos,
    },
}

fn f(rate: Rate) -> f64 {
    rate.as_f64()
}

pub(crate) fn micros(micros: u64) -> Rate {
    Rate::from_micros(micros).unwrap()
}

impl Shape {
    pub(crate) fn profile(&self) -> Profile {
        match self.clone() {
            Self::Constant { rate, duration } => Profile::constant(rate, Some(duration)),
            Self::Ramp {
                start,
                step,
                every,
                count,
            } => {
                let last = start.as_micros().cast_signed() + step * i64::from(count - 1);
                let to = micros(last.cast_unsigned());
                Profile::steps(
                    start,
                    SignedRate::from_micros(step).unwrap(),
                    every,
                    Some(to),
                )
            }
            Self::Linear { from, to, duration } => Profile::linear(from, to, duration),
            Self::Exponential { from, to, duration } => Profile::exponential(from, to, duration),
            Self::Square {
                high,
                low,
                on,
                off,
                cycles,
            } => Profile::square(high, low, on, off, NonZeroU32::new(cycles).unwrap()),
            Self::Sine {
                mean,
                amplitude,
                period,
                duration,
            } => Profile::sine(mean, amplitude, period, duration),
            Self::Trace { rows, end } => Profile::trace(rows, Some(end)),
        }
        .unwrap()
    }

    /// The integral over `[0, t)` in floating point, from the formula and from nothing of ours.
    pub(crate) fn integral(&self, t: f64) -> f64 {
        match self {
            Self::Constant { rate, .. } => f(*rate) * t,
            Self::Ramp {
                start,
                step,
                every,
                count,
            } => (0..*count)
                .map(|k| {
                    let rate = f(*start) + *step as f64 / 1e6 * f64::from(k);
                    rate * (t - f64::from(k) * every.as_secs_f64()).clamp(0.0, every.as_secs_f64())
                })
                .sum(),
            Self::Linear { from, to, duration } => {
                f(*from) * t + (f(*to) - f(*from)) * t * t / (2.0 * duration.as_secs_f64())
            }
            Self::Exponential { from, to, duration } => {
                let folds = (f(*to) / f(*from)).ln();
                if folds.abs() < 1e-9 {
                    return f(*from) * t;
                }
                let duration = duration.as_secs_f64();
                f(*from) * duration / folds * (folds * t / duration).exp_m1()
            }
            Self::Square {
                high, low, on, off, ..
            } => {
                let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
                let cycles = (t / (on + off)).floor();
                let rest = t - cycles * (on + off);
                cycles * (f(*high) * on + f(*low) * off)
                    + f(*high) * rest.min(on)
                    + f(*low) * (rest - on).max(0.0)
            }
            Self::Sine {
                mean,
                amplitude,
                period,
                ..
            } => {
                let period = period.as_secs_f64();
                f(*mean) * t
                    + f(*amplitude) * period / TAU * (1.0 - (TAU * (t % period) / period).cos())
            }
            Self::Trace { rows, end } => rows
                .iter()
                .zip(rows.iter().skip(1).map(|row| row.0).chain([*end]))
                .map(|((at, rate), next)| {
                    let (at, next) = (at.as_secs_f64(), next.as_secs_f64());
                    f(*rate) * (t - at).clamp(0.0, next - at)
                })
                .sum(),
        }
    }

    /// How far [`Shape::integral`] may be off, after that many transactions.
    pub(crate) fn slack(&self, count: f64) -> f64 {
        1e-6 + count * 1e-12
    }

    /// How far a staircase of 1 ms may be off within a step: the error of linear interpolation.
    pub(crate) fn within_step(&self) -> f64 {
        let (swing, steepest, length) = match self {
            Self::Linear { from, to, duration } => {
                let duration = duration.as_secs_f64();
                let change = (f(*from) - f(*to)).abs();
                (change * duration, change / duration, duration)
            }
            Self::Exponential { from, to, duration } => {
                let duration = duration.as_secs_f64();
                let (high, folds) = (f(*from).max(f(*to)), (f(*from) / f(*to)).ln().abs());
                (high * duration, high * folds / duration, duration)
            }
            Self::Sine {
                amplitude,
                period,
                duration,
                ..
            } => {
                let period = period.as_secs_f64();
                let swing = f(*amplitude) * period;
                let steepest = f(*amplitude) * TAU / period;
                (swing, steepest, duration.as_secs_f64())
            }
            _ => return 0.0,
        };
        (steepest * length.min(1e-3).powi(2) / 8.0).min(swing)
    }
}

/// 0.1/s to 1,000,000/s, evenly over the decades.
pub(crate) fn rates() -> impl Strategy<Value = Rate> {
    (5.0_f64..12.0).prop_map(|exponent| micros(10_f64.powf(exponent) as u64))
}

/// A time between the bounds, evenly over the decades.
pub(crate) fn times(low: Nanos, high: Nanos) -> impl Strategy<Value = Nanos> {
    ((low.as_nanos() as f64).log10()..(high.as_nanos() as f64).log10())
        .prop_map(|exponent| Nanos::new(10_f64.powf(exponent) as u64))
}

/// Any shape that lasts about `low` to `high`.
pub(crate) fn shapes(low: Nanos, high: Nanos) -> impl Strategy<Value = Shape> {
    let time = move || times(low, high);
    prop_oneof![
        (rates(), time()).prop_map(|(rate, duration)| Shape::Constant { rate, duration }),
        (rates(), rates(), time(), 2_u32..20).prop_map(|(a, b, time, count)| {
            let change = b.as_micros().cast_signed() - a.as_micros().cast_signed();
            let step = change / i64::from(count - 1);
            let step = if step == 0 { 1 } else { step };
            let every = Nanos::new(time.as_nanos() / u64::from(count) + 1);
            Shape::Ramp {
                start: a,
                step,
                every,
                count,
            }
        }),
        (rates(), rates(), time(), 0..3_u8).prop_map(|(a, b, duration, zero)| {
            let from = if zero == 1 { Rate::ZERO } else { a };
            let to = if zero == 2 { Rate::ZERO } else { b };
            Shape::Linear { from, to, duration }
        }),
        (rates(), rates(), time()).prop_map(|(from, to, duration)| Shape::Exponential {
            from,
            to,
            duration
        }),
        (
            rates(),
            rates(),
            time(),
            1..99_u64,
            1_u32..20,
            any::<bool>()
        )
            .prop_map(|(a, b, time, duty, cycles, rest)| {
                let (high, low) = (a.max(b), a.min(b));
                let low = if rest || low == high { Rate::ZERO } else { low };
                let cycle = time.as_nanos() / u64::from(cycles) + 100;
                let on = Nanos::new(cycle * duty / 100);
                let off = Nanos::new(cycle - on.as_nanos());
                Shape::Square {
                    high,
                    low,
                    on,
                    off,
                    cycles,
                }
            }),
        (rates(), 0..=100_u64, time(), 0.1_f64..20.0).prop_map(
            |(mean, part, duration, periods)| {
                let amplitude = micros(mean.as_micros() * part / 100);
                let period = Nanos::new((duration.as_nanos() as f64 / periods) as u64 + 1);
                Shape::Sine {
                    mean,
                    amplitude,
                    period,
                    duration,
                }
            }
        ),
        (
            prop::collection::vec((rates(), 1..1000_u64, 0..4_u8), 1..12),
            rates(),
            time()
        )
            .prop_map(|(parts, first, time)| {
                let whole: u64 = parts.iter().map(|part| part.1).sum();
                let mut at = 0;
                let mut rows = Vec::new();
                for (rate, length, zero) in parts {
                    let rate = if rows.is_empty() { first } else { rate };
                    let rate = if zero == 0 && !rows.is_empty() {
                        Rate::ZERO
                    } else {
                        rate
                    };
                    rows.push((Nanos::new(at), rate));
                    at += time.as_nanos() / whole * length + 1;
                }
                Shape::Trace {
                    rows,
                    end: Nanos::new(at),
                }
            }),
    ]
}

/// Some shapes one after the other, and the profile they make.
pub(crate) fn sequences(low: Nanos, high: Nanos) -> impl Strategy<Value = (Vec<Shape>, Profile)> {
    prop::collection::vec(shapes(low, high), 1..5).prop_map(|shapes| {
        let profiles: Vec<Profile> = shapes.iter().map(Shape::profile).collect();
        (shapes, Profile::phases(profiles).unwrap())
    })
}

/// The integral of a sequence, in floating point.
pub(crate) fn integral_of(shapes: &[Shape], t: Nanos) -> f64 {
    let mut left = t;
    let mut sum = 0.0;
    for shape in shapes {
        let duration = shape.profile().duration().unwrap();
        sum += shape.integral(left.min(duration).as_secs_f64());
        left = left.saturating_sub(duration);
    }
    sum
}
