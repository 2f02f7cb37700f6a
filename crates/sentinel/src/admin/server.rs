//! The listener itself: few connections, each with a deadline.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Inspect, pages};
use crate::metrics::Metrics;

/// Serves the operator until `shutdown`; then open connections finish the answer they are at.
///
/// Give it a token that is cancelled last: while the rest drains, `/readyz` must say so.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    shutdown: CancellationToken,
) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "serving the operator");
    }
    let desk = Desk {
        metrics,
        inspect,
        shutdown,
        bounds: BOUNDS,
    };
    desk.serve(listener).await;
}

/// What every connection needs.
pub(super) struct Desk {
    pub(super) metrics: Arc<Metrics>,
    pub(super) inspect: Arc<dyn Inspect>,
    pub(super) shutdown: CancellationToken,
    pub(super) bounds: Bounds,
}

/// How much a connection, and all of them, may take.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Connections at once; more wait in the listener's backlog.
    pub(super) connections: usize,
    /// From one answer, or the start, to the end of the next head.
    pub(super) header: Duration,
    /// A connection is closed after this, whatever it does: one that reads nothing included.
    pub(super) life: Duration,
}

/// Enough for every scraper and every operator with a browser.
const BOUNDS: Bounds = Bounds {
    connections: 64,
    header: Duration::from_secs(10),
    life: Duration::from_secs(120),
};

impl Desk {
    pub(super) async fn serve(self, listener: TcpListener) {
        let desk = Arc::new(self);
        let places = Arc::new(Semaphore::new(desk.bounds.connections));
        let mut connections = JoinSet::new();
        loop {
            // A place first, then a connection.
            let accepted = tokio::select! {
                () = desk.shutdown.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener, &places) => accepted,
            };
            match accepted {
                Ok((stream, place)) => {
                    let desk = Arc::clone(&desk);
                    connections.spawn(async move {
                        desk.connection(stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!(%error, "the admin listener cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOODBYE, ended).await;
    }

    async fn connection(&self, stream: TcpStream) {
        let service = service_fn(|request| {
            let page = pages::answer(&request, &self.metrics, &*self.inspect);
            std::future::ready(Ok::<_, Infallible>(page))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.header)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let served = async {
            tokio::select! {
                served = connection.as_mut() => served,
                () = self.shutdown.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        };
        if let Ok(Err(error)) = tokio::time::timeout(self.bounds.life, served).await {
            debug!(%error, "an admin connection ended badly");
        }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

/// How long answers under way are awaited at the end.
const GOODBYE: Duration = Duration::from_secs(1);

/// After a failed accept (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 << 10;
