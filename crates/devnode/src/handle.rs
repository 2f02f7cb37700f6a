//! Starts a node, and the handle that keeps it running.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::{Application, Config, ConfigError};
use crate::control;
use crate::faults::Faults;
use crate::node::{BigchaindbAddresses, Node};
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
    control: Option<SocketAddr>,
    stop: CancellationToken,
    _shutdown: DropGuard,
}

/// The node's work: await or spawn it. It ends after [`DevNode::shutdown`], when every connection
/// and task of the node has ended.
///
/// # Cancel safety
/// Dropping it stops the node at once.
pub struct Worker(Pin<Box<dyn Future<Output = ()> + Send>>);

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
        let (listener, address) = listen(config.listen).await?;
        let (control, control_address) = match config.control {
            Some(address) => listen(address)
                .await
                .map(|(listener, at)| (Some(listener), Some(at)))?,
            None => (None, None),
        };
        let (bigchaindb, addresses) = match config.app {
            Application::Kvstore => (None, None),
            Application::Bigchaindb => {
                let (api, api_address) = listen(config.bigchaindb.listen).await?;
                let (events, events_address) = listen(config.bigchaindb.events).await?;
                let addresses = BigchaindbAddresses {
                    api: api_address,
                    events: events_address,
                };
                (Some((api, events)), Some(addresses))
            }
        };
        let node = Arc::new(Node::new(config, address, addresses));
        let stop = CancellationToken::new();
        let worker = Worker(Box::pin(work(
            Arc::clone(&node),
            Listeners {
                rpc: listener,
                control,
                bigchaindb,
            },
            stop.clone(),
        )));
        let handle = Self {
            node,
            control: control_address,
            stop: stop.clone(),
            _shutdown: stop.drop_guard(),
        };
        Ok((handle, worker))
    }

    /// Where the RPC listens.
    #[must_use]
    pub fn rpc_address(&self) -> SocketAddr {
        self.node.rpc_address
    }

    /// `http://HOST:PORT`.
    #[must_use]
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc_address())
    }

    /// `ws://HOST:PORT/websocket`.
    #[must_use]
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.rpc_address())
    }

    /// Where BigchainDB's HTTP API listens, if it is the application.
    #[must_use]
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.node.bigchaindb.map(|addresses| addresses.api)
    }

    /// Where BigchainDB's event stream listens, if it is the application; its path is
    /// `/api/v1/streams/valid_transactions`.
    #[must_use]
    pub fn events_address(&self) -> Option<SocketAddr> {
        self.node.bigchaindb.map(|addresses| addresses.events)
    }

    /// Where the control endpoint listens, if there is one.
    #[must_use]
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control
    }

    /// The faults that can be injected.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.node.faults
    }

    /// Counters and levels.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.node)
    }

    /// A committed block; none if the height is not kept.
    #[must_use]
    pub fn block(&self, height: u64) -> Option<BlockSummary> {
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

/// Listens on an address; also the bound address, which port 0 leaves to the system.
async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), DevNodeError> {
    let listener = TcpListener::bind(address).await;
    listener
        .and_then(|listener| listener.local_addr().map(|at| (listener, at)))
        .map_err(|source| DevNodeError::Listen { address, source })
}

#[derive(Debug)]
struct Listeners {
    rpc: TcpListener,
    control: Option<TcpListener>,
    /// Those of BigchainDB's HTTP API and event stream.
    bigchaindb: Option<(TcpListener, TcpListener)>,
}

async fn work(node: Arc<Node>, listeners: Listeners, stop: CancellationToken) {
    let serve =
        |service, listener| server::serve(Arc::clone(&node), service, listener, stop.clone());
    let controlling = async {
        if let Some(listener) = listeners.control {
            control::serve(Arc::clone(&node), listener, stop.clone()).await;
        }
    };
    let bigchaindb = async {
        if let Some((api, events)) = listeners.bigchaindb {
            tokio::join!(serve(Service::Api, api), serve(Service::Events, events));
        }
    };
    tokio::join!(
        serve(Service::Rpc, listeners.rpc),
        Arc::clone(&node).produce(stop.clone()),
        Arc::clone(&node).clear_mempool_on_restart(stop.clone()),
        controlling,
        bigchaindb,
    );
    if let Some(app) = node.app.bigchaindb() {
        app.stop();
    }
}

impl Future for Worker {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Worker")
    }
}
