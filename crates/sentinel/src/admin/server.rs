//! The listener itself: few connections, each with a deadline.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

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
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // A place first: past the limit, connections wait in the listener's backlog.
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (listener.accept().await, place)
            } => accepted,
        };
        let (stream, place) = match accepted {
            (Ok((stream, _)), place) => (stream, place),
            (Err(error), _) => {
                warn!(%error, "the admin listener cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (metrics, inspect) = (Arc::clone(&metrics), Arc::clone(&inspect));
        let shutdown = shutdown.clone();
        connections.spawn(async move {
            let _place = place;
            connection(stream, &metrics, &*inspect, &shutdown).await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GOODBYE, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

async fn connection(
    stream: TcpStream,
    metrics: &Metrics,
    inspect: &dyn Inspect,
    shutdown: &CancellationToken,
) {
    let service = service_fn(|request| {
        let page = pages::answer(&request, metrics, inspect);
        std::future::ready(Ok::<_, Infallible>(page))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = tokio::time::timeout(CONNECTION_LIFE, async {
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    })
    .await;
    if let Ok(Err(error)) = served {
        debug!(%error, "an admin connection ended badly");
    }
}

/// Enough for every scraper and every operator with a browser.
const MAX_CONNECTIONS: usize = 64;

/// From one answer, or the start, to the end of the next head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection is closed after this, whatever it does: a reader that takes nothing included.
const CONNECTION_LIFE: Duration = Duration::from_secs(120);

/// How long answers under way are awaited at the end.
const GOODBYE: Duration = Duration::from_secs(1);

/// After a failed accept (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 << 10;
