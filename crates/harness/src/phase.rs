//! The phases of a load as files write them: one profile each.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pacing::{Nanos, Profile, ProfileError, Rate, SignedRate};
use serde::Deserialize;

use crate::{Scale, text};

/// One profile of a load: a table with the key `profile` and the names of the flags.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Phase(Shape);

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "profile", rename_all = "lowercase", deny_unknown_fields)]
enum Shape {
    Constant {
        #[serde(with = "text::value")]
        rate: Rate,
        #[serde(default, with = "text")]
        duration: Option<Nanos>,
    },
    Pause {
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    Ramp {
        #[serde(with = "text::value")]
        start: Rate,
        #[serde(with = "text::value")]
        step: SignedRate,
        #[serde(with = "text::value")]
        every: Nanos,
        #[serde(default, with = "text")]
        to: Option<Rate>,
    },
    Linear {
        #[serde(with = "text::value")]
        from: Rate,
        #[serde(with = "text::value")]
        to: Rate,
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    Exponential {
        #[serde(with = "text::value")]
        from: Rate,
        #[serde(with = "text::value")]
        to: Rate,
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    Square {
        #[serde(with = "text::value")]
        rate: Rate,
        #[serde(default, with = "text")]
        low: Option<Rate>,
        #[serde(with = "text::value")]
        on: Nanos,
        #[serde(with = "text::value")]
        off: Nanos,
        cycles: NonZeroU32,
    },
    Sine {
        #[serde(with = "text::value")]
        mean: Rate,
        #[serde(with = "text::value")]
        amplitude: Rate,
        #[serde(with = "text::value")]
        period: Nanos,
        #[serde(with = "text::value")]
        duration: Nanos,
    },
    Trace {
        /// A CSV file of `second,rate`, relative to the file.
        path: PathBuf,
    },
}

impl Phase {
    /// Whether it is a ramp, which may go on until the target is saturated.
    pub const fn is_ramp(&self) -> bool {
        matches!(self.0, Shape::Ramp { .. })
    }

    /// The profile, with every span of time multiplied by `scale`. `path` is the file that the phase is in.
    ///
    /// # Errors
    /// When a value is out of range, or a trace cannot be read.
    pub fn profile(&self, path: &Path, scale: Scale) -> anyhow::Result<Profile> {
        let profile = match &self.0 {
            Shape::Constant { rate, duration } => {
                Profile::constant(*rate, duration.map(|duration| scale.time(duration)))
            }
            Shape::Pause { duration } => Profile::pause(scale.time(*duration)),
            Shape::Ramp {
                start,
                step,
                every,
                to,
            } => Profile::steps(*start, *step, scale.time(*every), *to),
            Shape::Linear { from, to, duration } => {
                Profile::linear(*from, *to, scale.time(*duration))
            }
            Shape::Exponential { from, to, duration } => {
                Profile::exponential(*from, *to, scale.time(*duration))
            }
            Shape::Square {
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
            Shape::Sine {
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
            Shape::Trace { path: trace } => {
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
