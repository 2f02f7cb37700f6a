//! Kept-alive HTTP/1.1 connections to one node.
//!
//! A pool of our own rather than the library's, because three things must be certain: a second
//! attempt goes over a connection that is new, a request that may have been written is not written
//! twice unless its caller says so, and an answer that is dropped closes its connection at once.
//! ARCHITECTURE.md says which of them hyper-util's pools do not keep.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Connection, Outgoing};
use crate::upstream::UpstreamError;
use crate::upstream::body::Pieces;
use crate::upstream::dial::{Dialer, Stream};

/// Kept-alive connections to one node that wait for requests, and what is needed to open new ones. Clones share
/// them.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dialer: Dialer,
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
pub(super) struct Failed {
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
    pool: Pool,
}

impl Failed {
    const fn last(error: UpstreamError) -> Self {
        Self {
            error,
            delivery: Delivery::Final,
        }
    }
}

impl Pool {
    /// An empty pool.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(dialer: Dialer, options: PoolOptions) -> Result<Self, UpstreamError> {
        let node = dialer.endpoint();
        let host = HeaderValue::try_from(node.authority());
        let host =
            host.map_err(|error| UpstreamError::Setup(node.to_string(), error.to_string()))?;
        Ok(Self(Arc::new(Inner {
            dialer,
            host,
            options,
            idle: Mutex::default(),
        })))
    }

    /// Sends a request, and waits for the head of the answer.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
        over: Connection,
    ) -> Result<Response<PooledBody>, Failed> {
        let kept = match over {
            Connection::Kept => self.take().await,
            Connection::New => None,
        };
        if let Some(connection) = kept {
            return self.send_over(connection, request).await;
        }
        let stream = self.0.dialer.connect().await.map_err(Failed::last)?;
        let connection = self.open(stream).await.map_err(Failed::last)?;
        let sent = self.send_over(connection, request).await;
        sent.map_err(|failed| Failed::last(failed.error))
    }

    async fn send_over(
        &self,
        mut connection: PooledConnection,
        request: &Outgoing,
    ) -> Result<Response<PooledBody>, Failed> {
        let mut message = Request::new(Full::new(request.body.clone()));
        *message.method_mut() = request.method.clone();
        *message.uri_mut() = request.uri.clone();
        *message.headers_mut() = request.headers.clone();
        let host = message.headers_mut().entry(HOST);
        host.or_insert_with(|| self.0.host.clone());
        match connection.sender.try_send_request(message).await {
            Ok(answer) => Ok(answer.map(|incoming| PooledBody::new(incoming, connection, self))),
            Err(failed) => Err(self.classify(failed)),
        }
    }

    /// What a failed attempt means, on a connection that had been used before.
    fn classify(&self, mut failed: TrySendError<Request<Full<Bytes>>>) -> Failed {
        // The library hands the request back only if it has not begun to write it.
        let is_unwritten = failed.take_message().is_some();
        let error = failed.into_error();
        let is_dead = error.is_incomplete_message() || error.is_closed() || is_io(&error);
        let delivery = match (is_unwritten, is_dead) {
            (true, _) => Delivery::Unwritten,
            (false, true) => Delivery::Unanswered,
            (false, false) => Delivery::Final,
        };
        let error = if is_unwritten {
            self.unsent(&error)
        } else {
            self.fault(&error)
        };
        Failed { error, delivery }
    }

    /// Nothing was sent.
    fn unsent(&self, error: &hyper::Error) -> UpstreamError {
        UpstreamError::Connect(self.0.dialer.endpoint().to_string(), innermost(error))
    }

    fn fault(&self, error: &hyper::Error) -> UpstreamError {
        if error.is_parse() {
            self.0.dialer.garbage(&innermost(error))
        } else {
            self.0.dialer.broken(&innermost(error))
        }
    }

    /// A kept connection that is still good, as far as one can tell.
    async fn take(&self) -> Option<PooledConnection> {
        loop {
            let (mut connection, since) = self.0.idle.lock().pop()?;
            if since.elapsed() < IDLE_LIMIT && connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn open(&self, stream: Stream) -> Result<PooledConnection, UpstreamError> {
        let options = &self.0.options;
        let (sender, connection) = Builder::new()
            .max_buf_size(options.window_bytes.max(SMALLEST_BUFFER))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unsent(&error))?;
        let closing = options.shutdown.child_token();
        let close = closing.clone().drop_guard();
        options.tracker.spawn(async move {
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
        let mut idle = self.0.idle.lock();
        idle.retain(|(connection, _)| !connection.sender.is_closed());
        if idle.len() < MAX_IDLE && !connection.sender.is_closed() {
            idle.push((connection, Instant::now()));
        }
    }
}

impl PooledBody {
    /// The connection of an answer without a body serves the next request at once: nobody reads such a
    /// body to its end.
    fn new(incoming: Incoming, connection: PooledConnection, pool: &Pool) -> Self {
        let mut body = Self {
            incoming,
            connection: Some(connection),
            pool: pool.clone(),
        };
        if body.incoming.is_end_stream() {
            body.release();
        }
        body
    }

    /// The length of the body as it is framed on the connection, where that is known.
    pub(in crate::upstream) fn framed_length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    /// The connection may serve the next request.
    fn release(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.give_back(connection);
        }
    }
}

impl Pieces for PooledBody {
    type Error = UpstreamError;

    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamError>>> {
        loop {
            let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
            if let Some(Err(error)) = frame {
                self.connection = None;
                return Poll::Ready(Some(Err(self.pool.fault(&error))));
            }
            if frame.is_none() || self.incoming.is_end_stream() {
                self.release();
            }
            let Some(frame) = frame.and_then(Result::ok) else {
                return Poll::Ready(None);
            };
            // Trailers are left out.
            if let Some(bytes) = frame.into_data().ok().filter(|bytes| !bytes.is_empty()) {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::super::Repeat;
    use super::super::testing::{dialer_to, request};
    use super::*;

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    /// A pool, and the node's end of its connections.
    async fn pool() -> (Pool, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = PoolOptions {
            window_bytes: 1 << 16,
            tracker: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        };
        (Pool::new(dialer_to(&url), options).unwrap(), listener)
    }

    async fn accept(listener: &TcpListener) -> TcpStream {
        listener.accept().await.unwrap().0
    }

    fn ask(pool: &Pool, over: Connection) -> JoinHandle<Result<Response<PooledBody>, Failed>> {
        let pool = pool.clone();
        tokio::spawn(async move { pool.send(&request(Repeat::Always), over).await })
    }

    /// The body of an answer, read to its end.
    async fn body(asked: JoinHandle<Result<Response<PooledBody>, Failed>>) -> Vec<u8> {
        let mut answer = asked.await.unwrap().unwrap().into_body();
        let mut body = Vec::new();
        while let Some(piece) = answer.next().await {
            body.extend_from_slice(&piece.unwrap());
        }
        body
    }

    /// Reads one request at the node's end.
    async fn read_request(stream: &mut TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
    }

    /// Answers one request at the node's end.
    async fn serve(stream: &mut TcpStream) {
        read_request(stream).await;
        stream.write_all(ANSWER.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_kept_connection_is_used_again_unless_a_new_one_is_wanted() {
        let (pool, listener) = pool().await;
        let first = ask(&pool, Connection::Kept);
        let mut stream = accept(&listener).await;
        serve(&mut stream).await;
        assert_eq!(body(first).await, b"{}");
        let second = ask(&pool, Connection::Kept);
        serve(&mut stream).await;
        assert_eq!(body(second).await, b"{}");
        let third = ask(&pool, Connection::New);
        serve(&mut accept(&listener).await).await;
        third.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_request_on_a_dead_connection_tells_how_far_it_came() {
        let (pool, listener) = pool().await;
        let first = ask(&pool, Connection::Kept);
        let mut stream = accept(&listener).await;
        serve(&mut stream).await;
        body(first).await;
        let second = ask(&pool, Connection::Kept);
        read_request(&mut stream).await;
        drop(stream);
        let failed = second.await.unwrap().map(|_| ()).unwrap_err();
        assert_eq!(failed.delivery, Delivery::Unanswered);
        // On a new connection the same is final.
        let third = ask(&pool, Connection::Kept);
        drop(accept(&listener).await);
        let failed = third.await.unwrap().map(|_| ()).unwrap_err();
        assert_eq!(failed.delivery, Delivery::Final);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_closes_its_connection() {
        let (pool, listener) = pool().await;
        let asked = ask(&pool, Connection::Kept);
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await;
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(half.as_bytes()).await.unwrap();
        drop(asked.await.unwrap().unwrap());
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        // So does a request that is given up before its answer begins.
        let asked = ask(&pool, Connection::Kept);
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await;
        asked.abort();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
