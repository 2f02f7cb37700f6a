//! What a load needs beside transactions: had before it, accounted for after it.

use std::path::Path;

use measure::Evidence;
use rpc::{Endpoint, Trust};

/// What a load is supplied from.
pub struct Supply<'a> {
    /// The first node's own interface.
    pub endpoint: Option<&'a Endpoint>,
    /// Whose certificates are accepted.
    pub trust: &'a Trust,
    /// The chain that the nodes are on, if they say so.
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

/// What is said of it after a run.
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
