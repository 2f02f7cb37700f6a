//! The settings of one chain: one struct of options, which are flags of loads and a table of a scenario file.

use std::marker::PhantomData;

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use sender::WorkloadError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings that were given, by their keys, whether by flags or in a file.
pub type Table = Map<String, Value>;

/// A chain's settings, whatever their type.
pub trait SettingsTable: Sync {
    /// The table's name under `[settings]`.
    fn name(&self) -> &'static str;

    /// Adds the flags to a command of a load.
    fn flags(&self, command: Command) -> Command;

    /// The values of the flags.
    ///
    /// # Errors
    /// When a flag has no value that it can have.
    fn given(&self, matches: &ArgMatches) -> Result<Table, clap::Error>;

    /// Refuses unknown keys and illegal values.
    ///
    /// # Errors
    /// What is wrong.
    fn check(&self, table: &Table) -> Result<(), String>;

    /// Keys that apply to the chain's nodes, whatever workload they take.
    fn of_target(&self) -> &'static [&'static str];

    /// Keys that may be set in the environment for other commands: they are no fault where they do not apply.
    fn ambient(&self) -> &'static [&'static str];
}

/// The settings of type `S`: all fields are optional, and left out where they are not given.
#[derive(Debug)]
pub struct Settings<S> {
    name: &'static str,
    of_target: &'static [&'static str],
    ambient: &'static [&'static str],
    of: PhantomData<fn() -> S>,
}

impl<S> Settings<S> {
    /// Settings whose table has this name.
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            of_target: &[],
            ambient: &[],
            of: PhantomData,
        }
    }

    /// With these keys of the chain's nodes.
    #[must_use]
    pub const fn of_target(self, keys: &'static [&'static str]) -> Self {
        Self {
            of_target: keys,
            ..self
        }
    }

    /// With these keys that the environment may hold for other commands.
    #[must_use]
    pub const fn ambient(self, keys: &'static [&'static str]) -> Self {
        Self {
            ambient: keys,
            ..self
        }
    }
}

impl<S: DeserializeOwned> Settings<S> {
    /// The settings as they are.
    ///
    /// # Errors
    /// When a key is unknown or a value illegal.
    pub fn read(&self, table: &Table) -> Result<S, WorkloadError> {
        read(table)
            .map_err(|error| WorkloadError::Unusable(format!("[settings.{}]: {error}", self.name)))
    }
}

impl<S: Args + FromArgMatches + Serialize + DeserializeOwned> SettingsTable for Settings<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn flags(&self, command: Command) -> Command {
        S::augment_args(command)
    }

    fn given(&self, matches: &ArgMatches) -> Result<Table, clap::Error> {
        let given = S::from_arg_matches(matches)?;
        let value = serde_json::to_value(given)
            .map_err(|error| clap::Error::raw(clap::error::ErrorKind::Format, error))?;
        let fields = match value {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        Ok(fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect())
    }

    fn check(&self, table: &Table) -> Result<(), String> {
        read::<S>(table)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn of_target(&self) -> &'static [&'static str] {
        self.of_target
    }

    fn ambient(&self) -> &'static [&'static str] {
        self.ambient
    }
}

fn read<S: DeserializeOwned>(table: &Table) -> Result<S, serde_json::Error> {
    serde_json::from_value(Value::Object(table.clone()))
}

/// How the built-in node admits transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// One after the other.
    Serial,
    /// On several threads.
    Parallel,
}

#[cfg(feature = "fixture")]
impl From<Admission> for devnode::AdmissionMode {
    fn from(admission: Admission) -> Self {
        match admission {
            Admission::Serial => Self::Serial,
            Admission::Parallel => Self::Parallel,
        }
    }
}
