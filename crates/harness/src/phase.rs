//! The phases of a load as files write them: one profile each.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pacing::{Nanos, Profile, ProfileError, Rate, SignedRate};
use serde::{Deserialize, Serialize};

use crate::{Scale, text};

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
