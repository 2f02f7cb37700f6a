//! Scenario files: runs as TOML, with the names of the flags.
//!
//! A file describes what to offer (phases or a flood), to what (a node that the run starts, or endpoints),
//! and how often: cases and matrices make many runs of one file.

mod grid;
mod prove;
mod script;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::{Args as _, Command, ValueEnum};
use harness::toml_errors::{self, point_at};
use harness::{BitRate, Phase};
use pacing::{Nanos, Profile};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Spanned, Table, Value};

pub use grid::{CampaignSection, Order, Parameter};
pub use harness::Scale;
pub use prove::Change;
pub(crate) use script::list;
pub use script::{ScenarioOptions, Script, ScriptRun};

use crate::chains::{self, ChainSettings};
use crate::plan::RequestedLoad;
use crate::settings::Settings;
use chain::{Share, text};
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

base::settings! {
    /// The node that a run starts, or that it finds.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct NodeSection {
        /// What kind; `endpoints` when `settings.endpoints` are given, else `builtin`.
        pub kind: Option<NodeKind> = None,
        /// Whether every run gets a new one; otherwise the runs share one as long as its configuration
        /// is the same, and its mempool is awaited empty between them.
        pub fresh: bool = true,
        /// The built-in node's configuration.
        #[serde(deserialize_with = "chains::built_in")]
        pub builtin: Option<devnode::Blueprint> = None,
        /// Keys of CometBFT's `config.toml` (simd's too) and their values; the rest is what `init` writes.
        pub cometbft: Table = Table::new(),
        /// Keys of the `app.toml` of a simd and their values.
        pub simd: Table = Table::new(),
        /// Keys of its `genesis.json` and their values.
        pub genesis: Table = Table::new(),
        /// What CometBFT gets as `--proxy_app`.
        pub app: String = "kvstore".into(),
        /// How many btcds, each connected to the first, or CometBFT validators, each connected to all; the load goes to
        /// the first, and all are recorded.
        pub nodes: NonZeroU32 = NonZeroU32::MIN,
        /// The share of the time that the processes of a CometBFT, simd or btcd run; all of it without.
        #[serde(with = "text")]
        pub processor: Option<Share> = None,
        /// How many cores its processes have; all without.
        pub cores: Option<NonZeroU32> = None,
        /// The rate of the link in each direction: between the nodes of a network, else between the load and the node.
        #[serde(with = "text")]
        pub link: Option<BitRate> = None,
        /// How long it may take until its first block.
        #[serde(with = "text::value")]
        pub start_timeout: Nanos = Nanos::from_secs(60),
    }
}

/// Where transactions go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// The built-in node.
    Builtin,
    /// A real CometBFT in a home of its own.
    Cometbft,
    /// A real chain of the Cosmos SDK in a home of its own, with the load's accounts in its genesis.
    Simd,
    /// Real btcds in homes of their own, each connected to the first.
    Btcd,
    /// Nodes that are already there.
    Endpoints,
}

impl NodeKind {
    /// Whether a run starts it as processes of its own.
    pub(crate) const fn is_process(self) -> bool {
        matches!(self, Self::Cometbft | Self::Simd | Self::Btcd)
    }
}

base::settings! {
    /// A sentinel that a run starts in front of its node.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct SentinelSection {
        /// Whether there is one; so that a matrix can have runs with and without.
        pub enabled: bool = true,
        /// Its configuration file; where it listens and its upstream are filled in.
        pub config: Table = Table::new(),
        /// How long it may take until it answers for the node.
        #[serde(with = "text::value")]
        pub start_timeout: Nanos = Nanos::from_secs(30),
    }
}

impl NodeSection {
    /// Its kind, once chosen.
    pub fn kind(&self) -> NodeKind {
        self.kind.unwrap_or(NodeKind::Builtin)
    }

    /// Whether every run gets a node of its own; one that was there already is never new.
    pub fn is_fresh(&self) -> bool {
        self.fresh && self.kind() != NodeKind::Endpoints
    }

    /// A key that it has and that needs processes to act on.
    pub(crate) fn only_of_processes(&self) -> Option<&'static str> {
        let keys = [
            ("node.processor", self.processor.is_some()),
            ("node.cores", self.cores.is_some()),
            ("node.link", self.link.is_some()),
        ];
        keys.into_iter()
            .find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Settles the kind: the command line's, else the file's, else that of the settings.
    fn choose(&mut self, given: Option<NodeKind>, settings: &Settings) -> anyhow::Result<()> {
        let found = !settings.endpoints.is_empty();
        let kind = given.or(self.kind).unwrap_or(if found {
            NodeKind::Endpoints
        } else {
            NodeKind::Builtin
        });
        if found && kind != NodeKind::Endpoints && given.is_none() {
            bail!("has both settings.endpoints and a node of its own; keep one of them");
        }
        self.kind = Some(kind);
        Ok(())
    }

    /// Takes the table `[builtin]` as `[node.builtin]`.
    fn take_builtin(&mut self, other: Option<devnode::Blueprint>) -> anyhow::Result<()> {
        if self.builtin.is_some() && other.is_some() {
            bail!("has both [builtin] and [node.builtin]; they are the same, keep one");
        }
        self.builtin = self.builtin.take().or(other);
        Ok(())
    }
}
