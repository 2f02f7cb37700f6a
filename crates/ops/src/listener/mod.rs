//! An HTTP listener for few clients: each connection has a deadline, and their number is bounded.
//!
//! It only shows, but for the paths that are named as [changing something](Bounds::posts): other requests than GET and
//! HEAD are refused. The body of a request is not read. It has no authentication, so it
//! belongs on loopback or on a network that only operators can reach.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::accept::Acceptor;
use crate::page::{self, Page};

/// How much a connection, and all of them, may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Connections at once; more wait in the listener's backlog.
    pub connections: usize,
    /// From one answer, or the start, to the end of the next head.
    pub header: Duration,
    /// A connection is closed after this, also one whose client reads nothing.
    pub life: Duration,
    /// Paths that change something: they take POST, and nothing else.
    pub posts: &'static [&'static str],
}

impl Default for Bounds {
    /// Enough for every scraper and every operator with a browser.
    fn default() -> Self {
        Self {
            connections: 64,
            header: Duration::from_secs(10),
            life: Duration::from_secs(120),
            posts: &[],
        }
    }
}

/// Serves what `pages` makes of a request until `shutdown`; answers under way are then finished, for
/// at most a second.
///
/// `pages` runs on the listener's task: a short lock is fine, a long computation is not.
///
/// # Cancel safety
/// Dropping the future closes all connections.
pub async fn serve<P>(listener: TcpListener, bounds: Bounds, pages: P, shutdown: CancellationToken)
where
    P: Fn(&Request<Incoming>) -> Page + Send + Sync + 'static,
{
    let pages = Arc::new(pages);
    let places = Arc::new(Semaphore::new(bounds.connections));
    let mut acceptor = Acceptor::new(listener);
    let mut connections = JoinSet::new();
    loop {
        // A place first, then a connection.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (acceptor.next().await, place)
        };
        let ((stream, _), place) = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accepted => accepted,
        };
        let serving = connection(stream, bounds, Arc::clone(&pages), shutdown.clone());
        connections.spawn(async move {
            serving.await;
            drop(place);
        });
    }
    drop(acceptor);
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GOODBYE, ended).await;
}

async fn connection<P>(
    stream: TcpStream,
    bounds: Bounds,
    pages: Arc<P>,
    shutdown: CancellationToken,
) where
    P: Fn(&Request<Incoming>) -> Page,
{
    let service = service_fn(|request| {
        let page = page::refused_method(&request, bounds.posts).unwrap_or_else(|| pages(&request));
        std::future::ready(Ok::<_, Infallible>(page))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.header)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let served = async {
        tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Ok(Err(error)) = tokio::time::timeout(bounds.life, served).await {
        debug!(%error, "a connection of the operator's listener failed");
    }
}

/// How long answers under way are awaited at the end.
const GOODBYE: Duration = Duration::from_secs(1);

const MAX_HEADERS: usize = 64;
const MAX_HEAD_BYTES: usize = 16 << 10;
