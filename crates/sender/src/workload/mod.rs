//! What is sent: transactions as a pure function of the seed and the index.

mod bigchain;
pub mod bitcoin;
mod cosmos;
mod file;
mod kvstore;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

pub use self::bigchain::bigchain_id;
pub use self::bigchain::{BigchainWorkload, Chains, Content, Metadata};
pub use self::bitcoin::{BitcoinWorkload, Digest, Shape, Spec, WalletError};
pub use self::cosmos::{ChainClient, Expectation, Sequences, write_genesis};
pub use self::cosmos::{
    ChainError, CosmosContent, CosmosWorkload, Gas, OnGap, Payments, Recipients, Wallet,
};
pub use file::{FileFormat, FileWorkload};
pub use kvstore::{KvStore, MIN_SIZE};

/// The largest transaction whose broadcast request fits CometBFT's default body limit of
/// 1,000,000 bytes (`rpc.max_body_bytes`): base64 makes 4 bytes of 3, the envelope takes the rest.
pub const MAX_SIZE: usize = (1_000_000 - ENVELOPE_BYTES) / 4 * 3;

/// Where [`MAX_SIZE`] comes from, for messages.
pub const LIMIT_OF_BODIES: &str =
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
    /// BigchainDB's CREATE.
    BigchainCreate,
    /// Chains of BigchainDB's TRANSFER.
    BigchainTransfer,
    /// Transfers on a Cosmos SDK chain.
    Cosmos(Payments),
    /// Bitcoin transactions from a wallet of one's own.
    Bitcoin,
}

/// A checked workload: opens one sequential stream of transactions per shard.
#[derive(Debug, Clone)]
pub enum Workload {
    /// Generated from the seed.
    KvStore(KvStore),
    /// Read from a file.
    File(FileWorkload),
    /// Signed for a BigchainDB.
    Bigchain(BigchainWorkload),
    /// Signed for a Cosmos SDK chain.
    Cosmos(CosmosWorkload),
    /// Signed for a Bitcoin node.
    Bitcoin(BitcoinWorkload),
}

/// What the chain calls a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxName {
    /// On Tendermint the hash of its bytes, on BigchainDB the id in its text: whoever wants to know
    /// works it out.
    Hash,
    /// On Tendermint the same; on BigchainDB this id.
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
    /// A wallet cannot be used.
    #[error(transparent)]
    Wallet(#[from] WalletError),
    /// A file cannot be opened or read.
    #[error("cannot read the transaction file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Refuses a transaction above the node's limit; `source_of_limit` says where that comes from.
fn check_size(
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

impl Workload {
    /// The number of transactions it can supply; `None` without end.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::KvStore(_) => None,
            Self::File(file) => Some(file.count()),
            Self::Bigchain(signed) => signed.count(),
            Self::Cosmos(_) => None,
            Self::Bitcoin(signed) => Some(signed.count()),
        }
    }

    /// The size of its largest transaction in bytes.
    pub fn largest(&self) -> usize {
        match self {
            Self::KvStore(kvstore) => kvstore.size(),
            Self::File(file) => file.largest(),
            Self::Bigchain(signed) => signed.size(),
            Self::Cosmos(transfers) => transfers.largest(),
            Self::Bitcoin(signed) => signed.size(),
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
            Self::Bigchain(signed) => Ok(Box::new(signed.open())),
            Self::Cosmos(transfers) => Ok(Box::new(transfers.open()?)),
            Self::Bitcoin(signed) => Ok(Box::new(signed.open())),
        }
    }

    /// Whether making a transaction takes long enough to be shared between threads, and can be.
    pub fn is_signed(&self) -> bool {
        matches!(self, Self::Bigchain(_) | Self::Cosmos(_) | Self::Bitcoin(_))
    }

    /// The transactions of a Bitcoin wallet, if they are that.
    pub fn bitcoin(&self) -> Option<&BitcoinWorkload> {
        match self {
            Self::Bitcoin(signed) => Some(signed),
            _ => None,
        }
    }

    /// The sequences of the accounts that sign, where the chain executes an account's transactions in
    /// their order only.
    pub fn sequences(&self) -> Option<&Arc<Sequences>> {
        match self {
            Self::Cosmos(transfers) => transfers.sequences(),
            _ => None,
        }
    }

    /// What has to be committed before it can be offered, and how many transactions that is.
    pub fn preparation(&self) -> Option<(Self, u64)> {
        match self {
            Self::Bigchain(signed) => {
                let (roots, count) = signed.preparation()?;
                Some((Self::Bigchain(roots), count))
            }
            _ => None,
        }
    }

    /// Refuses a workload with transactions over the node's limit.
    ///
    /// # Errors
    /// [`WorkloadError::Unusable`] with the limit and where it comes from.
    pub fn check_limit(
        &self,
        limit: usize,
        source_of_limit: &'static str,
    ) -> Result<(), WorkloadError> {
        check_size(self.largest(), limit, source_of_limit)
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
            Self::Bigchain(signed) => signed.fmt(f),
            Self::Cosmos(transfers) => transfers.fmt(f),
            Self::Bitcoin(signed) => signed.fmt(f),
        }
    }
}

impl FromStr for WorkloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "kvstore" => Ok(Self::KvStore),
            None if text == CREATE => Ok(Self::BigchainCreate),
            None if text == TRANSFER => Ok(Self::BigchainTransfer),
            None if text == BITCOIN => Ok(Self::Bitcoin),
            None if text == Payments::Send.name() => Ok(Self::Cosmos(Payments::Send)),
            None if text == Payments::MultiSend.name() => Ok(Self::Cosmos(Payments::MultiSend)),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ => Err(format!(
                "unknown workload {text:?}; use kvstore, {CREATE}, {TRANSFER}, {}, {}, {BITCOIN} or file:PATH",
                Payments::Send.name(),
                Payments::MultiSend.name()
            )),
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KvStore => f.write_str("kvstore"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::BigchainCreate => f.write_str(CREATE),
            Self::BigchainTransfer => f.write_str(TRANSFER),
            Self::Cosmos(payments) => f.write_str(payments.name()),
            Self::Bitcoin => f.write_str(BITCOIN),
        }
    }
}

const CREATE: &str = "bigchaindb-create";
const BITCOIN: &str = "bitcoin";
/// BigchainDB's TRANSFER on the command line.
pub const TRANSFER: &str = "bigchaindb-transfer";
