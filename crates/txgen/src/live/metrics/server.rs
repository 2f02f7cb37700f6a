//! The listener: one thread, few connections, each with a deadline.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::MetricsAddress;
use super::collect;
use crate::live::display::DisplayError;
use crate::live::track::Track;

/// Serves until it is dropped.
pub(in crate::live) struct MetricsServer {
    address: SocketAddr,
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens, and serves what `track` says from then on.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(in crate::live) fn start(
        address: MetricsAddress,
        track: Arc<Mutex<Track>>,
    ) -> Result<Self, DisplayError> {
        let failed = |source| DisplayError::Metrics {
            address: address.0,
            source,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let listener = runtime
            .block_on(TcpListener::bind(address.0))
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shutdown = CancellationToken::new();
        let desk = Desk {
            registry: Mutex::new(collect::registry(track)),
        };
        let until = shutdown.clone();
        let thread = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || runtime.block_on(serve(listener, Arc::new(desk), until)))
            .map_err(failed)?;
        Ok(Self {
            address,
            shutdown,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(in crate::live) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by its thread; the run does not depend on it.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// What every connection needs. One scrape at a time is encoded.
struct Desk {
    registry: Mutex<Registry>,
}

/// Serves until `shutdown`; an answer under way may take [`GOODBYE`] more.
async fn serve(listener: TcpListener, desk: Arc<Desk>, shutdown: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
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
                tracing::warn!(%error, "the metrics listener cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Keep-alive connections wait for nothing of ours.
    let busy = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GOODBYE, busy).await;
}

/// The next connection, once there is a place for it; more wait in the backlog.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places)
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, place))
}

impl Desk {
    async fn connection(&self, stream: TcpStream) {
        let service =
            service_fn(|request| std::future::ready(Ok::<_, Infallible>(self.page(&request))));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(MAX_HEAD_BYTES)
            // A scraper comes every few seconds: a connection for each is cheap, and none is left
            // open at the end.
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        match tokio::time::timeout(CONNECTION_LIFE, connection).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a metrics connection ended badly"),
            Err(_) => tracing::debug!("a metrics connection took too long"),
        }
    }

    fn page<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut refusal = page(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".into());
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            return refusal;
        }
        match request.uri().path() {
            "/metrics" => {
                let mut text = String::with_capacity(EXPOSITION_BYTES);
                let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
                match encode(&mut text, &registry) {
                    Ok(()) => page(StatusCode::OK, OPEN_METRICS, text),
                    Err(error) => page(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        PLAIN,
                        format!("the metrics cannot be written down: {error}\n"),
                    ),
                }
            }
            "/" => page(StatusCode::OK, PLAIN, INDEX.into()),
            _ => page(
                StatusCode::NOT_FOUND,
                PLAIN,
                format!("no such page\n\n{INDEX}"),
            ),
        }
    }
}

fn page(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut page = Response::new(Full::from(body));
    *page.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    page.headers_mut().insert(CONTENT_TYPE, kind);
    page
}

const INDEX: &str = "/metrics   the run under way, for Prometheus\n";
const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every scraper and a person with a browser.
const MAX_CONNECTIONS: usize = 16;
const HEADER_TIME: Duration = Duration::from_secs(5);
const CONNECTION_LIFE: Duration = Duration::from_secs(10);
const GOODBYE: Duration = Duration::from_millis(200);
/// After a failed accept (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const MAX_HEAD_BYTES: usize = 16 << 10;
const EXPOSITION_BYTES: usize = 16 << 10;
