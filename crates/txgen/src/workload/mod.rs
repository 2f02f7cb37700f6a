//! What is sent: transactions as a pure function of the seed and the index.

mod file;
mod kvstore;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use file::{FileFormat, FileWorkload};
pub use kvstore::{KvStore, MIN_SIZE};

/// The largest transaction whose broadcast request fits CometBFT's default body limit of
/// 1,000,000 bytes (`rpc.max_body_bytes`): base64 makes 4 bytes of 3, the envelope takes the rest.
pub const MAX_SIZE: usize = (1_000_000 - ENVELOPE_BYTES) / 4 * 3;

/// Where [`MAX_SIZE`] comes from, for messages.
pub(crate) const LIMIT_OF_BODIES: &str =
    "its RPC takes bodies of 1,000,000 bytes, and base64 adds a third";

/// What a broadcast request needs beside the transaction's base64 text, rounded up.
const ENVELOPE_BYTES: usize = 128;

/// Which workload a run sends, as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadKind {
    /// `key=value` transactions for CometBFT's built-in application.
    KvStore,
    /// One transaction per line of a file.
    File(PathBuf),
}

/// A checked workload: opens one sequential stream of transactions per shard.
#[derive(Debug, Clone)]
pub enum Workload {
    /// Generated from the seed.
    KvStore(KvStore),
    /// Read from a file.
    File(FileWorkload),
}

/// The transactions of one shard, in the order of its due times.
pub trait TxStream: Send {
    /// Appends the bytes of the transaction with this index to `out`.
    ///
    /// Indices are asked for in ascending order.
    ///
    /// # Errors
    /// When the transaction cannot be made, for instance because the file changed under the run.
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<(), WorkloadError>;
}

/// Why a workload cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// `--size` is below what a unique key needs.
    #[error(
        "a kvstore transaction of {size} bytes is too small for a unique key; use --size {MIN_SIZE} or more"
    )]
    SizeTooSmall {
        /// The size that was asked for, in bytes.
        size: usize,
    },
    /// `--size` is above what the node takes.
    #[error(
        "a transaction of {size} bytes is above the node's limit of {limit} bytes ({source_of_limit}); use a smaller --size, or leave it out of the file"
    )]
    SizeTooLarge {
        /// The size that was asked for, in bytes.
        size: usize,
        /// The largest possible size, in bytes.
        limit: usize,
        /// Where the limit comes from.
        source_of_limit: &'static str,
    },
    /// The transaction file cannot be opened or read.
    #[error("cannot read the transaction file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The transaction file holds nothing.
    #[error("the transaction file {} is empty; it needs one transaction per line", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A line of the transaction file is not what its first line promised.
    #[error("{}, line {line}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, counted from one.
        line: u64,
        /// What is wrong with it and what to do.
        problem: String,
    },
}

impl Workload {
    /// The number of transactions it can supply; `None` without end.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::KvStore(_) => None,
            Self::File(file) => Some(file.count()),
        }
    }

    /// The size of its largest transaction in bytes.
    #[must_use]
    pub fn largest(&self) -> usize {
        match self {
            Self::KvStore(kvstore) => kvstore.size(),
            Self::File(file) => file.largest(),
        }
    }

    /// Opens a stream of its transactions from the first on.
    ///
    /// # Errors
    /// When the file can no longer be opened.
    pub fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        match self {
            Self::KvStore(kvstore) => Ok(Box::new(*kvstore)),
            Self::File(file) => Ok(Box::new(file.open()?)),
        }
    }

    /// Refuses a workload with transactions over the node's limit.
    ///
    /// # Errors
    /// [`WorkloadError::SizeTooLarge`] with the limit and where it comes from.
    pub fn check_limit(
        &self,
        limit: usize,
        source_of_limit: &'static str,
    ) -> Result<(), WorkloadError> {
        if self.largest() > limit {
            return Err(WorkloadError::SizeTooLarge {
                size: self.largest(),
                limit,
                source_of_limit,
            });
        }
        Ok(())
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KvStore(kvstore) => write!(f, "kvstore, {} bytes each", kvstore.size()),
            Self::File(file) => write!(
                f,
                "{} transactions from {} (read as {})",
                file.count(),
                file.path().display(),
                file.format()
            ),
        }
    }
}

impl FromStr for WorkloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "kvstore" => Ok(Self::KvStore),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ => Err(format!(
                "unknown workload {text:?}; use kvstore or file:PATH"
            )),
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KvStore => f.write_str("kvstore"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}
