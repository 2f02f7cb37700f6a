//! What people write in files and flags: bits a second, parts of a whole, a scale; the phases of a load, one profile each.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use anyhow::Context as _;
use pacing::{Nanos, Profile, ProfileError, Rate, SignedRate};
use serde::{Deserialize, Serialize};

use crate::text;

/// Bits a second, as they are written: a number and bit/s, kbit/s, Mbit/s or Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BitRate(f64);

impl BitRate {
    /// Bits a second.
    #[must_use]
    pub const fn bits_per_second(self) -> f64 {
        self.0
    }
}

impl FromStr for BitRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = UNITS.iter().find_map(|(unit, factor)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * factor)
        });
        let rate = found.filter(|rate| rate.is_finite() && *rate > 0.0);
        rate.map(Self).ok_or_else(|| {
            "write a number above 0 and bit/s, kbit/s, Mbit/s or Gbit/s, as in 30Mbit/s".into()
        })
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small_enough = |(_, factor): &&(&str, f64)| *factor <= self.0;
        let (unit, factor) = UNITS.iter().find(is_small_enough).unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", self.0 / factor)
    }
}

/// The largest first; `bit/s` ends the others.
const UNITS: [(&str, f64); 4] = [
    ("Gbit/s", 1e9),
    ("Mbit/s", 1e6),
    ("kbit/s", 1e3),
    ("bit/s", 1.0),
];

/// A part of one: `5%` or `0.05`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(f64);

impl Share {
    /// The part, between 0 and 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (digits, factor) = match text.trim().strip_suffix('%') {
            Some(digits) => (digits.trim(), 0.01),
            None => (text.trim(), 1.0),
        };
        match digits.parse::<f64>() {
            Ok(number) if number > 0.0 && number * factor < 1.0 => Ok(Self(number * factor)),
            _ => Err(format!(
                "{text:?} is no share; write for instance 5% or 0.05, above 0 and below 1"
            )),
        }
    }
}

/// A factor on every span of time and every count of a scenario; rates stay what they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale(f64);

impl Scale {
    /// As written.
    pub const ONE: Self = Self(1.0);

    /// The factor.
    #[must_use]
    pub const fn factor(self) -> f64 {
        self.0
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }

    /// A span of time; one that is not empty stays so.
    #[must_use]
    pub fn time(self, span: Nanos) -> Nanos {
        self.offset(span).max(SHORTEST.min(span))
    }

    /// A point in time.
    #[must_use]
    pub fn offset(self, at: Nanos) -> Nanos {
        if self.is_one() {
            return at;
        }
        Nanos::from_nanos((at.as_nanos() as f64 * self.0).round() as u64)
    }

    /// A count of at least one.
    #[must_use]
    pub fn count(self, count: u64) -> u64 {
        if self.is_one() {
            return count;
        }
        ((count as f64 * self.0).round() as u64).max(count.min(1))
    }
}

impl FromStr for Scale {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(factor) if factor > 0.0 && factor <= LARGEST => Ok(Self(factor)),
            _ => Err("is no scale; give a number above 0 and at most 1000, e.g. 0.01"),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const LARGEST: f64 = 1_000.0;
/// Shorter than a transaction takes to be written.
const SHORTEST: Nanos = Nanos::from_micros(1);

/// One profile of a load: a table with the key `profile` and the names of the flags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "profile", rename_all = "lowercase", deny_unknown_fields)]
pub enum Phase {
    /// One rate, with or without an end.
    Constant {
        /// The rate; of a square the high one.
        #[serde(with = "text::value")]
        rate: Rate,
        /// How long.
        #[serde(default, with = "text")]
        duration: Option<Nanos>,
    },
    /// Nothing.
    Pause {
        /// How long.
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    /// Steps.
    Ramp {
        /// Rate of the first step.
        #[serde(with = "text::value")]
        start: Rate,
        /// What each step adds.
        #[serde(with = "text::value")]
        step: SignedRate,
        /// How long a step lasts.
        #[serde(with = "text::value")]
        every: Nanos,
        /// The last rate.
        #[serde(default, with = "text")]
        to: Option<Rate>,
    },
    /// A rate that changes evenly.
    Linear {
        /// The first rate.
        #[serde(with = "text::value")]
        from: Rate,
        /// The last rate.
        #[serde(with = "text::value")]
        to: Rate,
        /// How long.
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    /// A rate that changes by the same factor in equal times.
    Exponential {
        /// The first rate.
        #[serde(with = "text::value")]
        from: Rate,
        /// The last rate.
        #[serde(with = "text::value")]
        to: Rate,
        /// How long.
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    /// A high and a low rate in turns.
    Square {
        /// The rate; of a square the high one.
        #[serde(with = "text::value")]
        rate: Rate,
        /// The low rate; zero without it.
        #[serde(default, with = "text")]
        low: Option<Rate>,
        /// How long the rate is high.
        #[serde(with = "text::value")]
        on: Nanos,
        /// How long it is low.
        #[serde(with = "text::value")]
        off: Nanos,
        /// How often both are repeated.
        cycles: NonZeroU32,
    },
    /// A rate that swings around a mean.
    Sine {
        /// The mean rate.
        #[serde(with = "text::value")]
        mean: Rate,
        /// How far the rate goes from it.
        #[serde(with = "text::value")]
        amplitude: Rate,
        /// The time of one swing.
        #[serde(with = "text::value")]
        period: Nanos,
        /// How long.
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    /// A recorded rate.
    Trace {
        /// A CSV file of `second,rate`, relative to the file.
        path: PathBuf,
    },
}

impl Phase {
    /// Whether it is a ramp, which may go on until the target is saturated.
    pub const fn is_ramp(&self) -> bool {
        matches!(self, Self::Ramp { .. })
    }

    /// The profile, with every span of time multiplied by `scale`. `path` is the file that the phase is in.
    ///
    /// # Errors
    /// When a value is out of range, or a trace cannot be read.
    pub fn profile(&self, path: &Path, scale: Scale) -> anyhow::Result<Profile> {
        let profile = match self {
            Self::Constant { rate, duration } => {
                Profile::constant(*rate, duration.map(|duration| scale.time(duration)))
            }
            Self::Pause { duration } => Profile::pause(scale.time(*duration)),
            Self::Ramp {
                start,
                step,
                every,
                to,
            } => Profile::steps(*start, *step, scale.time(*every), *to),
            Self::Linear { from, to, duration } => {
                Profile::linear(*from, *to, scale.time(*duration))
            }
            Self::Exponential { from, to, duration } => {
                Profile::exponential(*from, *to, scale.time(*duration))
            }
            Self::Square {
                rate,
                low,
                on,
                off,
                cycles,
            } => Profile::square(
                *rate,
                low.unwrap_or(Rate::ZERO),
                scale.time(*on),
                scale.time(*off),
                *cycles,
            ),
            Self::Sine {
                mean,
                amplitude,
                period,
                duration,
            } => Profile::sine(
                *mean,
                *amplitude,
                scale.time(*period),
                scale.time(*duration),
            ),
            Self::Trace { path: trace } => {
                let trace = path.parent().unwrap_or(Path::new("")).join(trace);
                let text = fs::read_to_string(&trace)
                    .with_context(|| format!("cannot read {}", trace.display()))?;
                Profile::parse_trace(&text).and_then(|profile| compressed(profile, scale))
            }
        };
        Ok(profile?)
    }
}

/// A trace played faster or slower.
fn compressed(trace: Profile, scale: Scale) -> Result<Profile, ProfileError> {
    if scale.is_one() {
        return Ok(trace);
    }
    let points = trace
        .iter_steps()
        .map(|step| (scale.offset(step.start), trace.rate_at(step.start)));
    Profile::trace(points, trace.duration().map(|end| scale.time(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_nothing_is_no_rate() {
        for text in ["30Mbit/s", "2.5Gbit/s", "64kbit/s", "9bit/s"] {
            assert_eq!(text.parse::<BitRate>().unwrap().to_string(), text);
        }
        for text in ["0Mbit/s", "-1bit/s", "30", "30mb"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!("5%".parse(), Ok(Share(0.05)));
        assert_eq!("0.25".parse(), Ok(Share(0.25)));
        for text in ["0", "100%", "1", "-5%", "much"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_shrink_and_do_not_vanish() {
        let scale: Scale = "0.01".parse().unwrap();
        assert_eq!(scale.time(Nanos::from_secs(100)), Nanos::from_secs(1));
        assert_eq!(scale.time(Nanos::from_micros(1)), Nanos::from_micros(1));
        assert_eq!(scale.time(Nanos::ZERO), Nanos::ZERO);
        assert_eq!(
            (scale.count(1_000_000), scale.count(3), scale.count(0)),
            (10_000, 1, 0)
        );
        assert_eq!(Scale::ONE.time(Nanos::from_nanos(7)), Nanos::from_nanos(7));
    }

    #[test]
    fn what_is_no_factor_is_refused() {
        for text in ["0", "-1", "nan", "inf", "1001", "x", ""] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }
}
