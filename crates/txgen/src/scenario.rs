//! Scenario files: a run as TOML, with the names of the flags.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use pacing::{Nanos, Profile, ProfileError, Rate, SignedRate};
use serde::Deserialize;

use crate::cli::{Settings, text};
use crate::plan::{Request, RequestedLoad};

/// A scenario file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What people call it; the file's name otherwise.
    name: Option<String>,
    /// The profiles, played one after the other. Not together with `flood`.
    #[serde(default)]
    phases: Vec<Phase>,
    /// A closed loop instead of phases.
    flood: Option<Flood>,
    /// End when the target is saturated for two steps.
    #[serde(default)]
    stop_when_saturated: bool,
    /// Break all connections in every pause.
    #[serde(default)]
    reconnect: bool,
    /// The common options.
    #[serde(default)]
    settings: Settings,
    /// The built-in node, used without `settings.endpoints`.
    #[serde(default)]
    builtin: devnode::Config,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flood {
    concurrency: NonZeroU32,
    count: u64,
}

/// One profile of a scenario.
#[derive(Debug, Deserialize)]
#[serde(tag = "profile", rename_all = "lowercase", deny_unknown_fields)]
enum Phase {
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

/// Why a scenario file cannot be played. Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file, or one it refers to, cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not the TOML of a scenario.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and what, with the nearest known key for an unknown one.
        message: String,
    },
    /// A phase is illegal.
    #[error("{}, phase {number}", path.display())]
    Phase {
        /// The file.
        path: PathBuf,
        /// The phase, counted from one.
        number: usize,
        /// What is wrong with it.
        #[source]
        source: ProfileError,
    },
    /// The phases do not fit together, or there is nothing to play.
    #[error("{}: {problem}", path.display())]
    Illegal {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl Scenario {
    /// Reads and checks a scenario file; gives what to run and the file's settings.
    ///
    /// # Errors
    /// When the file cannot be read, has unknown or illegal keys, or describes nothing to run.
    pub fn load(path: &Path) -> Result<(Request, Settings), ScenarioError> {
        let text = read(path)?;
        let scenario: Self = toml::from_str(&text).map_err(|error| ScenarioError::Malformed {
            path: path.into(),
            message: with_suggestion(&error.to_string()),
        })?;
        let load = scenario.requested_load(path)?;
        let name = scenario.name.unwrap_or_else(|| {
            path.file_stem()
                .map_or_else(|| "run".into(), |stem| stem.to_string_lossy().into_owned())
        });
        let request = Request {
            command: name,
            load,
            builtin: scenario.builtin,
        };
        Ok((request, scenario.settings))
    }

    fn requested_load(&self, path: &Path) -> Result<RequestedLoad, ScenarioError> {
        let illegal = |problem: String| ScenarioError::Illegal {
            path: path.into(),
            problem,
        };
        match &self.flood {
            Some(_) if !self.phases.is_empty() => Err(illegal(
                "has both phases and flood; keep one of them".into(),
            )),
            Some(flood) => Ok(RequestedLoad::Flood {
                concurrency: flood.concurrency,
                count: flood.count,
            }),
            None if self.phases.is_empty() => Err(illegal(
                "has nothing to run; add a [[phases]] table or a [flood] table".into(),
            )),
            None => {
                let profile = self.profile(path)?;
                let ramps = matches!(self.phases.last(), Some(Phase::Ramp { .. }));
                if profile.duration().is_none() && !(self.stop_when_saturated && ramps) {
                    return Err(illegal(
                        "its last phase has no end; give it one, or make it a ramp and set \
                         stop_when_saturated = true"
                            .into(),
                    ));
                }
                Ok(RequestedLoad::Open {
                    profile,
                    stop_when_saturated: self.stop_when_saturated,
                    reconnect_in_pauses: self.reconnect,
                })
            }
        }
    }

    fn profile(&self, path: &Path) -> Result<Profile, ScenarioError> {
        let mut profiles = Vec::with_capacity(self.phases.len());
        for (position, phase) in self.phases.iter().enumerate() {
            profiles.push(phase.profile(path, position + 1)?);
        }
        if profiles.len() == 1 {
            return Ok(profiles.remove(0));
        }
        Profile::phases(profiles).map_err(|error| ScenarioError::Illegal {
            path: path.into(),
            problem: error.to_string(),
        })
    }
}

impl Phase {
    fn profile(&self, path: &Path, number: usize) -> Result<Profile, ScenarioError> {
        let profile = match self {
            Self::Constant { rate, duration } => Profile::constant(*rate, *duration),
            Self::Pause { duration } => Profile::pause(*duration),
            Self::Ramp {
                start,
                step,
                every,
                to,
            } => Profile::steps(*start, *step, *every, *to),
            Self::Linear { from, to, duration } => Profile::linear(*from, *to, *duration),
            Self::Exponential { from, to, duration } => Profile::exponential(*from, *to, *duration),
            Self::Square {
                rate,
                low,
                on,
                off,
                cycles,
            } => Profile::square(*rate, low.unwrap_or(Rate::ZERO), *on, *off, *cycles),
            Self::Sine {
                mean,
                amplitude,
                period,
                duration,
            } => Profile::sine(*mean, *amplitude, *period, *duration),
            Self::Trace { path: trace } => {
                let trace = path.parent().unwrap_or(Path::new("")).join(trace);
                Profile::parse_trace(&read(&trace)?)
            }
        };
        profile.map_err(|source| ScenarioError::Phase {
            path: path.into(),
            number,
            source,
        })
    }
}

fn read(path: &Path) -> Result<String, ScenarioError> {
    fs::read_to_string(path).map_err(|source| ScenarioError::Unreadable {
        path: path.into(),
        source,
    })
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let Some((_, rest)) = message.split_once("unknown field `") else {
        return message.trim_end().into();
    };
    let Some((unknown, expected)) = rest.split_once('`') else {
        return message.trim_end().into();
    };
    let known = expected.split('`').skip(1).step_by(2);
    let nearest = known
        .map(|key| (strsim::damerau_levenshtein(unknown, key), key))
        .min()
        .filter(|(distance, _)| *distance <= MAX_TYPING_ERRORS);
    match nearest {
        Some((_, key)) => format!("{}\ndid you mean `{key}`?", message.trim_end()),
        None => message.trim_end().into(),
    }
}

/// Further apart than this two keys are different words.
const MAX_TYPING_ERRORS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<(Request, Settings), ScenarioError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scenario.toml");
        fs::write(folder.path().join("trace.csv"), "second,rate\n0,5\n1,x\n").unwrap();
        fs::write(&path, text).unwrap();
        Scenario::load(&path)
    }

    fn problem(text: &str) -> String {
        format!("{:#}", anyhow::Error::from(load(text).unwrap_err()))
    }

    #[test]
    fn phases_and_settings_are_read() {
        let (request, settings) = load(
            "[settings]\nsize = 100\nseed = 4\ndrain_timeout = \"5s\"\n\
             [[phases]]\nprofile = \"constant\"\nrate = 100\nduration = \"2s\"\n\
             [[phases]]\nprofile = \"linear\"\nfrom = \"100/s\"\nto = \"300/s\"\nduration = \"4s\"\n",
        )
        .unwrap();
        assert_eq!((settings.size, settings.seed), (Some(100), Some(4)));
        let RequestedLoad::Open { profile, .. } = request.load else {
            panic!("not an open loop");
        };
        assert_eq!(profile.total().unwrap().whole(), 1000);
        assert_eq!(request.command, "scenario");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_nearest() {
        let text = problem("[[phases]]\nprofile = \"constant\"\nrate = 1\nduratoin = \"2s\"\n");
        assert!(text.contains("unknown field `duratoin`"), "{text}");
        assert!(text.contains("did you mean `duration`?"), "{text}");
        let text = problem("[settings]\nsiez = 100\n");
        assert!(text.contains("did you mean `size`?"), "{text}");
        assert!(text.contains("line 2"), "{text}");
        let text = problem("[builtin]\nblock_intervall = \"1s\"\n");
        assert!(text.contains("did you mean `block_interval`?"), "{text}");
    }

    #[test]
    fn illegal_scenarios_say_what_to_do() {
        assert!(problem("name = \"x\"").contains("add a [[phases]] table"));
        assert!(problem("[[phases]]\nprofile = \"constant\"\nrate = 1\n").contains("has no end"));
        let text =
            problem("[[phases]]\nprofile=\"ramp\"\nstart=100\nstep=\"-60/s\"\nevery=\"1s\"\n");
        assert!(text.contains("phase 1"), "{text}");
        let text = problem("[[phases]]\nprofile = \"trace\"\npath = \"trace.csv\"\n");
        assert!(text.contains("line 3"), "{text}");
        let text = problem("[[phases]]\nprofile = \"trace\"\npath = \"none.csv\"\n");
        assert!(text.contains("none.csv"), "{text}");
        let text = problem(
            "[flood]\nconcurrency = 1\ncount = 1\n[[phases]]\nprofile=\"pause\"\nduration=\"1s\"\n",
        );
        assert!(text.contains("keep one of them"), "{text}");
    }
}
