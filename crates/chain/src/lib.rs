//! What a chain is to a load. A chain is one crate that implements the traits here, and one line in `txgen`'s table.
//!
//! - [`Protocol`] is hot: it encodes each transaction's request and reads each answer. The senders are generic over it.
//! - [`Chain`] is cold and object-safe: the kind of node that a chain has ([`Target`], asked through [`NodeClient`]) and
//!   the workloads that it brings ([`Workload`]).
//!
//! What chains share is a library: connections, JSON-RPC and followers are in `rpc`, senders in `sender`.
//!
//! Read first: [`Chain`], [`Target`], [`Workload`].

mod chains;
mod file;
mod queries;
mod settings;
mod target;
mod workload;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub use harness::{Share, text};
pub use sender::{
    Closing, Expectation, Families, Framing, Limits, Loader, OnGap, Protocol, ReplyTo, Sequences,
    TxName, TxStream, WorkloadError,
};

pub use self::chains::{ChainDepth, Chaining, Chains, Role};
pub use self::file::{FileFormat, FileWorkload};
pub use self::queries::QueryWorkload;
pub use self::settings::{Admission, Settings, SettingsTable, Table};
pub use self::target::{Facts, FollowWith, Followed, LoadOptions, NodeClient, NodeOptions, Target};
pub use self::workload::{
    Asking, ChainError, LIMIT_OF_BODIES, Learning, MAX_SIZE, Probe, Settled, Supplied, Supply,
    Wanted, Workload, at_most, check_limit, check_size, refuse,
};

/// What the built-in node is for a chain.
#[cfg(feature = "fixture")]
#[derive(Clone, Copy)]
pub struct Fixture {
    /// The kind of node.
    pub kind: &'static dyn devnode::Kind,
    /// The flags of a node that runs on its own, each a key of the kind's section.
    pub flags: Option<&'static dyn SettingsTable>,
}

/// A chain, as a program lists it.
pub trait Chain: fmt::Debug + Sync {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The kind of node that it brings; `None` for a chain whose nodes are those of another one.
    fn target(&self) -> Option<&'static dyn Target> {
        None
    }

    /// Whether its workloads go to the nodes that it brings, and to no others.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The names of its workloads on the command line.
    fn workloads(&self) -> &'static [&'static str];

    /// Makes one of its workloads.
    ///
    /// # Errors
    /// When what is wanted cannot be made: the setting, and what is possible.
    fn workload(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError>;

    /// The settings that only its loads and nodes have.
    fn settings(&self) -> Option<&'static dyn SettingsTable> {
        None
    }

    /// How its nodes are spoken to, by its settings.
    ///
    /// # Errors
    /// When the settings are illegal.
    fn node_options(&self, _settings: &Table) -> Result<NodeOptions, WorkloadError> {
        Ok(NodeOptions::default())
    }

    /// The kind of built-in node that it brings, with the flags of one that runs on its own.
    #[cfg(feature = "fixture")]
    fn fixture(&self) -> Option<Fixture> {
        None
    }

    /// The built-in node as it serves the chain; what was configured stays.
    ///
    /// # Errors
    /// When the settings are illegal.
    #[cfg(feature = "fixture")]
    fn built_in(
        &self,
        node: devnode::Blueprint,
        _settings: &Table,
    ) -> Result<devnode::Blueprint, WorkloadError> {
        Ok(node)
    }

    /// The address that blocks of a node pay to which is started for a load; `None` where blocks pay nothing.
    ///
    /// # Errors
    /// When the settings are illegal.
    fn mining_address(&self, _settings: &Table) -> Result<Option<String>, WorkloadError> {
        Ok(None)
    }

    /// Puts the accounts of a load into the genesis file of a chain that is to be started for it.
    ///
    /// # Errors
    /// When the file cannot be used, or the settings are illegal.
    fn write_genesis(&self, _load: &Wanted<'_>, _genesis: &Path) -> anyhow::Result<()> {
        Ok(())
    }

    /// A command of its own, which prepares loads.
    fn command(&self) -> Option<clap::Command> {
        None
    }

    /// Runs its command; returns the text to print.
    ///
    /// # Errors
    /// When it cannot be done.
    fn execute(
        &self,
        _matches: &clap::ArgMatches,
        _is_cancelled: &dyn Fn() -> bool,
    ) -> Result<String, ChainError> {
        Ok(String::new())
    }
}
