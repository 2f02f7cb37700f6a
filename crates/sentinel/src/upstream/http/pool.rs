//! Kept-alive HTTP/1.1 connections to one node.
//!
//! A pool of our own rather than the library's, because three things must be certain: a second
//! attempt goes over a connection that is new, a request that may have been written is not written
//! twice unless its caller allows it, and an answer that is dropped closes its connection at once.
//! ARCHITECTURE.md names those that hyper-util's pools do not keep.

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

use super::{Outgoing, Repeat};
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

/// Limits of a [`Pool`], and the owner of its tasks.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct PoolOptions {
    /// Bytes of an answer that are read ahead at most.
    pub(in crate::upstream) window_bytes: usize,
    /// For how long a connection is kept idle at most.
    pub(in crate::upstream) idle_limit: Duration,
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

/// Why a request has no answer. The library hands it back only if it has not begun to write it.
type Failed = Box<TrySendError<Request<Full<Bytes>>>>;

/// The body of an answer. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(in crate::upstream) struct PooledBody {
    incoming: Incoming,
    connection: Option<PooledConnection>,
    pool: Pool,
}

impl Pool {
    /// An empty pool.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(dialer: Dialer, options: PoolOptions) -> Result<Self, UpstreamError> {
        let host = HeaderValue::try_from(dialer.endpoint().authority());
        let host = host.map_err(|error| dialer.setup(&error))?;
        Ok(Self(Arc::new(Inner {
            dialer,
            host,
            options,
            idle: Mutex::default(),
        })))
    }

    /// Sends a request, and waits for the head of the answer. If the kept connection that it went over turns out to
    /// be dead, as happens when the node closes it for being idle, it is sent once more over a new one.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
    ) -> Result<Response<PooledBody>, UpstreamError> {
        if let Some(connection) = self.take().await {
            match self.send_over(connection, request).await {
                Err(failed) if may_repeat(&failed, request.repeat) => {}
                sent => return sent.map_err(|failed| self.unanswered(&failed)),
            }
        }
        let stream = self.0.dialer.connect().await?;
        let sent = self.send_over(self.open(stream).await?, request).await;
        sent.map_err(|failed| self.unanswered(&failed))
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
        let answer = connection.sender.try_send_request(message).await?;
        Ok(answer.map(|incoming| PooledBody::new(incoming, connection, self)))
    }

    fn unanswered(&self, failed: &Failed) -> UpstreamError {
        match failed.message() {
            Some(_) => self.unsent(failed.error()),
            None => self.fault(failed.error()),
        }
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
        let limit = self.0.options.idle_limit;
        loop {
            let (mut connection, since) = self.0.idle.lock().pop()?;
            if since.elapsed() < limit && connection.sender.ready().await.is_ok() {
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
                // Its error reaches the caller that waits for the answer.
                _ = connection => {}
                () = closing.cancelled() => {}
            }
        });
        Ok(PooledConnection {
            sender,
            _close: close,
        })
    }

    /// Keeps as many as were in use at once within the limit of idleness: the one used last is taken first, and another is
    /// opened only while none is idle.
    fn give_back(&self, connection: PooledConnection) {
        let (now, mut idle) = (Instant::now(), self.0.idle.lock());
        idle.retain(|(_, since)| now.duration_since(*since) < self.0.options.idle_limit);
        if !connection.sender.is_closed() {
            idle.push((connection, now));
        }
    }
}

impl PooledBody {
    /// The connection of an answer without a body serves the next request at once: no caller reads such a
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

/// Whether what failed so over a kept connection is sent once more.
fn may_repeat(failed: &Failed, repeat: Repeat) -> bool {
    let error = failed.error();
    let is_dead = error.is_incomplete_message() || error.is_closed() || is_io(error);
    failed.message().is_some() || is_dead && repeat == Repeat::Always
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

/// The least the library takes as a buffer.
const SMALLEST_BUFFER: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    use super::super::testing::{dialer_to, options, request};
    use super::*;

    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    /// A pool, and the node's end of its connections.
    async fn pool() -> (Pool, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialer = dialer_to(&format!("http://{}", listener.local_addr().unwrap()));
        (Pool::new(dialer, options()).unwrap(), listener)
    }

    async fn accept(listener: &TcpListener) -> TcpStream {
        listener.accept().await.unwrap().0
    }

    type Asked = JoinHandle<Result<Response<PooledBody>, UpstreamError>>;

    fn ask(pool: &Pool, repeat: Repeat) -> Asked {
        let pool = pool.clone();
        tokio::spawn(async move { pool.send(&request(repeat)).await })
    }

    /// The body of an answer, read to its end.
    async fn body(asked: Asked) -> Vec<u8> {
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

    /// A pool with one kept connection.
    async fn kept() -> (Pool, TcpListener, TcpStream) {
        let (pool, listener) = pool().await;
        let first = ask(&pool, Repeat::Always);
        let mut stream = accept(&listener).await;
        serve(&mut stream).await;
        assert_eq!(body(first).await, b"{}");
        (pool, listener, stream)
    }

    #[tokio::test]
    async fn a_kept_connection_is_used_again() {
        let (pool, _listener, mut stream) = kept().await;
        let second = ask(&pool, Repeat::Always);
        serve(&mut stream).await;
        assert_eq!(body(second).await, b"{}");
    }

    /// Of those in use at once 32 were kept, so that 512 WebSockets that asked once a second closed 96 connections at the
    /// node each time.
    #[tokio::test]
    async fn as_many_connections_are_kept_as_were_in_use_at_once() {
        let (pool, listener) = pool().await;
        let ask_all = || [0; 100].map(|_| ask(&pool, Repeat::Always));
        let asked = ask_all();
        let mut streams = Vec::new();
        for _ in &asked {
            streams.push(accept(&listener).await);
        }
        for stream in &mut streams {
            serve(stream).await;
        }
        for asked in asked {
            body(asked).await;
        }
        for _ in 0..2 {
            let asking = ask_all();
            let again = async {
                for stream in &mut streams {
                    serve(stream).await;
                }
                for asked in asking {
                    body(asked).await;
                }
            };
            tokio::select! {
                _ = accept(&listener) => panic!("another connection was opened"),
                () = again => {}
            }
        }
    }

    #[tokio::test]
    async fn the_second_attempt_goes_over_a_new_connection_and_is_the_last() {
        for is_answered in [true, false] {
            let (pool, listener, mut stream) = kept().await;
            let second = ask(&pool, Repeat::Always);
            read_request(&mut stream).await;
            drop(stream);
            let mut stream = accept(&listener).await;
            if is_answered {
                serve(&mut stream).await;
                assert_eq!(body(second).await, b"{}");
            } else {
                read_request(&mut stream).await;
                drop(stream);
                let failed = second.await.unwrap().map(|_| ()).unwrap_err();
                assert!(matches!(failed, UpstreamError::Broken(..)), "{failed:?}");
            }
        }
    }

    #[tokio::test]
    async fn what_may_have_been_written_is_not_written_twice_unless_its_caller_says_so() {
        let (pool, _listener, mut stream) = kept().await;
        let second = ask(&pool, Repeat::IfUnwritten);
        read_request(&mut stream).await;
        drop(stream);
        let failed = second.await.unwrap().map(|_| ()).unwrap_err();
        assert!(matches!(failed, UpstreamError::Broken(..)), "{failed:?}");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_takes_closes_its_connection() {
        let (pool, listener) = pool().await;
        let asked = ask(&pool, Repeat::Always);
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await;
        let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(half.as_bytes()).await.unwrap();
        drop(asked.await.unwrap().unwrap());
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
        // So does a request that is given up before its answer begins.
        let asked = ask(&pool, Repeat::Always);
        let mut stream = accept(&listener).await;
        read_request(&mut stream).await;
        asked.abort();
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
