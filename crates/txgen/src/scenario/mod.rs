//! Scenario files: runs as TOML, with the names of the flags.
//!
//! A file says what to offer (phases or a flood), to what (a node that the run starts, or endpoints),
//! and how often: cases and matrices make many runs of one file.

mod grid;
mod node;
mod place;
mod preset;
mod prove;
mod script;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context as _, bail};
use pacing::Profile;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use crate::chains::{self, ChainSettings};
use crate::plan::RequestedLoad;
use crate::settings::Settings;
use grid::{Axis, Case};
use harness::Phase;
pub use harness::Scale;
pub(crate) use place::with_suggestion;
pub(crate) use preset::list;
use prove::Intervention;

pub use grid::{CampaignSection, Order, Parameter};
pub use node::{NodeKind, NodeSection, SentinelSection};
pub use prove::Change;
pub use script::{ScenarioOptions, Script, ScriptRun};

/// A scenario file as written, or one of its runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
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
    /// The common options, and tables of those that only some chains have.
    #[serde(default, deserialize_with = "settings")]
    settings: Settings,
    /// The built-in node; the same as `node.builtin`.
    #[serde(default, deserialize_with = "chains::built_in")]
    builtin: Option<devnode::Blueprint>,
    /// The node that the run starts.
    #[serde(default)]
    node: NodeSection,
    /// A sentinel in front of the node.
    sentinel: Option<SentinelSection>,
    /// How often, in which order.
    campaign: Option<CampaignSection>,
    /// Parameters that are swept.
    #[serde(default)]
    matrix: Vec<Axis>,
    /// Runs that differ in several parameters at once.
    #[serde(default)]
    cases: Vec<Case>,
    /// Numbers of the file that are changed alone, to show what the rate owes to them.
    #[serde(default)]
    prove: Vec<Intervention>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flood {
    concurrency: NonZeroU32,
    count: u64,
}

impl Scenario {
    fn requested_load(&self, path: &Path, scale: Scale) -> anyhow::Result<RequestedLoad> {
        match &self.flood {
            Some(_) if !self.phases.is_empty() => {
                bail!("has both phases and flood; keep one of them")
            }
            Some(flood) => Ok(RequestedLoad::Flood {
                concurrency: flood.concurrency,
                count: scale.count(flood.count),
            }),
            None if self.phases.is_empty() => {
                bail!("has nothing to run; add a [[phases]] table or a [flood] table")
            }
            None => {
                let profile = self.profile(path, scale)?;
                let ramps = self.phases.last().is_some_and(Phase::is_ramp);
                if profile.duration().is_none() && !(self.stop_when_saturated && ramps) {
                    bail!(
                        "its last phase has no end; give it one, or make it a ramp and set \
                         stop_when_saturated = true"
                    );
                }
                Ok(RequestedLoad::Open {
                    schedule: profile,
                    stop_when_saturated: self.stop_when_saturated,
                    reconnect_in_pauses: self.reconnect,
                })
            }
        }
    }

    fn profile(&self, path: &Path, scale: Scale) -> anyhow::Result<Profile> {
        let mut profiles = Vec::with_capacity(self.phases.len());
        for (position, phase) in self.phases.iter().enumerate() {
            let profile = phase.profile(path, scale);
            profiles.push(profile.with_context(|| format!("phase {}", position + 1))?);
        }
        if profiles.len() == 1 {
            return Ok(profiles.remove(0));
        }
        Ok(Profile::phases(profiles)?)
    }
}

/// The common options beside the tables of chains. What is wrong in them is placed by [`place::of_settings`].
fn settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
    let mut table = Table::deserialize(deserializer)?;
    let chains = ChainSettings::take(&mut table).map_err(D::Error::custom)?;
    let common = Settings::deserialize(Value::Table(table));
    let common = common.map_err(|error| D::Error::custom(error.message()))?;
    Ok(Settings { chains, ..common })
}
