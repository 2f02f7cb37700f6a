//! Accepts connections and owns their tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::{ActiveFaults, Faults};
use crate::http::{self, Handler, Limits, Request, Response};
use crate::node::Node;
use crate::{api, bitcoin, control, rpc};

/// Pause before a failed accept or bind is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// After this time of silence gunicorn 19 ends a worker, and with it the connection that blocks it.
const WORKER_TIMEOUT: Duration = Duration::from_secs(30);
/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

/// What is served on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    /// CometBFT's RPC.
    Rpc,
    /// BigchainDB's HTTP API.
    Api,
    /// BigchainDB's event stream.
    Events,
    /// Bitcoin's peer-to-peer protocol.
    Peers,
    /// Commands to the node itself; no fault concerns it.
    Control,
}

/// Serves connections until the node stops; then waits for those that are open to end.
pub(crate) async fn serve(
    node: Arc<Node>,
    service: Service,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept_forever(&node, service, listener, &tasks, &stop) => {}
    }
    tasks.close();
    tasks.wait().await;
}

async fn accept_forever(
    node: &Arc<Node>,
    service: Service,
    listener: TcpListener,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let slots = match workers(node, service) {
        0 => node.config.rpc.max_open_connections,
        workers => workers,
    };
    let slots = Arc::new(Semaphore::new(slots));
    let node_faults = match service {
        Service::Control => Faults::new(),
        _ => node.faults.clone(),
    };
    let mut faults = node_faults.watch();
    let address = listener.local_addr().unwrap_or(node.addresses.rpc);
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
                    let connection = Connection { node: Arc::clone(node), service, peer, stop: stop.clone(), events: Mutex::default() };
                    let faults = node_faults.watch();
                    tasks.spawn(async move {
                        connection.run(stream, faults).await;
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

/// Synchronous workers of a service; 0 for none.
fn workers(node: &Node, service: Service) -> usize {
    match service {
        Service::Api => node.config.bigchaindb.server_workers,
        _ => 0,
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

#[derive(Debug)]
struct Connection {
    node: Arc<Node>,
    service: Service,
    peer: SocketAddr,
    stop: CancellationToken,
    /// Subscribed to blocks since the handshake, so that none is missed before the first read.
    events: Mutex<Option<api::events::Listener>>,
}

impl Connection {
    /// Serves until the client goes, the node stops, or a fault closes it.
    async fn run(self, stream: TcpStream, mut faults: watch::Receiver<ActiveFaults>) {
        let node = Arc::clone(&self.node);
        let counters = &node.counters;
        let counted = u64::from(self.service != Service::Control);
        counters.connections.fetch_add(counted, Ordering::Relaxed);
        counters
            .open_connections
            .fetch_add(counted, Ordering::Relaxed);
        let generation = faults.borrow_and_update().generation;
        let stop = self.stop.clone();
        if stream.set_nodelay(true).is_ok() {
            tokio::select! {
                () = self.serve(stream) => {}
                () = stop.cancelled() => {}
                _ = faults.wait_for(|state| state.generation != generation) => {}
            }
        }
        counters
            .open_connections
            .fetch_sub(counted, Ordering::Relaxed);
    }

    async fn serve(self, stream: TcpStream) {
        match self
            .node
            .bitcoin
            .as_ref()
            .filter(|_| self.service == Service::Peers)
        {
            Some(bitcoin) => bitcoin::peers::serve(bitcoin, &self.node.faults, stream).await,
            None => self.http(stream).await,
        }
    }

    async fn http(self, stream: TcpStream) {
        let config = &self.node.config;
        let (idle, body) = match self.service {
            Service::Rpc | Service::Events | Service::Peers => {
                (config.rpc.idle_timeout, config.rpc.max_body_bytes)
            }
            Service::Api => {
                let is_free = workers(&self.node, Service::Api) == 0;
                let idle = if is_free {
                    config.rpc.idle_timeout
                } else {
                    WORKER_TIMEOUT
                };
                (idle, config.bigchaindb.max_body_bytes)
            }
            Service::Control => (control::IDLE, control::MAX_BODY),
        };
        let limits = Limits { idle, body };
        let served = http::serve(stream, limits, &self).await;
        // A broken connection needs no action of the node.
        if let Ok(Some(upgrade)) = served {
            let listener = self.events.lock().take();
            match listener {
                Some(listener) => api::events::serve(&self.node, upgrade, listener).await,
                None => rpc::ws::serve(&self.node, self.peer, upgrade).await,
            }
        }
    }
}

impl Handler for Connection {
    async fn answer(&self, request: &Request) -> Response {
        let node = &self.node;
        if self.service == Service::Control {
            return control::answer(node, request);
        }
        node.faults.pass().await;
        if self.service == Service::Events {
            let (response, listener) = api::events::handshake(node, request);
            *self.events.lock() = listener;
            return response;
        }
        let bitcoin = node
            .bitcoin
            .as_ref()
            .filter(|_| self.service == Service::Rpc);
        if bitcoin.is_none() && self.service == Service::Rpc && request.path() == WEBSOCKET_PATH {
            return rpc::ws::handshake(request);
        }
        node.counters.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = match (self.service, bitcoin) {
            (Service::Api, _) => api::handle(node, request).await,
            (_, Some(bitcoin)) => bitcoin::handle(bitcoin, &node.faults, request).await,
            _ => rpc::http::handle(node, self.peer, request).await,
        };
        // A synchronous worker serves one request of a connection.
        response.close |= workers(node, self.service) > 0;
        if !node.faults.spoil(&mut response.body).await {
            std::future::pending::<()>().await;
        }
        response
    }
}
