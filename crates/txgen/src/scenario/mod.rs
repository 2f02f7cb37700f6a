//! Scenario files: runs as TOML, with the names of the flags.
//!
//! A file says what to offer (phases or a flood), to what (a node that the run starts, or endpoints),
//! and how often: cases and matrices make many runs of one file.

mod grid;
mod node;
mod preset;
mod prove;
mod script;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::{Args as _, Command};
use harness::Phase;
use harness::toml_errors::{self, point_at};
use pacing::Profile;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::{Spanned, Table, Value};

pub use grid::{CampaignSection, Order, Parameter};
pub use harness::Scale;
pub use node::{NodeKind, NodeSection, SentinelSection};
pub(crate) use preset::list;
pub use prove::Change;
pub use script::{ScenarioOptions, Script, ScriptRun};

use crate::chains::{self, ChainSettings};
use crate::plan::RequestedLoad;
use crate::settings::Settings;
use grid::{Axis, Case};
use prove::Intervention;

#[cfg(test)]
mod tests;

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

/// The common options beside the tables of chains. What is wrong in them is placed by [`fault_in_settings`].
fn settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
    let mut table = Table::deserialize(deserializer)?;
    let chains = ChainSettings::take(&mut table).map_err(D::Error::custom)?;
    let common = Settings::deserialize(Value::Table(table));
    let common = common.map_err(|error| D::Error::custom(error.message()))?;
    Ok(Settings { chains, ..common })
}

type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;

/// What is wrong with the first key of `[settings]`, or of a chain's table in it, that is none, with its line.
pub(crate) fn fault_in_settings(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct File {
        settings: Keys,
    }
    let file: File = toml::from_str(text).ok()?;
    file.settings.iter().find_map(|(key, value)| {
        let span = key.span().start..value.span().end;
        match value.get_ref() {
            Value::Table(inner) if ChainSettings::is_table(key.get_ref()) => {
                let table = key.get_ref();
                let wrong = |(key, value): (&String, &Value)| {
                    let message = ChainSettings::check(table, key, value)?;
                    Some(point_at(text, line_of(text, span.clone(), key), &message))
                };
                inner.iter().find_map(wrong)
            }
            value => {
                let alone = Table::from_iter([(key.get_ref().clone(), value.clone())]);
                let error = Settings::deserialize(Value::Table(alone)).err()?;
                Some(point_at(text, span, error.message()))
            }
        }
    })
}

/// The first key of the file, or of a table in it, that is none, with its line: each table is read alone, so that
/// nothing which is missing elsewhere hides it.
pub(crate) fn fault_in_key(text: &str) -> Option<String> {
    let file: Keys = toml::from_str(text).ok()?;
    file.iter().find_map(|(key, value)| {
        let alone = Table::from_iter([(key.get_ref().clone(), value.get_ref().clone())]);
        let error = Scenario::deserialize(Value::Table(alone)).err()?;
        let (unknown, _) = error
            .message()
            .strip_prefix("unknown field `")?
            .split_once('`')?;
        let line = line_of(text, key.span(), unknown);
        Some(point_at(text, line, error.message()))
    })
}

/// The line of a key inside a table.
fn line_of(text: &str, table: Range<usize>, key: &str) -> Range<usize> {
    let mut at = table.start;
    for line in text.get(table.start..).unwrap_or_default().split('\n') {
        let name = line.split('=').next().unwrap_or_default();
        if name.trim() == key {
            let indent = line.len() - line.trim_start().len();
            return at + indent..at + line.trim_end().len();
        }
        at += line.len() + 1;
    }
    table
}

/// Adds the nearest known key to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    // Serde names none where structs are flattened into one.
    let all = Settings::augment_args(Command::new(""));
    let keys: Vec<&str> = all
        .get_arguments()
        .map(|flag| flag.get_id().as_str())
        .collect();
    toml_errors::with_suggestion(message, &keys)
}
