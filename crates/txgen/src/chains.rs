//! The chains that a load can go to. A new one is a crate that implements [`chain::Chain`], and one line here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use chain::{Chain, ChainError, Facts, Fixture, SettingsTable, Table, Target};
use clap::builder::PossibleValue;
use clap::{ArgMatches, Args, Command, FromArgMatches, Id, Subcommand, ValueEnum};
use devnode::{Blueprint, KVSTORE, Kind};
use parking_lot::Mutex;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The chains of this program; the first one's nodes are loaded when no other is asked for.
static CHAINS: &[&dyn Chain] = &[
    &chain_cometbft::COMETBFT,
    &chain_bigchaindb::BIGCHAINDB,
    &chain_cosmos::COSMOS,
    &chain_bitcoin::BITCOIN,
];

static ADDED: Mutex<Vec<&'static dyn Chain>> = Mutex::new(Vec::new());

/// Adds a chain of another crate. To be called before anything else of this crate.
pub fn add(chain: &'static dyn Chain) {
    ADDED.lock().push(chain);
}

/// All chains.
fn chains() -> impl Iterator<Item = &'static dyn Chain> {
    let added = ADDED.lock().clone();
    CHAINS.iter().copied().chain(added)
}

/// A kind of node, by its name on the command line.
#[derive(Clone, Copy)]
pub struct TargetKind(&'static dyn Target);

static TARGETS: LazyLock<Vec<TargetKind>> = LazyLock::new(|| {
    let targets = chains().filter_map(|chain| chain.target());
    targets.map(TargetKind).collect()
});

impl TargetKind {
    /// What the kind is called and what it takes.
    pub fn facts(self) -> &'static Facts {
        self.0.facts()
    }

    /// The target itself.
    pub fn target(self) -> &'static dyn Target {
        self.0
    }
}

impl TargetKind {
    /// The chain that brings the kind.
    pub(crate) fn chain(self) -> &'static dyn Chain {
        let brings = |chain: &&dyn Chain| chain.target().map(TargetKind) == Some(self);
        chains().find(brings).unwrap_or(CHAINS[0])
    }
}

impl Default for TargetKind {
    fn default() -> Self {
        TARGETS[0]
    }
}

impl fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

impl PartialEq for TargetKind {
    fn eq(&self, other: &Self) -> bool {
        self.facts().name == other.facts().name
    }
}

impl Eq for TargetKind {}

impl ValueEnum for TargetKind {
    fn value_variants<'a>() -> &'a [Self] {
        &TARGETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.facts().name))
    }
}

impl FromStr for TargetKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = TARGETS.iter().find(|kind| kind.facts().name == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = TARGETS.iter().map(|kind| kind.facts().name).collect();
            format!("unknown target {text:?}; use {}", names.join(", "))
        })
    }
}

/// Which workload a run sends, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadKind {
    /// One transaction per line of a file.
    File(PathBuf),
    /// Queries, one path per line of a file.
    Queries(PathBuf),
    /// A chain's own, by its name.
    Named(&'static str),
}

impl WorkloadKind {
    /// Whether this is the workload with that name.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Named(own) if *own == name)
    }

    /// The chain that it belongs to; `None` for files.
    pub(crate) fn chain(&self) -> Option<&'static dyn Chain> {
        let Self::Named(name) = self else {
            return None;
        };
        chains().find(|chain| chain.workloads().contains(name))
    }

    /// The kind of node that alone takes it, if there is one.
    pub(crate) fn target(&self) -> Option<TargetKind> {
        let chain = self.chain().filter(|chain| chain.is_exclusive())?;
        chain.target().map(TargetKind)
    }
}

impl FromStr for WorkloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = || chains().flat_map(|chain| chain.workloads()).copied();
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            Some(("queries", path)) if !path.is_empty() => Ok(Self::Queries(PathBuf::from(path))),
            _ => names()
                .find(|name| *name == text)
                .map(Self::Named)
                .ok_or_else(|| {
                    let names: Vec<&str> = names().collect();
                    format!(
                        "unknown workload {text:?}; use {}, queries:PATH or file:PATH",
                        names.join(", ")
                    )
                }),
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Queries(path) => write!(f, "queries:{}", path.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// The settings of all chains, each under the name of its table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct ChainSettings(BTreeMap<String, Table>);

fn tables() -> impl Iterator<Item = (&'static dyn Chain, &'static dyn SettingsTable)> {
    chains().filter_map(|chain| Some((chain, chain.settings()?)))
}

impl ChainSettings {
    /// The settings of one chain.
    pub(crate) fn of(&self, chain: &dyn Chain) -> &Table {
        static NONE: LazyLock<Table> = LazyLock::new(Table::new);
        let table = chain.settings().and_then(|table| self.0.get(table.name()));
        table.unwrap_or(&NONE)
    }

    /// Whether a key of `[settings]` is a chain's table.
    pub(crate) fn is_table(name: &str) -> bool {
        tables().any(|(_, table)| table.name() == name)
    }

    /// What is wrong with a key of a chain's table, if something is.
    pub(crate) fn check(name: &str, key: &str, value: &toml::Value) -> Option<String> {
        let (_, table) = tables().find(|(_, table)| table.name() == name)?;
        let value = serde_json::to_value(value).ok()?;
        table
            .check(&Table::from_iter([(key.to_owned(), value)]))
            .err()
    }

    /// Takes the tables of chains out of the settings of a file.
    pub(crate) fn take(settings: &mut toml::Table) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for (_, table) in tables() {
            let Some(value) = settings.remove(table.name()) else {
                continue;
            };
            let given: Table = value.try_into().map_err(|error| format!("{error}"))?;
            table.check(&given)?;
            all.insert(table.name().to_owned(), given);
        }
        Ok(Self(all))
    }

    /// The first setting that means nothing to a load of this workload on this kind of node, as a flag, and the
    /// chain that it belongs to.
    pub(crate) fn misplaced(
        &self,
        workload: Option<&'static dyn Chain>,
        target: TargetKind,
    ) -> Option<(String, &'static dyn Chain, bool)> {
        let is = |chain: &dyn Chain, other: &dyn Chain| chain.name() == other.name();
        tables().find_map(|(chain, table)| {
            if workload.is_some_and(|own| is(own, chain)) {
                return None;
            }
            let of_target = is(target.chain(), chain);
            let mut given = self.of(chain).keys().map(String::as_str);
            let key = given.find(|key| {
                let of_node = table.of_target().contains(key);
                !(table.ambient().contains(key) || of_node && of_target)
            })?;
            let flag = format!("--{}", key.replace('_', "-"));
            Some((flag, chain, table.of_target().contains(&key)))
        })
    }
}

/// The values of the flags of some tables, by the names of the tables.
fn given(
    tables: impl Iterator<Item = &'static dyn SettingsTable>,
    matches: &ArgMatches,
) -> Result<BTreeMap<String, Table>, clap::Error> {
    let mut all = BTreeMap::new();
    for table in tables {
        let given = table.given(matches)?;
        if !given.is_empty() {
            all.insert(table.name().to_owned(), given);
        }
    }
    Ok(all)
}

/// Adds the flags of some tables to a command; its short help leaves them out.
fn add_flags(
    tables: impl Iterator<Item = &'static dyn SettingsTable>,
    command: Command,
) -> Command {
    let others: Vec<Id> = command
        .get_arguments()
        .map(|arg| arg.get_id().clone())
        .collect();
    let command = tables.fold(command, |command, table| table.flags(command));
    command.mut_args(|arg| {
        if others.contains(arg.get_id()) {
            arg
        } else {
            arg.hide_short_help(true)
        }
    })
}

/// Makes the flags of some tables the arguments of a struct.
macro_rules! arguments {
    ($of:ident: $tables:expr) => {
        impl Args for $of {
            fn augment_args(command: Command) -> Command {
                add_flags($tables, command)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $of {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                given($tables, matches).map(Self)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                for (name, table) in Self::from_arg_matches(matches)?.0 {
                    self.0.entry(name).or_default().extend(table);
                }
                Ok(())
            }
        }
    };
}

arguments!(ChainSettings: tables().map(|(_, table)| table));

/// The kinds of built-in nodes; the first is chosen when no other is asked for.
pub(crate) fn kinds() -> Vec<&'static dyn Kind> {
    let own = fixtures().map(|fixture| fixture.kind);
    [KVSTORE].into_iter().chain(own).collect()
}

fn fixtures() -> impl Iterator<Item = Fixture> {
    chains().filter_map(|chain| chain.fixture())
}

/// Reads a built-in node from its configuration.
pub(crate) fn built_in<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Blueprint>, D::Error> {
    let node = Blueprint::read(Table::deserialize(from)?, &kinds());
    node.map(Some).map_err(D::Error::custom)
}

/// The flags that only single kinds of built-in nodes have, each under the name of its section.
#[derive(Debug, Default)]
pub struct KindFlags(pub(crate) BTreeMap<String, Table>);

arguments!(KindFlags: fixtures().filter_map(|fixture| fixture.flags));

impl KindFlags {
    /// The names of the flags of a section.
    pub(crate) fn names(section: &str) -> String {
        let mut tables = fixtures().filter_map(|fixture| fixture.flags);
        let found = tables.find(|table| table.name() == section);
        let flags = found.map(|table| table.flags(Command::new("")));
        let flags = flags.iter().flat_map(Command::get_arguments);
        let names = flags.filter_map(|flag| Some(format!("--{}", flag.get_long()?)));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// A chain's own command, as it was typed.
#[derive(Debug)]
pub struct ChainCommand {
    chain: &'static dyn Chain,
    matches: ArgMatches,
}

fn commands() -> impl Iterator<Item = (&'static dyn Chain, Command)> {
    chains().filter_map(|chain| Some((chain, chain.command()?)))
}

impl ChainCommand {
    /// Runs the command until it is cancelled; returns the text to print.
    pub(crate) fn execute(&self, is_cancelled: &dyn Fn() -> bool) -> Result<String, ChainError> {
        self.chain.execute(&self.matches, is_cancelled)
    }
}

impl Subcommand for ChainCommand {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(commands().map(|(_, own)| own))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        commands().any(|(_, own)| own.get_name() == name)
    }
}

impl FromArgMatches for ChainCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let unknown = || clap::Error::new(clap::error::ErrorKind::InvalidSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(unknown)?;
        let found = commands().find(|(_, own)| own.get_name() == name);
        let (chain, _) = found.ok_or_else(unknown)?;
        Ok(Self {
            chain,
            matches: matches.clone(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
