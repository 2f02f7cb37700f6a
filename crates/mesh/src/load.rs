//! What the generator of a mesh offers: phases as in a scenario file, which are sent to the node.

use std::path::Path;

use anyhow::{Context as _, bail};
use harness::{Phase, Scale};
use pacing::{Arrivals, Nanos, Profile, Rate, Schedule};
use serde::{Deserialize, Serialize};

use crate::cli::{RampArgs, SquareArgs};

/// What is offered, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeshLoad {
    /// The word for it.
    pub(crate) name: String,
    /// As files have them; traces are relative to the working directory.
    #[serde(rename = "load")]
    pub(crate) phases: Vec<Phase>,
}

impl MeshLoad {
    fn of(name: &str, phase: Phase) -> Self {
        Self {
            name: name.into(),
            phases: vec![phase],
        }
    }

    /// One rate for a time.
    pub(crate) fn constant(rate: Rate, duration: Nanos) -> Self {
        let duration = Some(duration);
        Self::of("constant", Phase::Constant { rate, duration })
    }

    /// Steps up.
    pub(crate) fn ramp(args: &RampArgs) -> Self {
        let phase = Phase::Ramp {
            start: args.start,
            step: args.step,
            every: args.every,
            to: Some(args.to),
        };
        Self::of("ramp", phase)
    }

    /// High and low.
    pub(crate) fn square(args: &SquareArgs) -> Self {
        let phase = Phase::Square {
            rate: args.rate,
            low: Some(args.low),
            on: args.on,
            off: args.off,
            cycles: args.cycles,
        };
        Self::of("square", phase)
    }

    /// When each transaction is due.
    ///
    /// # Errors
    /// Where a phase is none, or the load has no end.
    pub(crate) fn schedule(&self) -> anyhow::Result<Schedule> {
        let profiles = (1..).zip(&self.phases).map(|(number, phase)| {
            let profile = phase.profile(Path::new(""), Scale::ONE);
            profile.with_context(|| format!("phase {number}"))
        });
        let mut profiles = profiles.collect::<anyhow::Result<Vec<_>>>()?;
        let profile = match profiles.len() {
            0 => bail!("there is nothing to offer; add a [[phases]] table"),
            1 => profiles.remove(0),
            _ => Profile::phases(profiles)?,
        };
        if profile.duration().is_none() {
            bail!("the load has no end; give the last phase a duration, or a ramp a last rate");
        }
        Ok(Schedule::new(profile, Arrivals::Even))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A load of one phase.
    pub(crate) fn load(phase: serde_json::Value) -> MeshLoad {
        MeshLoad::of("test", serde_json::from_value(phase).unwrap())
    }

    #[test]
    fn a_node_gets_the_load_that_the_command_line_asked_for() {
        let args = RampArgs {
            start: "1/s".parse().unwrap(),
            step: "500/s".parse().unwrap(),
            every: "30s".parse().unwrap(),
            to: "7000/s".parse().unwrap(),
            settings: crate::settings::MeshSettings::default(),
        };
        let text = serde_json::to_string(&MeshLoad::ramp(&args)).unwrap();
        let sent: MeshLoad = serde_json::from_str(&text).unwrap();
        let schedule = sent.schedule().unwrap();
        let profile = schedule.profile();
        let asked = Profile::steps(args.start, args.step, args.every, Some(args.to)).unwrap();
        assert_eq!(profile.step_count(), asked.step_count());
        assert_eq!(profile.total(), asked.total());
        assert_eq!(profile.peak(), args.to);
    }

    #[test]
    fn a_load_without_an_end_is_refused() {
        let phase = serde_json::json!({"profile": "constant", "rate": "5/s"});
        let error = load(phase).schedule().unwrap_err();
        assert!(error.to_string().contains("has no end"), "{error}");
    }
}
