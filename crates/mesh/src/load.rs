//! What the generator of a mesh offers: phases as in a scenario file, which are sent to the node.

use std::path::Path;

use anyhow::{Context as _, bail};
use harness::{Phase, Scale};
use pacing::{Nanos, Profile, Rate};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::cli::{RampArgs, SquareArgs};

/// What is offered, and when.
#[derive(Debug, Clone)]
pub(crate) struct MeshLoad {
    /// The word for it.
    pub(crate) name: String,
    /// As they are sent to a node.
    pub(crate) phases: Vec<Value>,
    /// The same, made.
    pub(crate) profile: Profile,
    /// How long it lasts.
    pub(crate) duration: Nanos,
}

impl MeshLoad {
    /// Phases that have an end; traces are relative to `file`.
    ///
    /// # Errors
    /// Where a phase is none, or has no end.
    pub(crate) fn new(name: &str, phases: Vec<Value>, file: &Path) -> anyhow::Result<Self> {
        let profile = profile(&phases, file)?;
        let Some(duration) = profile.duration() else {
            bail!("the load has no end; give the last phase a duration, or a ramp a last rate");
        };
        Ok(Self {
            name: name.into(),
            phases,
            profile,
            duration,
        })
    }

    /// One rate for a time.
    pub(crate) fn constant(rate: Rate, duration: Nanos) -> anyhow::Result<Self> {
        let phase = json!({
            "profile": "constant",
            "rate": rate.to_string(),
            "duration": duration.to_string(),
        });
        Self::new("constant", vec![phase], Path::new(""))
    }

    /// Steps up.
    pub(crate) fn ramp(args: &RampArgs) -> anyhow::Result<Self> {
        let phase = json!({
            "profile": "ramp",
            "start": args.start.to_string(),
            "step": args.step.to_string(),
            "every": args.every.to_string(),
            "to": args.to.to_string(),
        });
        Self::new("ramp", vec![phase], Path::new(""))
    }

    /// High and low.
    pub(crate) fn square(args: &SquareArgs) -> anyhow::Result<Self> {
        let phase = json!({
            "profile": "square",
            "rate": args.rate.to_string(),
            "low": args.low.to_string(),
            "on": args.on.to_string(),
            "off": args.off.to_string(),
            "cycles": args.cycles,
        });
        Self::new("square", vec![phase], Path::new(""))
    }
}

/// The profile of phases.
///
/// # Errors
/// Where a phase is none.
pub(crate) fn profile(phases: &[Value], file: &Path) -> anyhow::Result<Profile> {
    let profiles = phases.iter().enumerate().map(|(place, phase)| {
        let place = || format!("phase {}", place + 1);
        let phase = Phase::deserialize(phase).with_context(place)?;
        phase.profile(file, Scale::ONE).with_context(place)
    });
    let mut profiles = profiles.collect::<anyhow::Result<Vec<_>>>()?;
    match profiles.len() {
        0 => bail!("there is nothing to offer; add a [[phases]] table"),
        1 => Ok(profiles.remove(0)),
        _ => Ok(Profile::phases(profiles)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_the_same_load_that_the_command_line_asked_for() {
        let args = RampArgs {
            start: "1/s".parse().unwrap(),
            step: "500/s".parse().unwrap(),
            every: "30s".parse().unwrap(),
            to: "7000/s".parse().unwrap(),
            settings: crate::settings::MeshSettings::default(),
        };
        let load = MeshLoad::ramp(&args).unwrap();
        let text = serde_json::to_string(&load.phases).unwrap();
        let told: Vec<Value> = serde_json::from_str(&text).unwrap();
        let profile = profile(&told, Path::new("")).unwrap();
        assert_eq!(profile.step_count(), load.profile.step_count());
        assert_eq!(profile.total(), load.profile.total());
        assert_eq!(profile.peak(), "7000/s".parse().unwrap());
    }

    #[test]
    fn a_load_without_an_end_is_refused() {
        let phase = json!({"profile": "constant", "rate": "5/s"});
        let error = MeshLoad::new("run", vec![phase], Path::new("")).unwrap_err();
        assert!(error.to_string().contains("has no end"), "{error}");
    }
}
