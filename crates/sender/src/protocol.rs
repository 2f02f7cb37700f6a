//! How transactions of a chain travel: requests are written and answers are read, for each transaction of a load.
//!
//! The senders and the sources are generic over [`Protocol`], so they pay nothing for the choice of the chain.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use measure::{Failure, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{ConnectionError, Message};

/// Writes requests and reads answers.
///
/// One value serves a whole run and is cloned for every thread. [`encode`](Self::encode) and [`read`](Self::read)
/// are called for every transaction: they neither wait nor allocate.
pub trait Protocol: Clone + fmt::Debug + Send + Sync + 'static {
    /// Appends the part of a request that carries one transaction to `out`, and gives the name that
    /// the chain will call it by. A request of one transaction is this part alone; see
    /// [`Limits::framing`] for more.
    ///
    /// # Errors
    /// When the bytes are no transaction of this kind.
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        name: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError>;

    /// Passes a message's replies to `replies`: one call for each transaction that it answers, none for
    /// a message that speaks of none.
    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply));

    /// What a connection may carry.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// What the end of a connection means. An expected one is no outage: the connection is opened
    /// again at once (with [`Limits::on_demand`] for the next request), and nothing is recorded.
    fn closing(&self, error: &ConnectionError) -> Closing {
        match error {
            ConnectionError::ClosedAfterAnswer => Closing::Expected,
            ConnectionError::Malformed { .. }
            | ConnectionError::TooLarge { .. }
            | ConnectionError::Unsolicited => Closing::Outage(Failure::Malformed),
            _ => Closing::Outage(Failure::Closed),
        }
    }

    /// The counts of the node's refusals, and of what came in place of answers; the clones of all threads
    /// share it.
    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        None
    }
}

base::settings! {
    /// What a connection may carry.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Limits {
        /// Transactions in one request at most. What is due when a connection has room goes together;
        /// nothing waits for company.
        pub batch: NonZeroU32 = NonZeroU32::MIN,
        /// What makes one request of several transactions.
        pub framing: Framing = Framing::NONE,
        /// Whether a connection is opened only once there is a request for it: where an open connection that
        /// says nothing holds a worker of the server, opening them ahead starves it.
        pub on_demand: bool = false,
    }
}

/// The bytes around and between the parts of a request of several transactions, for instance the
/// brackets and commas of a JSON-RPC batch. A request of one transaction has none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// Before the first part.
    pub open: &'static [u8],
    /// Between two parts.
    pub between: &'static [u8],
    /// After the last part.
    pub close: &'static [u8],
}

/// Which transaction a reply is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyTo {
    /// The one with this index. Over HTTP, where an answer belongs to the oldest request, an index
    /// that is not in that request fails all of it with [`Failure::WrongId`]; elsewhere the answer is
    /// counted as a stray.
    Index(u64),
    /// Every transaction of the connection's oldest request.
    OldestRequest,
    /// It has a name that was never given. Over HTTP it is about the oldest request; elsewhere it is
    /// counted as a stray.
    Unknown,
}

/// What the end of a connection means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// The node ends its connections so; where requests are unanswered all the same, it is an outage.
    Expected,
    /// The oldest unanswered transaction failed in this way.
    Outage(Failure),
}

impl Framing {
    /// One part after the other.
    pub const NONE: Self = Self {
        open: b"",
        between: b"",
        close: b"",
    };
}

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
        /// The system's error.
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
