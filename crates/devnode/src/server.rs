//! Accepts connections and owns their tasks.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::ActiveFaults;
use crate::http::{self, Handler, Limits, Request, Response};
use crate::node::Node;
use crate::{api, rpc};

/// Pause before a failed accept or bind is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

/// What is served on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// CometBFT's RPC.
    Rpc,
    /// BigchainDB's HTTP API.
    Api,
    /// BigchainDB's event stream.
    Events,
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
    let slots = Arc::new(Semaphore::new(node.config.rpc.max_open_connections));
    let mut faults = node.faults.watch();
    let address = listener.local_addr().unwrap_or(node.rpc_address);
    let mut listener = Some(listener);
    loop {
        if refusing(&faults.borrow_and_update()) {
            // The system refuses connections while no listener is open.
            drop(listener.take());
            node.faults.wait_until(|state| state.refusing_until).await;
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
                    let connection = Connection { node: Arc::clone(node), service, peer, stop: stop.clone(), events: Arc::default() };
                    let faults = node.faults.watch();
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

#[derive(Debug, Clone)]
struct Connection {
    node: Arc<Node>,
    service: Service,
    peer: SocketAddr,
    stop: CancellationToken,
    /// Subscribed to blocks since the handshake, so that none is missed before the first read.
    events: Arc<Mutex<Option<api::events::Listener>>>,
}

impl Connection {
    /// Serves until the client goes, the node stops, or a fault closes it.
    async fn run(self, stream: TcpStream, faults: watch::Receiver<ActiveFaults>) {
        let counters = &self.node.counters;
        counters.connections.fetch_add(1, Ordering::Relaxed);
        counters.open_connections.fetch_add(1, Ordering::Relaxed);
        if stream.set_nodelay(true).is_ok() {
            let node = Arc::clone(&self.node);
            self.clone()
                .unless_closed(faults, self.clone().http(stream))
                .await;
            node.counters
                .open_connections
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    async fn unless_closed(
        self,
        mut faults: watch::Receiver<ActiveFaults>,
        serving: impl Future<Output = ()>,
    ) {
        let generation = faults.borrow_and_update().generation;
        tokio::select! {
            () = serving => {}
            () = self.stop.cancelled() => {}
            _ = faults.wait_for(|state| state.generation != generation) => {}
        }
    }

    async fn http(self, stream: TcpStream) {
        let config = &self.node.config;
        let limits = Limits {
            idle: config.rpc.idle_timeout,
            body: match self.service {
                Service::Rpc | Service::Events => config.rpc.max_body_bytes,
                Service::Api => config.bigchaindb.max_body_bytes,
            },
        };
        let served = http::serve(stream, limits, &self).await;
        // A broken connection needs no action of the node.
        if let Ok(Some(upgrade)) = served {
            match self.service {
                Service::Events => {
                    let listener = self.events().take();
                    if let Some(listener) = listener {
                        api::events::serve(&self.node, upgrade, listener).await;
                    }
                }
                Service::Rpc | Service::Api => {
                    rpc::ws::serve(&self.node, self.peer, upgrade).await;
                }
            }
        }
    }
}

impl Connection {
    fn events(&self) -> MutexGuard<'_, Option<api::events::Listener>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Connection {
    async fn answer(&self, request: &Request) -> Response {
        match self.service {
            Service::Rpc => {}
            Service::Api => return api::handle(&self.node, request).await,
            Service::Events => {
                self.node.faults.pass().await;
                let (response, listener) = api::events::handshake(&self.node, request);
                *self.events() = listener;
                return response;
            }
        }
        if request.path() == WEBSOCKET_PATH {
            self.node.faults.pass().await;
            return rpc::ws::handshake(request);
        }
        rpc::http::handle(&self.node, self.peer, request).await
    }
}
