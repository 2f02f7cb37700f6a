//! A kind of node, seen from everything that is not done for each transaction.

use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use measure::{IdText, TxHash};
use rpc::{
    BroadcastMethod, ClientError, ClientOptions, Endpoint, FollowOptions, Follower, Mempool,
};
use sender::Loader;
use sender::clock::RunClock;
use tokio_util::sync::CancellationToken;

use crate::workload::{Asking, Probe, Workload};

/// A kind of node.
pub trait Target: fmt::Debug + Send + Sync {
    /// What it is called and what it takes.
    fn facts(&self) -> &'static Facts;

    /// A client for the node's own interface.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    fn connect(
        &self,
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<Arc<dyn NodeClient>, ClientError>;

    /// Prepares to follow the node's commits: the events, and the task that brings them about. It
    /// ends with `shutdown`.
    ///
    /// A follower of a chain with reorganisations reports a block once it is deep enough to be final,
    /// as observed at that instant.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    fn follow(&self, probe: &Probe, with: FollowWith<'_>) -> Result<Followed, ClientError>;

    /// The threads that load nodes of this kind.
    fn loader(&self, options: &LoadOptions) -> Arc<dyn Loader>;

    /// Where the built-in node listens for what loads of this kind speak.
    #[cfg(feature = "fixture")]
    fn built_in_address(&self, node: &devnode::DevNode) -> std::net::SocketAddr {
        node.rpc_address()
    }

    /// The endpoint of a built-in node with this configuration, with the user that it asks for.
    #[cfg(feature = "fixture")]
    fn built_in_endpoint(&self, endpoint: Endpoint, _config: &devnode::Config) -> Endpoint {
        endpoint
    }

    /// What may be the matter when peers are not found.
    fn peers_hint(&self) -> &'static str {
        "; it does not say who its peers are: name each with --observe"
    }
}

/// A node, asked through its own interface.
pub trait NodeClient: Send + Sync {
    /// Asks whether this is a node that can be loaded so. Sends no transaction.
    ///
    /// # Errors
    /// When it cannot.
    fn probe<'a>(&'a self, load: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>>;

    /// How many transactions the node holds that are in no block. `own` are the ids of transactions
    /// that it accepted from us and no block has shown: an interface that does not show how many
    /// transactions wait in all looks these up. `None` when it shows nothing.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn pending<'a>(&'a self, own: &'a [String])
    -> Asking<'a, Result<Option<Mempool>, ClientError>>;

    /// Checks that the node can be observed, and gives what its follower has to know.
    ///
    /// # Errors
    /// When it does not answer, or does not show how many transactions wait.
    fn observable(&self) -> Asking<'_, anyhow::Result<Probe>> {
        Box::pin(async {
            match self.pending(&[]).await? {
                Some(_) => Ok(Probe::default()),
                None => anyhow::bail!(
                    "nodes of its kind cannot be observed: they do not tell how many transactions wait"
                ),
            }
        })
    }

    /// Which of these transactions the node holds, in its mempool or in a block; `None` where its interface
    /// cannot be asked for one that is in no block.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn holds<'a>(
        &'a self,
        _ids: &'a [TxHash],
    ) -> Asking<'a, Result<Option<Vec<bool>>, ClientError>> {
        Box::pin(async { Ok(None) })
    }

    /// Transactions that wait in the node's mempool, as far as it lists them; `None` where it lists none.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn listed(&self) -> Asking<'_, Result<Option<Vec<TxHash>>, ClientError>> {
        Box::pin(async { Ok(None) })
    }

    /// Where the nodes may be asked that this one is linked with.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer as it should.
    fn peers(&self) -> Asking<'_, Result<Vec<Endpoint>, ClientError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// How nodes are spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeOptions {
    /// Transactions in one request at most.
    pub batch: NonZeroU32,
    /// Blocks that a committed transaction has, its own included.
    pub confirmations: NonZeroU32,
    /// Where the blocks are read, where that is not where the transactions go.
    pub blocks: Option<Endpoint>,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            batch: NonZeroU32::MIN,
            confirmations: NonZeroU32::MIN,
            blocks: None,
        }
    }
}

/// How a node is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Which broadcast call carries the transactions.
    pub method: BroadcastMethod,
    /// Whether blocks are followed.
    pub follow: bool,
    /// Transactions in one request at most.
    pub batch: NonZeroU32,
    /// Where the blocks are read, where that is not where the transactions go.
    pub blocks: Option<Endpoint>,
    /// What is sent.
    pub workload: Arc<dyn Workload>,
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
    /// The workload that is sent when nothing else is asked for.
    pub workload: &'static str,
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
    /// Whether its usual workload is accounted for from the rows of all transactions.
    pub accounts_from_rows: bool,
    /// What its requests go over, where the transport does not determine it.
    pub interface: Option<&'static str>,
    /// The kind of node that stands behind it, where that one and not itself can be observed.
    pub observed_as: Option<&'static str>,
}

impl Facts {
    /// A kind of node without restrictions; others set what differs.
    pub const fn new(name: &'static str, workload: &'static str) -> Self {
        Self {
            name,
            ids: IdText::UpperHex,
            has_coinbase: false,
            workload,
            no_kvstore: None,
            no_websocket: None,
            no_sentinel: None,
            no_managed_cometbft: None,
            most_connections: NonZeroU32::MIN,
            answers_unchecked: false,
            method_prefix: "",
            accounts_from_rows: false,
            interface: None,
            observed_as: None,
        }
    }
}
