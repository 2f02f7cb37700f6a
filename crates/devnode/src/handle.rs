//! Starts a node, and the handle that keeps it running.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bitcoin::hashes::Hash as _;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::{Application, BigchaindbConfig, Config, ConfigError};
use crate::faults::Faults;
use crate::node::{Addresses, Node};
use crate::server::{self, Service};
use crate::snapshot::Snapshot;

/// Why a node could not be started.
#[derive(Debug, Error)]
pub enum DevNodeError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: choose another address, or port 0 for a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A node. Dropping it shuts the node down.
#[derive(Debug)]
pub struct DevNode {
    node: Arc<Node>,
    stop: CancellationToken,
    _shutdown: DropGuard,
}

/// The node's work: await or spawn it. It ends after [`DevNode::shutdown`], when every connection
/// and task of the node has ended.
///
/// # Cancel safety
/// Dropping it stops the node at once.
pub type Worker = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A committed block, for tests that compare with what the chain holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockSummary {
    /// Its height.
    pub height: u64,
    /// Hash and result code of each transaction, in order.
    pub txs: Vec<([u8; 32], u32)>,
}

impl DevNode {
    /// Listens on the configured addresses. Nothing is served before the worker runs.
    ///
    /// # Errors
    /// [`DevNodeError::Config`] for values out of range, [`DevNodeError::Listen`] for an address
    /// that cannot be listened on.
    pub async fn bind(config: Config) -> Result<(Self, Worker), DevNodeError> {
        config.validate()?;
        let mut listeners = Listeners::default();
        let rpc = listeners.open(Service::Rpc, config.listen).await?;
        let mut addresses = Addresses {
            rpc,
            api: None,
            events: None,
            control: None,
            peers: None,
        };
        if let Some(address) = config.control {
            addresses.control = Some(listeners.open(Service::Control, address).await?);
        }
        if config.app == Application::Bigchaindb {
            let BigchaindbConfig { listen, events, .. } = config.bigchaindb;
            addresses.api = Some(listeners.open(Service::Api, listen).await?);
            addresses.events = Some(listeners.open(Service::Events, events).await?);
        }
        if let (Application::Bitcoin, Some(address)) = (config.app, config.bitcoin.p2p_listen) {
            addresses.peers = Some(listeners.open(Service::Peers, address).await?);
        }
        let stop = CancellationToken::new();
        let node = Arc::new(Node::new(config, addresses, stop.clone()));
        let worker: Worker = Box::pin(work(Arc::clone(&node), listeners, stop.clone()));
        let handle = Self {
            node,
            stop: stop.clone(),
            _shutdown: stop.drop_guard(),
        };
        Ok((handle, worker))
    }

    /// Where the RPC listens.
    pub fn rpc_address(&self) -> SocketAddr {
        self.node.addresses.rpc
    }

    /// `http://HOST:PORT`.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc_address())
    }

    /// `ws://HOST:PORT/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.rpc_address())
    }

    /// Where BigchainDB's HTTP API listens, if it is the application.
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.node.addresses.api
    }

    /// Where BigchainDB's event stream listens, if it is the application; its path is
    /// `/api/v1/streams/valid_transactions`.
    pub fn events_address(&self) -> Option<SocketAddr> {
        self.node.addresses.events
    }

    /// Where the control endpoint listens, if there is one.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.node.addresses.control
    }

    /// Where Bitcoin's peers connect to, if it is the application and listens for them.
    pub fn peers_address(&self) -> Option<SocketAddr> {
        self.node.addresses.peers
    }

    /// The faults that can be injected.
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Counters and levels.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.node)
    }

    /// A committed block; none if the height is not kept.
    pub fn block(&self, height: u64) -> Option<BlockSummary> {
        if let Some(bitcoin) = &self.node.bitcoin {
            let ids = bitcoin.block_ids(height)?.into_iter();
            let txs = ids.map(|id| (id.to_byte_array(), 0)).collect();
            return Some(BlockSummary { height, txs });
        }
        let block = self.node.store().block(height).cloned()?;
        let txs = block
            .txs
            .iter()
            .enumerate()
            .map(|(index, tx)| (tx.hash, block.code(index)))
            .collect();
        Some(BlockSummary { height, txs })
    }

    /// Stops accepting, closes every connection, and lets the worker end. Returns at once.
    pub fn shutdown(&self) {
        self.stop.cancel();
    }
}

#[derive(Debug, Default)]
struct Listeners(Vec<(Service, TcpListener)>);

impl Listeners {
    /// Listens on an address. Returns the bound address, which port 0 leaves to the system.
    async fn open(
        &mut self,
        service: Service,
        address: SocketAddr,
    ) -> Result<SocketAddr, DevNodeError> {
        let failed = |source| DevNodeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        self.0.push((service, listener));
        Ok(bound)
    }
}

async fn work(node: Arc<Node>, listeners: Listeners, stop: CancellationToken) {
    let mut tasks = JoinSet::new();
    for (service, listener) in listeners.0 {
        tasks.spawn(server::serve(
            Arc::clone(&node),
            service,
            listener,
            stop.clone(),
        ));
    }
    tasks.spawn(Arc::clone(&node).produce(stop.clone()));
    tasks.spawn(Arc::clone(&node).clear_mempool_on_restart(stop));
    tasks.join_all().await;
    node.finished().await;
    if let Some(app) = node.app.bigchaindb() {
        app.stop();
    }
    if let Some(bitcoin) = &node.bitcoin {
        bitcoin.stop();
    }
}
