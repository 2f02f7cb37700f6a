//! The transactions of a shard as a stream, made ahead of their due times, and which of them go to the same node because
//! they spend one another.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

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

/// The families of a load. A node takes a transaction only where it knows what that spends, and it hears from other
/// nodes of a parent later than it could be sent the child.
#[derive(Clone)]
pub struct Families {
    count: u64,
    of: Arc<dyn Fn(u64) -> u64 + Send + Sync>,
}

impl Families {
    /// So many families, and which of them, from 0 on, a transaction is in by its index.
    pub fn new(count: u64, of: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self {
            count,
            of: Arc::new(of),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The family of a transaction.
    pub fn of(&self, index: u64) -> u64 {
        (self.of)(index)
    }
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families = f.debug_struct("Families");
        families.field("count", &self.count).finish_non_exhaustive()
    }
}
