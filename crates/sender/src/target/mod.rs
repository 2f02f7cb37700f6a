//! What a run knows of the node that it loads: one trait, and one file for each kind of node.
//!
//! Everything is generic over [`Target`], so the senders and the sources pay nothing for the choice, which is
//! [`crate::kind`]'s. ARCHITECTURE.md has a table of how further kinds fit.

mod bigchaindb;
mod bitcoin;
mod cometbft;

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use measure::{Failure, IdText, NodeLimits, RefusalTexts, Reply, TxHash};
use parking_lot::Mutex;
use rpc::{
    BroadcastMethod, ClientError, ClientOptions, ConnectionError, Endpoint, FollowOptions,
    Follower, Mempool, Message, PeerNetwork,
};
use tokio_util::sync::CancellationToken;

pub use bigchaindb::Bigchaindb;
pub use bitcoin::{BitcoinNode, BitcoinQueries};
pub use cometbft::{Cometbft, caught_up};

use crate::clock::RunClock;
use crate::workload::{BitcoinWorkload, Sequences, TxName, Workload, WorkloadError, WorkloadKind};

/// What a run knows of its target, and how its parts talk to it.
///
/// One value serves a whole run and is cloned for every thread. The functions under *hot path* are
/// called for every transaction: they neither wait nor allocate.
pub trait Target: Clone + fmt::Debug + Send + Sync + 'static {
    /// Asks a node what the target's own interface answers; cheap to clone.
    type Queries: Clone + Send + Sync + 'static;

    /// What the kind is called and what it takes.
    const FACTS: &'static Facts;

    /// A target that is given transactions in this way.
    fn new(options: TargetOptions) -> Self;

    // Hot path.

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

    /// Tells `replies` what a message says: one call for each transaction that it speaks of, none for
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

    // Beside the load.

    /// Where is counted what the node said when it refused, and what came in place of answers; the clones of all threads
    /// share it.
    fn texts(&self) -> Option<&Mutex<RefusalTexts>> {
        None
    }

    /// A client for the target's own interface.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    fn queries(endpoint: &Endpoint, options: ClientOptions) -> Result<Self::Queries, ClientError>;

    /// Asks whether this is a node that can be loaded with this workload. Sends no transaction.
    ///
    /// # Errors
    /// When it cannot.
    fn probe(
        &self,
        endpoint: &Endpoint,
        queries: &Self::Queries,
        workload: &Workload,
    ) -> impl Future<Output = anyhow::Result<Probe>>;

    /// Learns from a node what the workload needs to know of the chain, just before a load of `planned`
    /// transactions; `None` for one that needs nothing.
    ///
    /// # Errors
    /// When the chain does not say it, or what it says makes the load impossible.
    fn learn(
        &self,
        _queries: &Self::Queries,
        _probe: &Probe,
        _workload: &Workload,
        _planned: Option<u64>,
    ) -> impl Future<Output = anyhow::Result<Option<Workload>>> {
        async { Ok(None) }
    }

    /// Prepares to follow the node's commits: the events, and the task that brings them about. It
    /// ends with `shutdown`.
    ///
    /// A follower of a chain with reorganisations reports a block once it is deep enough to be final,
    /// as observed at that instant.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    fn follow(probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError>;

    /// Which of these transactions the node holds, in its mempool or in a block; `None` where its interface
    /// cannot be asked for one that is in no block.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn holds(
        _queries: &Self::Queries,
        _ids: &[TxHash],
    ) -> impl Future<Output = Result<Option<Vec<bool>>, ClientError>> + Send {
        async { Ok(None) }
    }

    /// Transactions that wait in the node's mempool, as far as it lists them; `None` where it lists none.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn listed(
        _queries: &Self::Queries,
    ) -> impl Future<Output = Result<Option<Vec<TxHash>>, ClientError>> + Send {
        async { Ok(None) }
    }

    /// Where the nodes may be asked that this one is linked with.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn peers(
        _asked: &Endpoint,
        _queries: &Self::Queries,
    ) -> impl Future<Output = Result<Vec<Endpoint>, ClientError>> + Send {
        async { Ok(Vec::new()) }
    }

    /// What may be the matter when peers are not found.
    const PEERS_HINT: &'static str =
        "; it does not say who its peers are: name each with --observe";

    /// Checks that the node can be observed, and gives what its follower has to know.
    ///
    /// # Errors
    /// When it does not answer, or does not tell how many transactions wait.
    fn observable(queries: &Self::Queries) -> impl Future<Output = anyhow::Result<Probe>> + Send {
        async {
            match Self::pending(queries, &[]).await? {
                Some(_) => Ok(Probe::default()),
                None => anyhow::bail!(
                    "{} nodes cannot be observed: they do not tell how many transactions wait",
                    Self::FACTS.name
                ),
            }
        }
    }

    /// How many transactions the node holds that are in no block. `own` are the ids of transactions
    /// that it accepted from us and no block has shown: an interface that cannot tell how many
    /// transactions wait in all looks these up. `None` when it cannot tell anything.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn pending(
        queries: &Self::Queries,
        own: &[String],
    ) -> impl Future<Output = Result<Option<Mempool>, ClientError>> + Send;
}

/// What a follower works with.
#[derive(Debug)]
pub struct FollowWith<'a> {
    /// The node.
    pub endpoint: &'a Endpoint,
    /// What is asked for, and how often.
    pub options: FollowOptions,
    /// Stamps what is observed.
    pub clock: RunClock,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// The events of a follower, and the task that brings them about.
pub type Followed = (Follower, Pin<Box<dyn Future<Output = ()> + Send>>);

/// What a kind of target is called and what it takes.
#[derive(Debug)]
pub struct Facts {
    /// Its name on the command line, in scenarios and in the manifest.
    pub name: &'static str,
    /// How it writes the ids of transactions.
    pub ids: IdText,
    /// Whether a block begins with a transaction that was in no mempool.
    pub has_coinbase: bool,
    /// What is sent when nothing else is asked for.
    pub workload: &'static WorkloadKind,
    /// Why it does not take the kvstore's transactions, if it does not.
    pub no_kvstore: Option<&'static str>,
    /// Why it takes no transactions over WebSockets, if it takes none.
    pub no_websocket: Option<&'static str>,
    /// Why sentinel cannot stand in front of it, if it cannot.
    pub no_sentinel: Option<&'static str>,
    /// Why it does not run on a CometBFT that the run starts, if it does not.
    pub no_managed_cometbft: Option<&'static str>,
    /// Connections that are opened to a node without being asked for, at most.
    pub most_connections: NonZeroU32,
    /// Whether its answer to an `async` broadcast comes before any check of the transaction.
    pub answers_unchecked: bool,
    /// What stands before the name of the broadcast method in its requests.
    pub method_prefix: &'static str,
    /// What its requests go over, where the transport does not say it all.
    pub interface: Option<&'static str>,
    /// Where the built-in node listens for it.
    pub built_in: BuiltIn,
}

impl Facts {
    /// A CometBFT node, which everything works with; the others say what differs.
    pub const COMETBFT: Self = Self {
        name: "cometbft",
        ids: IdText::UpperHex,
        has_coinbase: false,
        workload: &WorkloadKind::KvStore,
        no_kvstore: None,
        no_websocket: None,
        no_sentinel: None,
        no_managed_cometbft: None,
        // A node takes 900 in all by default (`rpc.max_open_connections`).
        most_connections: NonZeroU32::new(512).expect("not zero"),
        answers_unchecked: true,
        method_prefix: "broadcast_tx_",
        interface: None,
        built_in: BuiltIn::Rpc,
    };
}

/// The interface of the built-in node that a target uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// The node's RPC.
    Rpc,
    /// The HTTP API of its application, which is BigchainDB then.
    BigchaindbApi,
    /// btcd's JSON-RPC in place of the node's.
    BitcoinRpc,
}

/// How a target is given transactions.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// Which broadcast call carries them.
    pub method: BroadcastMethod,
    /// Whether its blocks are followed.
    pub follow: bool,
    /// The sequences of the accounts that sign, where their order matters.
    pub sequences: Option<Arc<Sequences>>,
    /// Transactions in one request at most.
    pub batch: NonZeroU32,
    /// The workload, where what is refused takes others along.
    pub bitcoin: Option<BitcoinWorkload>,
}

pacing::settings! {
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

/// What is known of a node that can be loaded.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// `None` where the interface does not say.
    pub chain_id: Option<String>,
    /// The node's version, in its own words.
    pub version: String,
    /// The path, with its query, that requests are posted to; the endpoint's when `None`.
    pub path: Option<String>,
    /// Where the node tells what is committed, when that is not where it is asked.
    pub events: Option<Endpoint>,
    /// What it takes at most, as far as it says so.
    pub limits: NodeLimits,
    /// The network of Bitcoin nodes that it is on, where peers have to know it.
    pub network: Option<PeerNetwork>,
}

impl BuiltIn {
    /// Whether its application is Bitcoin.
    pub const fn is_bitcoin(self) -> bool {
        matches!(self, Self::BitcoinRpc)
    }
}

impl Framing {
    /// One part after the other.
    pub const NONE: Self = Self {
        open: b"",
        between: b"",
        close: b"",
    };
}
