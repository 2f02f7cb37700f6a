//! Kept-alive HTTP/1.1 connections to one node.
//!
//! A node, or a gateway before it, may serve fewer connections than are opened: the others are connected, and nothing reads
//! them. So a request goes over a connection that has answered before. While none is idle others are opened, each of which
//! is asked for the node's health first, and the request takes whichever is ready sooner. Only the first connection of all
//! serves its request at once.
//!
//! A pool of our own rather than the library's, because three things must be certain: a second
//! attempt goes over a connection that is new, a request that may have been written is not written
//! twice unless its caller allows it, and an answer that is dropped closes its connection at once.
//! ARCHITECTURE.md names those that hyper-util's pools do not keep.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Outgoing, Repeat, uri};
use crate::upstream::UpstreamError;
use crate::upstream::body::Pieces;
use crate::upstream::dial::Dialer;

/// Kept-alive connections to one node, and what is needed to open new ones. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dialer: Dialer,
    host: HeaderValue,
    options: PoolOptions,
    health: Outgoing,
    state: Mutex<State>,
}

/// Connections, and requests that wait for one.
#[derive(Debug, Default)]
struct State {
    idle: Vec<(PooledConnection, Instant)>,
    /// Oldest first.
    waiting: VecDeque<oneshot::Sender<Turn>>,
    /// Connections that are in use or idle.
    open: usize,
    /// Connections that have not answered yet.
    opening: usize,
    /// The last one that was opened has not answered in time.
    is_full: bool,
    /// Connections to close once they are idle, so that others may have their places.
    surplus: usize,
    /// Until then others take the places that become free.
    held_until: Option<Instant>,
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
    _open: Open,
}

/// Counts a connection of this pool while it is open.
#[derive(Debug)]
struct Open(Weak<Inner>);

/// What a request goes over.
enum Next {
    Idle(PooledConnection),
    /// The next one that is idle or has been opened.
    Turn(oneshot::Receiver<Turn>),
    /// There is none yet.
    First,
}

/// A connection; or none where the node has just closed one after its answer, so that there is a place for another.
type Turn = Result<Option<PooledConnection>, UpstreamError>;

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
    /// An empty pool. What stands before every path at the node is `base`.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the node's address is no `Host`.
    pub(super) fn new(
        dialer: Dialer,
        base: &str,
        options: PoolOptions,
    ) -> Result<Self, UpstreamError> {
        let host = HeaderValue::try_from(dialer.endpoint().authority());
        let host = host.map_err(|error| dialer.setup(&error))?;
        let health = Outgoing {
            method: Method::GET,
            uri: uri(base, &Bytes::from_static(b"/health"))?,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat: Repeat::IfUnwritten,
        };
        Ok(Self(Arc::new(Inner {
            dialer,
            host,
            options,
            health,
            state: Mutex::default(),
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
        if let Some(connection) = self.take().await? {
            match self.send_over(connection, request).await {
                Err(failed) if may_repeat(&failed, request.repeat) => {}
                sent => return sent.map_err(|failed| self.unanswered(&failed)),
            }
        }
        let sent = self.send_over(self.open().await?, request).await;
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

    /// A connection that has answered and is still good, as far as one can tell; none where the request opens its own.
    async fn take(&self) -> Turn {
        let taken = match self.next() {
            Next::Idle(connection) => Some(connection),
            Next::Turn(turn) => {
                self.open_for_waiting();
                // Its sender ends with the pool only.
                let late = |_| Err(self.0.dialer.timeout());
                turn.await.unwrap_or_else(late)?
            }
            Next::First => None,
        };
        let Some(mut connection) = taken else {
            return Ok(None);
        };
        let is_good = connection.sender.ready().await.is_ok();
        Ok(is_good.then_some(connection))
    }

    fn next(&self) -> Next {
        let mut old = Vec::new();
        let mut state = self.0.state.lock();
        while let Some((connection, since)) = state.idle.pop() {
            if since.elapsed() < self.0.options.idle_limit {
                return Next::Idle(connection);
            }
            old.push(connection);
        }
        if state.open + state.opening == old.len() {
            return Next::First;
        }
        let (give, turn) = oneshot::channel();
        state.waiting.push_back(give);
        Next::Turn(turn)
    }

    /// Closes half of the connections, as soon as they are idle: the node is full, and others need their places.
    pub(super) fn give_way(&self) {
        let mut closed = Vec::new();
        let mut state = self.0.state.lock();
        state.is_full = true;
        state.held_until = Some(Instant::now() + PAUSE);
        let answering = state.open.saturating_sub(state.opening);
        let kept = state.idle.len().saturating_sub(answering.div_ceil(2));
        closed.extend(state.idle.drain(kept..));
        state.surplus = answering.div_ceil(2) - closed.len();
    }

    /// Opens connections for requests that wait: at a time as many as there are, as in slow start (RFC 5681); one while the
    /// node is full.
    fn open_for_waiting(&self) {
        // A pool may outlive the program's last task.
        if Handle::try_current().is_err() {
            return;
        }
        let mut state = self.0.state.lock();
        state.waiting.retain(|waiting| !waiting.is_closed());
        // After a restart the node may take more.
        if state.open == 0 {
            (state.is_full, state.held_until) = (false, None);
        }
        let answering = state.open.saturating_sub(state.opening);
        let most = match state.is_full {
            _ if state.is_held() => 0,
            true => 1,
            false => answering.max(FIRST_OPENINGS),
        };
        let wanted = state.waiting.len().min(most).saturating_sub(state.opening);
        state.opening += wanted;
        drop(state);
        for _ in 0..wanted {
            let pool = self.clone();
            self.0.options.tracker.spawn(async move {
                tokio::select! {
                    () = pool.add() => pool.open_for_waiting(),
                    () = pool.0.options.shutdown.cancelled() => {}
                }
            });
        }
    }

    /// Opens a connection that serves whichever request waits longest, once it has answered.
    async fn add(&self) {
        while !self.is_settled(timeout(ANSWER_LIMIT, self.prove()).await) {
            sleep(PAUSE).await;
        }
    }

    /// Whether nothing more is to be tried after a connection was added, or not.
    fn is_settled(&self, added: Result<Result<(), UpstreamError>, Elapsed>) -> bool {
        let mut state = self.0.state.lock();
        let late = added.is_err() && state.open > 0;
        let is_other_trying = state.is_full && state.opening > 1;
        if late && !state.waiting.is_empty() && !is_other_trying {
            state.is_full = true;
            return false;
        }
        state.opening -= 1;
        state.is_full = late;
        // A request waits for each; where others answer it waits for them.
        let failed = match added {
            Ok(added) => added.err(),
            Err(_) => (!late).then(|| self.0.dialer.timeout()),
        };
        if let Some(failed) = failed
            && let Some(waiting) = state.waiting.pop_front()
        {
            let _ = waiting.send(Err(failed));
        }
        true
    }

    /// Opens a connection, asks for the node's health over it, and keeps it. Any answer will do.
    async fn prove(&self) -> Result<(), UpstreamError> {
        let answer = self.send_over(self.open().await?, &self.0.health).await;
        if self.0.state.lock().is_held() {
            return Ok(());
        }
        let mut body = answer
            .map_err(|failed| self.unanswered(&failed))?
            .into_body();
        while let Some(piece) = body.next().await {
            piece?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<PooledConnection, UpstreamError> {
        self.0.state.lock().open += 1;
        let open = Open(Arc::downgrade(&self.0));
        let stream = self.0.dialer.connect().await?;
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
            _open: open,
        })
    }

    /// Hands a connection to the request that waits longest. Else keeps it: as many as were in use at once within the limit of
    /// idleness, of which the one used last is taken first.
    fn give_back(&self, connection: PooledConnection) {
        let now = Instant::now();
        let limit = self.0.options.idle_limit;
        // What is dropped takes the lock.
        let mut old = Vec::new();
        let mut state = self.0.state.lock();
        let is_old = |(_, since): &mut (_, Instant)| now.duration_since(*since) >= limit;
        old.extend(state.idle.extract_if(.., is_old));
        if state.surplus > 0 {
            state.surplus -= 1;
            old.push((connection, now));
            return;
        }
        let mut given = Some(connection);
        if given.as_ref().is_some_and(|it| it.sender.is_closed()) {
            old.extend(given.take().map(|connection| (connection, now)));
        }
        while let Some(waiting) = state.waiting.pop_front() {
            match waiting.send(Ok(given)) {
                Ok(()) => return,
                Err(back) => given = back.ok().flatten(),
            }
        }
        state.idle.extend(given.map(|connection| (connection, now)));
    }
}

impl State {
    fn is_held(&self) -> bool {
        self.held_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.state.lock().open -= 1;
            Pool(inner).open_for_waiting();
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
/// Connections that are opened at a time while there are fewer.
const FIRST_OPENINGS: usize = 4;
/// How long a new connection may take for the node's health.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long nothing is opened at a node that is full: others may need the places that become free, and have one attempt to
/// connect, with the pause before it, in that time.
const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
