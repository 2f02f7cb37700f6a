//! An HTTP listener for few clients: where it listens, a deadline for each connection, a bound on their number; and its
//! answers, complete in memory.
//!
//! It only shows, but for the paths that are named as [changing something](Bounds::posts): other requests than GET and
//! HEAD are refused. The body of a request is not read. It has no authentication, so it
//! belongs on loopback or on a network that only operators can reach.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::accept::Acceptor;

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
        let page = refused_method(&request, bounds.posts).unwrap_or_else(|| pages(&request));
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

/// An address with a port; of a port alone, loopback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

/// Why a text is no such address.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not an address; write 9464 (on loopback), 0.0.0.0:9464 or [::]:9464")]
pub struct AddressError {
    text: String,
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let port = text.strip_prefix(':').unwrap_or(text).parse();
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        port.map(loopback)
            .or_else(|_| text.replace("localhost:", "127.0.0.1:").parse())
            .map(Self)
            .map_err(|_| AddressError { text: text.into() })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One answer.
pub type Page = Response<Full<Bytes>>;

/// A page that is never cached.
pub fn page(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Page {
    let mut page = Response::new(Full::from(body.into()));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}

/// Plain text.
pub fn text(status: StatusCode, body: String) -> Page {
    page(status, "text/plain; charset=utf-8", body)
}

/// Indented JSON.
///
/// # Panics
/// When `body` has a map whose keys are not strings.
pub fn json(status: StatusCode, body: &impl Serialize) -> Page {
    let mut text = serde_json::to_string_pretty(body).expect("pages have text keys only");
    text.push('\n');
    page(status, "application/json", text)
}

/// JSON that was written down before.
pub fn json_text(body: Bytes) -> Page {
    page(StatusCode::OK, "application/json", body)
}

/// Prometheus metrics in the OpenMetrics text format.
pub fn metrics(text: String) -> Page {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    page(StatusCode::OK, OPEN_METRICS, text)
}

/// Why a request was refused, as JSON.
pub fn problem(status: StatusCode, reason: &str) -> Page {
    json(status, &serde_json::json!({ "error": reason }))
}

/// For a path that names no page: 404 with the list of pages.
pub fn not_found(index: &str) -> Page {
    text(StatusCode::NOT_FOUND, format!("no such page\n\n{index}"))
}

/// The refusal of a request whose method its path does not have. The paths in `posts` change something and take POST
/// alone, all others show something.
pub(crate) fn refused_method<B>(request: &Request<B>, posts: &[&str]) -> Option<Page> {
    let (methods, reason, allowed): (&[Method], _, _) = if posts.contains(&request.uri().path()) {
        (&[Method::POST], "this changes something; use POST", "POST")
    } else {
        let reason = "only GET; nothing can be changed here";
        (&[Method::GET, Method::HEAD], reason, "GET, HEAD")
    };
    if methods.contains(request.method()) {
        return None;
    }
    let mut page = problem(StatusCode::METHOD_NOT_ALLOWED, reason);
    let allowed = HeaderValue::from_static(allowed);
    page.headers_mut().insert(ALLOW, allowed);
    Some(page)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use hyper::StatusCode;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    use super::*;

    struct Served {
        address: SocketAddr,
        shutdown: CancellationToken,
        serving: JoinHandle<()>,
    }

    const PATIENT: Bounds = Bounds {
        connections: 8,
        header: Duration::from_secs(60),
        life: Duration::from_secs(60),
        posts: &["/order"],
    };

    async fn serve_with(bounds: Bounds) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let pages = |request: &Request<Incoming>| match request.uri().path() {
            "/metrics" => metrics("sentinel 1\n".repeat(4_000)),
            "/order" | "/healthz" => text(StatusCode::OK, "healthy\n".into()),
            _ => not_found("/metrics\n"),
        };
        Served {
            address,
            shutdown: shutdown.clone(),
            serving: tokio::spawn(serve(listener, bounds, pages, shutdown)),
        }
    }

    impl Served {
        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// The whole answer to a request of this method, target and further header lines.
        async fn ask(&self, method: &str, target: &str, headers: &str) -> String {
            let mut stream = self.connect().await;
            let request = format!(
                "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            rest(&mut stream).await
        }

        async fn get(&self, target: &str) -> (u16, String) {
            let answer = self.ask("GET", target, "").await;
            let status = answer[9..12].parse().unwrap();
            let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
            (status, body)
        }
    }

    async fn rest(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn nothing_can_be_changed_but_by_post_where_that_is_named() {
        let served = serve_with(PATIENT).await;
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let answer = served.ask(method, "/metrics", "").await;
            assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
            assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
        }
        for method in ["GET", "HEAD", "PUT", "DELETE"] {
            let answer = served.ask(method, "/order", "").await;
            assert!(answer.starts_with("HTTP/1.1 405 "), "{method}: {answer}");
            assert!(answer.contains("allow: POST\r\n"), "{answer}");
        }
        let order = served.ask("POST", "/order", "").await;
        assert!(order.starts_with("HTTP/1.1 200 "), "{order}");
        let head = served.ask("HEAD", "/healthz", "").await;
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
        assert_eq!(served.get("/nothing").await.0, 404);
    }

    #[tokio::test]
    async fn a_slow_head_and_an_idle_connection_are_cut_off() {
        let served = serve_with(Bounds {
            header: Duration::from_millis(50),
            ..PATIENT
        })
        .await;
        let mut slow = served.connect().await;
        slow.write_all(b"GET /metrics HTTP/1.1\r\nHost:")
            .await
            .unwrap();
        rest(&mut slow).await;
        let mut silent = served.connect().await;
        assert_eq!(rest(&mut silent).await, "");
        let mut idle = served.connect().await;
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        assert!(rest(&mut idle).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_cut_off() {
        let served = serve_with(Bounds {
            connections: 1,
            life: Duration::from_millis(100),
            ..PATIENT
        })
        .await;
        let mut greedy = served.connect().await;
        let request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500);
        // It may be cut off while it still writes.
        let _ = greedy.write_all(request.as_bytes()).await;
        // The only place is free again, so the next one is served.
        assert_eq!(served.get("/healthz").await.0, 200);
    }

    #[tokio::test]
    async fn connections_past_the_limit_wait_for_a_place() {
        let served = serve_with(Bounds {
            connections: 2,
            ..PATIENT
        })
        .await;
        let first = served.connect().await;
        let mut second = served.connect().await;
        let ask = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        second.write_all(ask).await.unwrap();
        let mut byte = [0];
        second.read_exact(&mut byte).await.unwrap();
        let waiting = served.get("/healthz");
        tokio::pin!(waiting);
        // Both places are taken until a connection ends.
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("a third place"),
            () = tokio::task::yield_now() => {}
        }
        drop(first);
        assert_eq!(waiting.await.0, 200);
    }

    #[tokio::test]
    async fn the_end_closes_idle_connections_and_the_listener() {
        let served = serve_with(PATIENT).await;
        let mut kept = served.connect().await;
        kept.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut byte = [0];
        kept.read_exact(&mut byte).await.unwrap();
        served.shutdown.cancel();
        served.serving.await.unwrap();
        rest(&mut kept).await;
        assert!(TcpStream::connect(served.address).await.is_err());
    }

    #[tokio::test]
    async fn what_is_no_http_does_no_harm() {
        let served = serve_with(PATIENT).await;
        for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET /x HTTP/9.9\r\n\r\n"] {
            let mut stream = served.connect().await;
            stream.write_all(garbage.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            rest(&mut stream).await;
        }
        let long = format!("X: {}\r\n", "x".repeat(64 << 10));
        let mut stream = served.connect().await;
        let _ = stream
            .write_all(format!("GET / HTTP/1.1\r\n{long}\r\n").as_bytes())
            .await;
        let mut taken = Vec::new();
        // The connection may be reset, since not everything was read.
        let _ = stream.read_to_end(&mut taken).await;
        assert!(!taken.starts_with(b"HTTP/1.1 200"));
        assert_eq!(served.get("/healthz").await.0, 200);
    }

    #[test]
    fn a_port_alone_is_on_loopback() {
        for text in ["9464", ":9464", "127.0.0.1:9464", "localhost:9464"] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), "127.0.0.1:9464", "{text}");
        }
        let everywhere: ListenAddress = "[::]:9464".parse().unwrap();
        assert!(everywhere.0.ip().is_unspecified());
        for text in ["", "nine", "70000", "127.0.0.1", "host:x"] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.to_string().contains("on loopback"), "{text}");
        }
    }
}
