//! The transactions of a shard as a stream, made ahead of their due times.

use std::path::PathBuf;

/// What the chain calls a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxName {
    /// The protocol derives it from the bytes.
    Hash,
    /// This id, on chains whose ids are not the hash of the bytes.
    Known([u8; 32]),
    /// The hash of its bytes, and they hold this sequence of its account.
    Sequenced(u64),
}

/// The transactions of one shard, in the order of its due times.
pub trait TxStream: Send {
    /// Appends the bytes of the transaction with this index to `out`, and names it.
    ///
    /// Indices are asked for in ascending order.
    ///
    /// # Errors
    /// When the transaction cannot be made, for instance because the file changed under the run.
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError>;
}

/// Why a workload cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// What was asked for cannot be made, or a transaction is not what it should be: what is wrong and
    /// what to do.
    #[error("{0}")]
    Unusable(String),
    /// What a chain's own workload needs cannot be used.
    #[error(transparent)]
    Chain(Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be opened or read.
    #[error("cannot read the transaction file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
