//! The phases of a scenario: one profile each.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use pacing::{Nanos, Profile, ProfileError, Rate, SignedRate};
use serde::Deserialize;

use super::{Scale, read};
use crate::settings::text;

/// One profile of a scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "profile", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Phase {
    Constant {
        #[serde(deserialize_with = "text::value")]
        rate: Rate,
        #[serde(default, deserialize_with = "text::option")]
        duration: Option<Nanos>,
    },
    Pause {
        #[serde(deserialize_with = "text::value")]
        duration: Nanos,
    },
    Ramp {
        #[serde(deserialize_with = "text::value")]
        start: Rate,
        #[serde(deserialize_with = "text::value")]
        step: SignedRate,
        #[serde(deserialize_with = "text::value")]
        every: Nanos,
        #[serde(default, deserialize_with = "text::option")]
        to: Option<Rate>,
    },
    Linear {
        #[serde(deserialize_with = "text::value")]
        from: Rate,
        #[serde(deserialize_with = "text::value")]
        to: Rate,
        #[serde(deserialize_with = "text::value")]
        duration: Nanos,
    },
    Exponential {
        #[serde(deserialize_with = "text::value")]
        from: Rate,
        #[serde(deserialize_with = "text::value")]
        to: Rate,
        #[serde(deserialize_with = "text::value")]
        duration: Nanos,
    },
    Square {
        #[serde(deserialize_with = "text::value")]
        rate: Rate,
        #[serde(default, deserialize_with = "text::option")]
        low: Option<Rate>,
        #[serde(deserialize_with = "text::value")]
        on: Nanos,
        #[serde(deserialize_with = "text::value")]
        off: Nanos,
        cycles: NonZeroU32,
    },
    Sine {
        #[serde(deserialize_with = "text::value")]
        mean: Rate,
        #[serde(deserialize_with = "text::value")]
        amplitude: Rate,
        #[serde(deserialize_with = "text::value")]
        period: Nanos,
        #[serde(deserialize_with = "text::value")]
        duration: Nanos,
    },
    Trace {
        /// A CSV file of `second,rate`, relative to the scenario file.
        path: PathBuf,
    },
}

impl Phase {
    /// Whether it is a ramp, which may go on until the target is saturated.
    pub(super) const fn is_ramp(&self) -> bool {
        matches!(self, Self::Ramp { .. })
    }

    /// The profile, with every span of time multiplied by `scale`. `path` is the scenario's own.
    pub(crate) fn profile(&self, path: &Path, scale: Scale) -> anyhow::Result<Profile> {
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
                Profile::parse_trace(&read(&trace)?).and_then(|profile| compressed(profile, scale))
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
