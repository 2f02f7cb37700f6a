//! Accepts connections and owns their tasks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::faults::{ActiveFaults, Faults};
use crate::host::{Endpoint, Host};
use crate::http::Response;

/// Pause before a failed accept or bind is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Serves connections until the node stops; then waits for those that are open to end.
pub(crate) async fn serve(host: Arc<Host>, endpoint: Arc<dyn Endpoint>, listener: TcpListener) {
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
