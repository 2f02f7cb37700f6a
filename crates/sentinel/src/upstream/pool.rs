//! Kept-alive HTTP/1.1 connections to one node.
//!
//! A pool of our own rather than the library's, because three things must be certain: a second
//! attempt goes over a connection that is new, a request that may have been written is not written
//! twice unless its caller says so, and an answer that nobody takes closes its connection at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::UpstreamError;
use super::dial::Dialer;

/// Connections to one node, and those of them that wait for work.
#[derive(Debug)]
pub(super) struct Pool {
    dialer: Dialer,
    host: HeaderValue,
    options: PoolOptions,
    idle: Mutex<Vec<(Lease, Instant)>>,
}

/// Limits of a [`Pool`], and who owns its tasks.
#[derive(Clone, Debug)]
pub(super) struct PoolOptions {
    /// How long the head of an answer may take, and each further piece of it.
    pub(super) read_timeout: Duration,
    /// Bytes of an answer that are read ahead at most.
    pub(super) window_bytes: usize,
    /// Owns the connections' tasks.
    pub(super) tracker: TaskTracker,
    /// Ends them.
    pub(super) shutdown: CancellationToken,
}

/// One request, which can be made again.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) attempts: Attempts,
}

/// What happens when a kept-alive connection turns out to be dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempts {
    /// The request changes nothing: it is sent once more.
    Idempotent,
    /// It is sent once more only if not a byte of it was written.
    Once,
}

/// A connection that is held; closed when dropped.
#[derive(Debug)]
struct Lease {
    sender: SendRequest<Full<Bytes>>,
    _guard: DropGuard,
}

/// An answer, its body still to be read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: AnswerBody,
}

/// The rest of an answer. Dropped before its end, it closes the connection.
#[derive(Debug)]
pub(super) struct AnswerBody {
    incoming: Incoming,
    lease: Option<Lease>,
    pool: Arc<Pool>,
}

impl Pool {
    /// An empty pool.
    pub(super) fn new(dialer: Dialer, options: PoolOptions) -> Result<Arc<Self>, UpstreamError> {
        let host = HeaderValue::try_from(dialer.endpoint().authority());
        let host = host.map_err(|error| UpstreamError::Setup {
            endpoint: dialer.endpoint().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Arc::new(Self {
            dialer,
            host,
            options,
            idle: Mutex::default(),
        }))
    }

    /// Asks, and waits for the head of the answer.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(super) async fn send(self: &Arc<Self>, request: Outgoing) -> Result<Answer, UpstreamError> {
        match timeout(self.options.read_timeout, self.attempts(request)).await {
            Ok(result) => result,
            Err(_) => Err(UpstreamError::Timeout {
                endpoint: self.name(),
            }),
        }
    }

    async fn attempts(self: &Arc<Self>, request: Outgoing) -> Result<Answer, UpstreamError> {
        if let Some(lease) = self.take_idle().await {
            match self.attempt(lease, &request).await {
                Err(Failed { error, again }) if !again => return Err(error),
                Err(_) => {}
                Ok(answer) => return Ok(answer),
            }
        }
        let lease = self.open().await?;
        self.attempt(lease, &request)
            .await
            .map_err(|failed| failed.error)
    }

    async fn attempt(
        self: &Arc<Self>,
        mut lease: Lease,
        request: &Outgoing,
    ) -> Result<Answer, Failed> {
        let mut message = Request::new(Full::new(request.body.clone()));
        *message.method_mut() = request.method.clone();
        *message.uri_mut() = request.uri.clone();
        *message.headers_mut() = request.headers.clone();
        if !request.headers.contains_key(HOST) {
            message.headers_mut().insert(HOST, self.host.clone());
        }
        match lease.sender.try_send_request(message).await {
            Ok(response) => Ok(self.answer(response, lease)),
            Err(failed) => Err(self.judge(failed, request.attempts)),
        }
    }

    fn answer(self: &Arc<Self>, response: Response<Incoming>, lease: Lease) -> Answer {
        let (head, incoming) = response.into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body: AnswerBody {
                incoming,
                lease: Some(lease),
                pool: Arc::clone(self),
            },
        }
    }

    /// What a failed attempt means, on a connection that had been used before.
    fn judge(&self, mut failed: TrySendError<Request<Full<Bytes>>>, attempts: Attempts) -> Failed {
        // The library hands the request back only if it has not begun to write it.
        let unwritten = failed.take_message().is_some();
        let error = failed.into_error();
        let dead = error.is_incomplete_message() || error.is_closed() || is_io(&error);
        Failed {
            again: unwritten || (dead && attempts == Attempts::Idempotent),
            error: self.fault(&error, unwritten),
        }
    }

    fn fault(&self, error: &hyper::Error, unwritten: bool) -> UpstreamError {
        let (endpoint, reason) = (self.name(), innermost(error));
        if unwritten {
            UpstreamError::Connect { endpoint, reason }
        } else if error.is_parse() {
            UpstreamError::Garbage { endpoint, reason }
        } else {
            UpstreamError::Broken { endpoint, reason }
        }
    }

    /// A kept connection that is still good, as far as one can tell.
    async fn take_idle(&self) -> Option<Lease> {
        loop {
            let (mut lease, since) = self.idle().pop()?;
            if since.elapsed() < IDLE_LIMIT && lease.sender.ready().await.is_ok() {
                return Some(lease);
            }
        }
    }

    async fn open(&self) -> Result<Lease, UpstreamError> {
        let stream = self.dialer.dial().await?;
        let (sender, connection) = Builder::new()
            .max_buf_size(self.options.window_bytes.max(SMALLEST_BUFFER))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.fault(&error, true))?;
        let closing = self.options.shutdown.child_token();
        let guard = closing.clone().drop_guard();
        self.options.tracker.spawn(async move {
            tokio::select! {
                // Its error reaches whoever waits for the answer.
                _ = connection => {}
                () = closing.cancelled() => {}
            }
        });
        Ok(Lease {
            sender,
            _guard: guard,
        })
    }

    fn give_back(&self, lease: Lease) {
        let mut idle = self.idle();
        idle.retain(|(lease, _)| !lease.sender.is_closed());
        if idle.len() < MAX_IDLE && !lease.sender.is_closed() {
            idle.push((lease, Instant::now()));
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Lease, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self) -> String {
        self.dialer.endpoint().to_string()
    }
}

/// Why an attempt failed, and whether another one may be made.
struct Failed {
    error: UpstreamError,
    again: bool,
}

impl AnswerBody {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`UpstreamError`]; nothing follows one.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        loop {
            let limit = self.pool.options.read_timeout;
            let Ok(frame) = timeout(limit, self.incoming.frame()).await else {
                self.lease = None;
                return Some(Err(UpstreamError::Timeout {
                    endpoint: self.pool.name(),
                }));
            };
            match frame {
                None => {
                    self.finish();
                    return None;
                }
                Some(Err(error)) => {
                    self.lease = None;
                    return Some(Err(self.pool.fault(&error, false)));
                }
                // Trailers do not travel on.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => {
                        if self.incoming.is_end_stream() {
                            self.finish();
                        }
                        return Some(Ok(bytes));
                    }
                    _ => {}
                },
            }
        }
    }

    /// The bytes that are still to come, if the node said how many.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.pool.give_back(lease);
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
