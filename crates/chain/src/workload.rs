//! What is sent: transactions as a pure function of the seed and the index; and what a node's probe answered before.

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use measure::{Evidence, NodeLimits};
use rpc::{ClientOptions, Endpoint, Trust};
use sender::{Families, Loader, Sequences, TxStream, WorkloadError};

use crate::chains::ChainDepth;
use crate::settings::Table;

/// A checked workload: opens one sequential stream of transactions per shard. Its text describes what is sent.
pub trait Workload: Any + fmt::Debug + fmt::Display + Send + Sync {
    /// The number of transactions it can supply; `None` without end.
    fn count(&self) -> Option<u64> {
        None
    }

    /// The size of its largest transaction in bytes.
    fn largest(&self) -> usize;

    /// Opens a stream of its transactions from the first on.
    ///
    /// # Errors
    /// When the transactions can no longer be made.
    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError>;

    /// The threads that send it where it is no transactions but queries, which no block shows; each is the path of a GET.
    fn queries(&self) -> Option<Arc<dyn Loader>> {
        None
    }

    /// Whether making a transaction takes long enough to be shared between threads, and can be.
    fn is_signed(&self) -> bool {
        false
    }

    /// Whether its transactions may spend one another in chains of a given depth.
    fn has_chains(&self) -> bool {
        false
    }

    /// Which transactions have to go to the same node, because they spend what one of them makes or spends.
    fn families(&self) -> Option<Families> {
        None
    }

    /// How many accounts sign in turn, where each account belongs to one sender thread.
    fn accounts(&self) -> Option<NonZeroU32> {
        None
    }

    /// The sequences of the accounts that sign, where the chain executes an account's transactions in
    /// their order only.
    fn sequences(&self) -> Option<&Arc<Sequences>> {
        None
    }

    /// What has to be committed before it can be offered, and how many transactions that is.
    fn preparation(&self) -> Option<(Arc<dyn Workload>, u64)> {
        None
    }

    /// A transaction of its kind that is not of the load, made by a workload of its own. It goes alone before the load where
    /// a node like this one stops at a transaction that its application cannot read. Each generator of a load has another.
    fn first_alone(&self, _node: &Probe, _generator: u32) -> Option<Arc<dyn Workload>> {
        None
    }

    /// Learns from a node what the workload needs to know of the chain, just before the load; `None` for one that
    /// needs nothing.
    ///
    /// # Errors
    /// When the chain does not answer, or its answer makes the load impossible.
    fn learn<'a>(
        &'a self,
        _: Learning<'a>,
    ) -> Asking<'a, anyhow::Result<Option<Arc<dyn Workload>>>> {
        Box::pin(async { Ok(None) })
    }

    /// Prepares the built-in node for it.
    ///
    /// # Errors
    /// When it cannot be had there.
    #[cfg(feature = "fixture")]
    fn built_in(&self, _node: &mut devnode::Blueprint) -> Result<(), WorkloadError> {
        Ok(())
    }

    /// Supplies it with what it needs just before the load, if it needs something.
    ///
    /// # Errors
    /// When that cannot be had.
    fn supply(&self, _: Supply<'_>) -> Result<Option<Box<dyn Supplied>>, ChainError> {
        Ok(None)
    }

    /// What the manifest has of it beside its text.
    fn document(&self) -> Option<serde_json::Value> {
        None
    }

    /// Refusals that the workload distinguishes from the node's own, with their text.
    fn refused(&self) -> Option<(String, u64)> {
        None
    }

    /// The first account of the load that another program used while the run went on.
    fn foreign_use(&self) -> Option<String> {
        None
    }
}

/// What a workload learns from.
#[derive(Debug)]
pub struct Learning<'a> {
    /// The node that is asked.
    pub endpoint: &'a Endpoint,
    /// How it is asked.
    pub options: ClientOptions,
    /// The answers of its probe.
    pub probe: &'a Probe,
    /// Transactions of the load; `None` without end.
    pub planned: Option<u64>,
}

/// What a load wants of its workload.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The workload's name.
    pub name: &'a str,
    /// The chain's own settings.
    pub settings: &'a Table,
    /// The seed of the run.
    pub seed: u64,
    /// The seed that the user chose.
    pub chosen_seed: Option<u64>,
    /// The seed of accounts, where the runs of one command have seeds of their own.
    pub accounts_seed: Option<u64>,
    /// Transactions of the load; `None` without end.
    pub planned: Option<u64>,
    /// The size of each transaction, in the chain's way to count it.
    pub size: Option<usize>,
    /// Transactions that spend one another in turn.
    pub chain_depth: Option<ChainDepth>,
    /// Share of transactions that spend what another one spends.
    pub conflicts: f64,
    /// How many generators share the load.
    pub generators: NonZeroU32,
    /// Whether the load goes to the built-in node.
    pub built_in: bool,
}

/// The value of a setting that cannot be used, and what can.
pub fn refuse(setting: &str, problem: impl fmt::Display) -> WorkloadError {
    WorkloadError::Unusable(format!("{setting} {problem}"))
}

/// Refuses a value above its limit.
///
/// # Errors
/// [`WorkloadError::Unusable`] with both.
pub fn at_most(setting: &str, value: impl Into<u64>, limit: u64) -> Result<(), WorkloadError> {
    let value = value.into();
    if value > limit {
        return Err(refuse(
            setting,
            format!("is {value}; at most {limit} is possible"),
        ));
    }
    Ok(())
}

/// Refuses a workload with transactions over the node's limit.
///
/// # Errors
/// [`WorkloadError::Unusable`] with the limit and where it comes from.
pub fn check_limit(
    workload: &dyn Workload,
    limit: usize,
    source_of_limit: &'static str,
) -> Result<(), WorkloadError> {
    check_size(workload.largest(), limit, source_of_limit)
}

/// Refuses a transaction above the node's limit; `source_of_limit` names where that comes from.
///
/// # Errors
/// [`WorkloadError::Unusable`] with both.
pub fn check_size(
    size: usize,
    limit: usize,
    source_of_limit: &'static str,
) -> Result<(), WorkloadError> {
    if size > limit {
        return Err(WorkloadError::Unusable(format!(
            "a transaction of {size} bytes is above the node's limit of {limit} bytes ({source_of_limit}); use \
             a smaller --size, or leave it out of the file"
        )));
    }
    Ok(())
}

/// The largest transaction whose broadcast request fits CometBFT's default body limit of
/// 1,000,000 bytes (`rpc.max_body_bytes`): base64 makes 4 bytes of 3, the envelope takes the rest.
pub const MAX_SIZE: usize = (1_000_000 - ENVELOPE_BYTES) / 4 * 3;
/// Where [`MAX_SIZE`] comes from, for messages.
pub const LIMIT_OF_BODIES: &str =
    "its RPC takes bodies of 1,000,000 bytes, and base64 adds a third";
/// What a broadcast request needs beside the transaction's base64 text, rounded up.
const ENVELOPE_BYTES: usize = 128;

/// What a load is supplied from.
pub struct Supply<'a> {
    /// The first node's own interface.
    pub endpoint: Option<&'a Endpoint>,
    /// The interfaces of the other nodes of its network that are observed.
    pub others: &'a [Endpoint],
    /// Whose certificates are accepted.
    pub trust: &'a Trust,
    /// The chain that the nodes are on, if they name it.
    pub chain_id: Option<&'a str>,
    /// The run folder.
    pub folder: &'a Path,
    /// Whether the user wants to stop.
    pub is_cancelled: &'a dyn Fn() -> bool,
    /// Takes lines for the user.
    pub say: &'a mut dyn FnMut(&str),
}

/// What a load was supplied with; it lasts as long as the load.
pub trait Supplied {
    /// Accounts for it from the run's record in its folder.
    ///
    /// # Errors
    /// When the record cannot be read, or the account does not hold.
    fn settle(self: Box<Self>, folder: &Path) -> Result<Settled, ChainError>;
}

/// The message about it after a run.
#[derive(Debug, Default)]
pub struct Settled {
    /// Lines for the user.
    pub lines: String,
    /// What speaks for a limit of the node.
    pub evidence: Option<Evidence>,
}

/// Why something of a chain's own could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// What was asked for cannot be used.
    #[error(transparent)]
    Unusable(anyhow::Error),
    /// It failed.
    #[error(transparent)]
    Failed(anyhow::Error),
    /// The user stopped it.
    #[error("interrupted: {0}")]
    Interrupted(&'static str),
}

/// An answer to come.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What is known of a node that can be loaded.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// `None` where the interface does not show it.
    pub chain_id: Option<String>,
    /// The node's version, in its own words.
    pub version: String,
    /// The path, with its query, that requests are posted to; the endpoint's when `None`.
    pub path: Option<String>,
    /// Where the node shows what is committed, when that is not where it is asked.
    pub events: Option<Endpoint>,
    /// The node's limits, as far as it reports them.
    pub limits: NodeLimits,
    /// The name of its network, where a follower has to know it.
    pub network: Option<String>,
}
