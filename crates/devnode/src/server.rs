//! Accepts connections and owns their tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::State;
use crate::http::{self, Handler, Limits, Request, Response};
use crate::node::Node;
use crate::rpc;

/// Pause before a failed accept or bind is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

/// Serves connections until the node stops; then waits for those that are open to end.
pub(crate) async fn serve(node: Arc<Node>, listener: TcpListener, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    tokio::select! {
        () = stop.cancelled() => {}
        () = accept_forever(&node, listener, &tasks, &stop) => {}
    }
    tasks.close();
    tasks.wait().await;
}

async fn accept_forever(
    node: &Arc<Node>,
    listener: TcpListener,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(node.config.rpc.max_open_connections));
    let mut faults = node.faults.watch();
    let mut listener = Some(listener);
    loop {
        if refusing(&faults.borrow_and_update()) {
            // A closed listener is what makes the system refuse.
            drop(listener.take());
            node.faults.wait_until(|state| state.refusing_until).await;
        }
        let open = match listener.take() {
            Some(open) => open,
            None => bind_again(node.rpc_address).await,
        };
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        tokio::select! {
            accepted = open.accept() => match accepted {
                Ok((stream, peer)) => {
                    let connection = Connection { node: Arc::clone(node), peer, stop: stop.clone() };
                    let faults = node.faults.watch();
                    tasks.spawn(async move {
                        connection.run(stream, faults).await;
                        drop(slot);
                    });
                }
                // Out of file descriptors: those who wait in the backlog go on waiting.
                Err(_) => tokio::time::sleep(RETRY_PAUSE).await,
            },
            changed = faults.changed() => if changed.is_err() { return },
        }
        listener = Some(open);
    }
}

fn refusing(state: &State) -> bool {
    state
        .refusing_until
        .is_some_and(|until| until > Instant::now())
}

/// Takes the address back that the node gave up to refuse connections.
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
    peer: SocketAddr,
    stop: CancellationToken,
}

impl Connection {
    /// Serves until the client goes, the node stops, or a fault closes it.
    async fn run(self, stream: TcpStream, faults: watch::Receiver<State>) {
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
        mut faults: watch::Receiver<State>,
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
        let limits = Limits {
            idle: self.node.config.rpc.idle_timeout,
            body: self.node.config.rpc.max_body_bytes,
        };
        let served = http::serve(stream, limits, &self).await;
        // A connection that breaks is the client's affair.
        if let Ok(Some(upgrade)) = served {
            rpc::ws::serve(&self.node, self.peer, upgrade).await;
        }
    }
}

impl Handler for Connection {
    async fn answer(&self, request: &Request) -> Response {
        if request.path() == WEBSOCKET_PATH {
            self.node.faults.pass().await;
            return rpc::ws::handshake(request);
        }
        rpc::http::handle(&self.node, self.peer, request).await
    }
}
