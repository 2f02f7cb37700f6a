//! Kept-alive HTTP/1.1 connections to one node.
//!
//! A pool of our own rather than the library's, because three things must be certain: a second
//! attempt goes over a connection that is new, a request that may have been written is not written
//! twice unless its caller says so, and an answer that is dropped closes its connection at once.
//! ARCHITECTURE.md says which of them hyper-util's pools do not keep.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rpc::Endpoint;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _};

use super::request::{Answering, Connection, Outgoing};
use crate::upstream::UpstreamError;

/// Connections to one node, and those of them that wait for work. `C` opens new ones. Clones share
/// the connections.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Pool<C> {
    connector: C,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: String,
    host: HeaderValue,
    options: PoolOptions,
    idle: Mutex<Vec<(PooledConnection, Instant)>>,
}

/// Limits of a [`Pool`], and who owns its tasks.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct PoolOptions {
    /// Bytes of an answer that are read ahead at most.
    pub(in crate::upstream) window_bytes: usize,
    /// Owns the connections' tasks.
    pub(in crate::upstream) tracker: TaskTracker,
    /// Ends them.
    pub(in crate::upstream) shutdown: CancellationToken,
}

/// A connection in use or kept for later; closed when dropped.
#[derive(Debug)]
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    _close: DropGuard,
}

/// Why a request has no answer, and how far it came.
#[derive(Debug)]
pub(in crate::upstream) struct Failed {
    pub(super) error: UpstreamError,
    pub(super) delivery: Delivery,
}

/// How far a request without an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nothing of it was written: the kept connection was dead.
    Unwritten,
    /// The kept connection broke before an answer came.
    Unanswered,
    /// Sending it once more would not help.
    Final,
}

/// The body of an answer. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(in crate::upstream) struct PooledBody {
    incoming: Incoming,
    connection: Option<PooledConnection>,
    pool: Arc<Shared>,
}

impl<C> Pool<C> {
    /// An empty pool.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        connector: C,
        node: &Endpoint,
        options: PoolOptions,
    ) -> Result<Self, UpstreamError> {
        let host = HeaderValue::try_from(node.authority());
        let host = host.map_err(|error| UpstreamError::Setup {
            endpoint: node.to_string(),
            reason: error.to_string(),
        })?;
        let shared = Shared {
            node: node.to_string(),
            host,
            options,
            idle: Mutex::default(),
        };
        Ok(Self {
            connector,
            shared: Arc::new(shared),
        })
    }
}

impl<C, IO> Service<Outgoing> for Pool<C>
where
    C: Service<(), Response = IO, Error = UpstreamError> + Clone + Send + 'static,
    C::Future: Send,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Response = Response<PooledBody>;
    type Error = Failed;
    type Future = Answering<PooledBody, Failed>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    /// Asks, and waits for the head of the answer. Dropping the future closes the connection; the
    /// node may have seen the request.
    fn call(&mut self, request: Outgoing) -> Self::Future {
        let Self { connector, shared } = self.clone();
        Box::pin(async move {
            let kept = match request.connection {
                Connection::Kept => shared.take_idle().await,
                Connection::New => None,
            };
            if let Some(connection) = kept {
                return shared.send(connection, request).await;
            }
            let opened = async {
                let stream = connector.oneshot(()).await?;
                shared.open(stream).await
            };
            let connection = opened.await.map_err(Failed::last)?;
            let sent = shared.send(connection, request).await;
            sent.map_err(|failed| Failed::last(failed.error))
        })
    }
}

impl Failed {
    const fn last(error: UpstreamError) -> Self {
        Self {
            error,
            delivery: Delivery::Final,
        }
    }
}

impl Shared {
    async fn send(
        self: Arc<Self>,
        mut connection: PooledConnection,
        request: Outgoing,
    ) -> Result<Response<PooledBody>, Failed> {
        let mut message = Request::new(Full::new(request.body));
        *message.method_mut() = request.method;
        *message.uri_mut() = request.uri;
        *message.headers_mut() = request.headers;
        let host = message.headers_mut().entry(HOST);
        host.or_insert_with(|| self.host.clone());
        match connection.sender.try_send_request(message).await {
            Ok(answer) => Ok(answer.map(|incoming| PooledBody {
                incoming,
                connection: Some(connection),
                pool: self,
            })),
            Err(failed) => Err(self.judge(failed)),
        }
    }

    /// What a failed attempt means, on a connection that had been used before.
    fn judge(&self, mut failed: TrySendError<Request<Full<Bytes>>>) -> Failed {
        // The library hands the request back only if it has not begun to write it.
        let is_unwritten = failed.take_message().is_some();
        let error = failed.into_error();
        let is_dead = error.is_incomplete_message() || error.is_closed() || is_io(&error);
        let delivery = match (is_unwritten, is_dead) {
            (true, _) => Delivery::Unwritten,
            (false, true) => Delivery::Unanswered,
            (false, false) => Delivery::Final,
        };
        Failed {
            delivery,
            error: self.fault(&error, is_unwritten),
        }
    }

    fn fault(&self, error: &hyper::Error, is_unwritten: bool) -> UpstreamError {
        let (endpoint, reason) = (self.node.clone(), innermost(error));
        if is_unwritten {
            UpstreamError::Connect { endpoint, reason }
        } else if error.is_parse() {
            UpstreamError::Garbage { endpoint, reason }
        } else {
            UpstreamError::Broken { endpoint, reason }
        }
    }

    /// A kept connection that is still good, as far as one can tell.
    async fn take_idle(&self) -> Option<PooledConnection> {
        loop {
            let (mut connection, since) = self.idle().pop()?;
            if since.elapsed() < IDLE_LIMIT && connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn open<IO>(&self, stream: IO) -> Result<PooledConnection, UpstreamError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = Builder::new()
            .max_buf_size(self.options.window_bytes.max(SMALLEST_BUFFER))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.fault(&error, true))?;
        let closing = self.options.shutdown.child_token();
        let close = closing.clone().drop_guard();
        self.options.tracker.spawn(async move {
            tokio::select! {
                // Its error reaches whoever waits for the answer.
                _ = connection => {}
                () = closing.cancelled() => {}
            }
        });
        Ok(PooledConnection {
            sender,
            _close: close,
        })
    }

    fn give_back(&self, connection: PooledConnection) {
        let mut idle = self.idle();
        idle.retain(|(connection, _)| !connection.sender.is_closed());
        if idle.len() < MAX_IDLE && !connection.sender.is_closed() {
            idle.push((connection, Instant::now()));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(PooledConnection, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body for PooledBody {
    type Data = Bytes;
    type Error = UpstreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamError>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        if let Some(Err(error)) = frame {
            self.connection = None;
            return Poll::Ready(Some(Err(self.pool.fault(&error, false))));
        }
        if frame.is_none() || self.incoming.is_end_stream() {
            // The connection may serve the next request.
            if let Some(connection) = self.connection.take() {
                self.pool.give_back(connection);
            }
        }
        Poll::Ready(frame.and_then(Result::ok).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        // Only once the end was seen: the connection is given back there.
        self.connection.is_none() && self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

fn is_io(error: &hyper::Error) -> bool {
    use std::error::Error;
    error
        .source()
        .is_some_and(|source| source.is::<std::io::Error>())
}

fn innermost(error: &hyper::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// A CometBFT node closes connections that were idle for 10 s; leaving them alone a little earlier
/// saves most second attempts.
const IDLE_LIMIT: Duration = Duration::from_secs(8);
/// Connections kept for later. More would take places among the 900 that a node has by default.
const MAX_IDLE: usize = 32;
/// The least the library takes as a buffer.
const SMALLEST_BUFFER: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use std::future::ready;

    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::mpsc;
    use tower::service_fn;

    use super::super::request::Repeat;
    use super::super::testing::{node, request};
    use super::*;

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    /// Opens connections in memory.
    trait Connect:
        Service<(), Response = DuplexStream, Error = UpstreamError, Future: Send>
        + Clone
        + Send
        + 'static
    {
    }

    impl<C> Connect for C where
        C: Service<(), Response = DuplexStream, Error = UpstreamError, Future: Send>
            + Clone
            + Send
            + 'static
    {
    }

    /// A pool whose connections come out at the node's end.
    fn pool() -> (Pool<impl Connect>, mpsc::UnboundedReceiver<DuplexStream>) {
        let (accepted, connections) = mpsc::unbounded_channel();
        let connector = service_fn(move |()| {
            let (ours, theirs) = duplex(1 << 16);
            accepted.send(theirs).unwrap();
            ready(Ok(ours))
        });
        let options = PoolOptions {
            window_bytes: 1 << 16,
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        };
        (Pool::new(connector, &node(), options).unwrap(), connections)
    }

    /// Reads one request at the node's end.
    async fn read_request(stream: &mut DuplexStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    }

    /// Answers one request at the node's end.
    async fn serve(stream: &mut DuplexStream) {
        read_request(stream).await;
        stream.write_all(ANSWER.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_kept_connection_is_used_again_unless_a_new_one_is_wanted() {
        let (pool, mut accepted) = pool();
        let first = tokio::spawn(pool.clone().oneshot(request(Repeat::Always)));
        let mut stream = accepted.recv().await.unwrap();
        serve(&mut stream).await;
        let body = first.await.unwrap().unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        let second = tokio::spawn(pool.clone().oneshot(request(Repeat::Always)));
        serve(&mut stream).await;
        second
            .await
            .unwrap()
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap();
        let mut fresh = request(Repeat::Always);
        fresh.connection = Connection::New;
        let third = tokio::spawn(pool.oneshot(fresh));
        serve(&mut accepted.recv().await.unwrap()).await;
        third.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_on_a_dead_connection_tells_how_far_it_came() {
        let (pool, mut accepted) = pool();
        let first = tokio::spawn(pool.clone().oneshot(request(Repeat::Always)));
        let mut stream = accepted.recv().await.unwrap();
        serve(&mut stream).await;
        first
            .await
            .unwrap()
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap();
        let second = tokio::spawn(pool.clone().oneshot(request(Repeat::Always)));
        read_request(&mut stream).await;
        drop(stream);
        let failed = second.await.unwrap().map(|_| ()).unwrap_err();
        assert_eq!(failed.delivery, Delivery::Unanswered);
        // On a new connection the same is final.
        let third = tokio::spawn(pool.oneshot(request(Repeat::Always)));
        drop(accepted.recv().await.unwrap());
        let failed = third.await.unwrap().map(|_| ()).unwrap_err();
        assert_eq!(failed.delivery, Delivery::Final);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_closes_its_connection() {
        let (pool, mut accepted) = pool();
        let asked = tokio::spawn(pool.clone().oneshot(request(Repeat::Always)));
        let mut stream = accepted.recv().await.unwrap();
        read_request(&mut stream).await;
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(half.as_bytes()).await.unwrap();
        drop(asked.await.unwrap().unwrap());
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        // So does a request that is given up before its answer begins.
        let asked = tokio::spawn(pool.oneshot(request(Repeat::Always)));
        let mut stream = accepted.recv().await.unwrap();
        read_request(&mut stream).await;
        asked.abort();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
