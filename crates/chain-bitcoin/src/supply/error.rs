//! Why there are no coins for a load, and which exit code that is.

use std::io;

use chain::{ChainError, WorkloadError};
use measure::read::ReadError;
use rpc::ClientError;

use crate::workload::WalletError;

/// Why coins cannot be had, or were not conserved. What no caller tells apart is a message: what happened, and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoinError {
    /// The node does not answer as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The wallet file cannot be used.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// The wallet does not suffice.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The endpoint has no coins to give, or the wallet is another network's.
    #[error("{0}")]
    Unfit(String),
    /// The node mines nothing for the wallet.
    #[error("{0}")]
    NoMiner(String),
    /// Coins are too few, spent, refused, in no block, or were not conserved.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The record of the run cannot be read.
    #[error("the record of the run cannot be read")]
    Record(#[from] ReadError),
    /// The system refuses a runtime or a file of the run.
    #[error("{what}")]
    Io {
        /// What was refused.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl CoinError {
    /// What is said of coins that are not conserved: which laws are broken.
    pub(super) fn not_conserved(broken: &[String]) -> Self {
        let laws = broken.join("; ");
        Self::Failed(format!(
            "the coins are not conserved, so the node or the record is wrong: {laws}"
        ))
    }
}

impl From<CoinError> for ChainError {
    fn from(error: CoinError) -> Self {
        match error {
            CoinError::Interrupted => {
                Self::Interrupted("coins were being prepared, and nothing was offered")
            }
            CoinError::Wallet(_)
            | CoinError::Workload(_)
            | CoinError::Unfit(_)
            | CoinError::NoMiner(_) => Self::Unusable(error.into()),
            error => Self::Failed(error.into()),
        }
    }
}
