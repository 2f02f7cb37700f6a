//! Accepts connections and owns their tasks.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::faults::State;
use crate::node::Node;
use crate::rpc::http::{self, AnswerBody};
use crate::rpc::ws;

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
        let idle = self.node.config.rpc.idle_timeout;
        let upgrade = Mutex::new(None);
        let service = service_fn(|request| self.answer(request, &upgrade));
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(idle)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        // A connection that breaks is the client's affair.
        let _ = serving.await;
        let upgrade = upgrade.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(upgrade) = upgrade
            && let Ok(stream) = upgrade.await
        {
            ws::serve(Arc::clone(&self.node), self.peer, stream).await;
        }
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        upgrade: &Mutex<Option<OnUpgrade>>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        if request.uri().path() != WEBSOCKET_PATH {
            return http::handle(&self.node, self.peer, request).await;
        }
        self.node.faults.pass().await;
        let response = match ws::handshake(&request) {
            Ok(response) => response,
            Err(response) => return Ok(*response),
        };
        *upgrade.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(hyper::upgrade::on(&mut request));
        Ok(response)
    }
}
