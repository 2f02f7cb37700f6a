//! Starts a node, accepts its connections, and the handle that keeps it running.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::ConfigError;
use crate::control::Control;
use crate::faults::{ActiveFaults, Faults};
use crate::host::{BlockMaker, BlockSummary, Endpoint, Host, RPC, Setup, Snapshot};
use crate::http::Response;
use crate::kind::Blueprint;

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
pub struct DevNode {
    host: Arc<Host>,
    maker: Arc<dyn BlockMaker>,
    _shutdown: DropGuard,
}

/// The node's work: await or spawn it. It ends after [`DevNode::shutdown`], when every connection
/// and task of the node has ended.
///
/// # Cancel safety
/// Dropping it stops the node at once.
pub type Worker = Pin<Box<dyn Future<Output = ()> + Send>>;

impl DevNode {
    /// Listens on the configured addresses. Nothing is served before the worker runs.
    ///
    /// # Errors
    /// [`DevNodeError::Config`] for values out of range, [`DevNodeError::Listen`] for an address
    /// that cannot be listened on.
    pub async fn bind(node: impl Into<Blueprint>) -> Result<(Self, Worker), DevNodeError> {
        let node = node.into();
        node.validate()?;
        let Blueprint { kind, config } = node;
        let mut services = vec![(RPC, config.listen)];
        services.extend(config.control.map(|address| (CONTROL, address)));
        services.extend(kind.listens(&config));
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for (name, address) in services {
            let failed = |source| DevNodeError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            addresses.push((name, listener.local_addr().map_err(failed)?));
            listeners.push((name, listener));
        }
        let stop = CancellationToken::new();
        let host = Arc::new(Host::new(config, addresses, stop.clone()));
        let Setup {
            maker,
            mut endpoints,
        } = kind.build(&host);
        let control = Control::new(&host, &maker);
        endpoints.push((CONTROL, Arc::new(control)));
        let pair = |(name, listener)| {
            let found = endpoints.iter().find(|(of, _)| *of == name);
            found.map(|(_, endpoint)| (Arc::clone(endpoint), listener))
        };
        let served = listeners.into_iter().filter_map(pair).collect();
        let worker: Worker = Box::pin(work(Arc::clone(&host), Arc::clone(&maker), served));
        let handle = Self {
            host,
            maker,
            _shutdown: stop.drop_guard(),
        };
        Ok((handle, worker))
    }

    /// Where a service listens, if the node has it; its name is one of its kind's.
    pub fn address(&self, service: &str) -> Option<SocketAddr> {
        self.host.address(service)
    }

    /// Where the RPC listens.
    pub fn rpc_address(&self) -> SocketAddr {
        self.host.rpc_address()
    }

    /// `http://HOST:PORT`.
    pub fn rpc_url(&self) -> String {
        format!("http://{}", self.rpc_address())
    }

    /// `ws://HOST:PORT/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.rpc_address())
    }

    /// Where the control endpoint listens, if there is one.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.address(CONTROL)
    }

    /// What the node stands on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The faults that can be injected.
    pub fn faults(&self) -> &Faults {
        &self.host.faults
    }

    /// Counters and levels.
    pub fn snapshot(&self) -> Snapshot {
        self.host.snapshot(&*self.maker)
    }

    /// A committed block; none if the height is not kept.
    pub fn block(&self, height: u64) -> Option<BlockSummary> {
        self.maker.block(height)
    }

    /// Stops accepting, closes every connection, and lets the worker end. Returns at once.
    pub fn shutdown(&self) {
        self.host.stop.cancel();
    }
}

async fn work(
    host: Arc<Host>,
    maker: Arc<dyn BlockMaker>,
    served: Vec<(Arc<dyn Endpoint>, TcpListener)>,
) {
    let mut tasks = JoinSet::new();
    for (endpoint, listener) in served {
        tasks.spawn(serve(Arc::clone(&host), endpoint, listener));
    }
    tasks.spawn(Arc::clone(&host).drive(Arc::clone(&maker)));
    tasks.join_all().await;
    maker.stop().await;
}

/// The control endpoint among the services.
const CONTROL: &str = "control";

/// Pause before a failed accept or bind is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Serves connections until the node stops; then waits for those that are open to end.
async fn serve(host: Arc<Host>, endpoint: Arc<dyn Endpoint>, listener: TcpListener) {
    let tasks = TaskTracker::new();
    tokio::select! {
        () = host.stop.cancelled() => {}
        () = accept_forever(&host, &endpoint, listener, &tasks) => {}
    }
    tasks.close();
    tasks.wait().await;
}

async fn accept_forever(
    host: &Arc<Host>,
    endpoint: &Arc<dyn Endpoint>,
    listener: TcpListener,
    tasks: &TaskTracker,
) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let slots = Arc::new(Semaphore::new(endpoint.connections()));
    let node_faults = if endpoint.is_of_the_node() {
        host.faults.clone()
    } else {
        Faults::new()
    };
    let mut faults = node_faults.watch();
    let mut listener = Some(listener);
    loop {
        if refusing(&faults.borrow_and_update()) {
            // The system refuses connections while no listener is open.
            drop(listener.take());
            node_faults.wait_until(|state| state.refusing_until).await;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => bind_again(address).await,
        };
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        tokio::select! {
            accepted = open.accept() => match accepted {
                Ok((stream, peer)) => {
                    let (host, endpoint) = (Arc::clone(host), Arc::clone(endpoint));
                    let faults = node_faults.watch();
                    tasks.spawn(async move {
                        connection(&host, endpoint, (stream, peer), faults).await;
                        drop(slot);
                    });
                }
                // Out of file descriptors: connections in the backlog wait until one is free.
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            },
            changed = faults.changed() => if changed.is_err() { return },
        }
        listener = Some(open);
    }
}

fn refusing(state: &ActiveFaults) -> bool {
    state
        .refusing_until
        .is_some_and(|until| until > Instant::now())
}

/// Binds the address again that the node released to refuse connections.
async fn bind_again(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                tracing::warn!(%address, %error, "cannot listen again yet");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Serves a connection until the client goes, the node stops, or a fault closes it.
async fn connection(
    host: &Host,
    endpoint: Arc<dyn Endpoint>,
    (stream, peer): (TcpStream, SocketAddr),
    mut faults: watch::Receiver<ActiveFaults>,
) {
    let counters = &host.counters;
    let counted = u64::from(endpoint.is_of_the_node());
    counters.connections.fetch_add(counted, Ordering::Relaxed);
    counters
        .open_connections
        .fetch_add(counted, Ordering::Relaxed);
    let generation = faults.borrow_and_update().generation;
    if stream.set_nodelay(true).is_ok() {
        tokio::select! {
            () = endpoint.serve(stream, peer) => {}
            () = host.stop.cancelled() => {}
            _ = faults.wait_for(|state| state.generation != generation) => {}
        }
    }
    counters
        .open_connections
        .fetch_sub(counted, Ordering::Relaxed);
}

impl Host {
    /// Lets a request pass once no stall holds it, and gives its answer with what faults make of it.
    pub async fn answered(&self, answer: impl Future<Output = Response>) -> Response {
        self.faults.pass().await;
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = answer.await;
        if !self.faults.spoil(&mut response.body).await {
            std::future::pending::<()>().await;
        }
        response
    }
}
