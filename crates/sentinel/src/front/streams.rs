//! A TLS connection with HTTP/2 streams or HTTP/1.1 requests, which hyper reads. One task serves all of its streams.
//!
//! The work of a stream that the client resets is charged to the client's budget. Sentinel closes a connection whose
//! client has spent its budget of work, and one whose client reads its answers too slowly.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::budget::{Budget, Reservation, work_of};
use crate::refusal::{Reason, Refusal};

/// Streams of one connection under way: nginx's `http2_max_concurrent_streams`.
pub(super) const MOST_STREAMS: u32 = 128;
/// Bytes of a stream, and of all of a connection, that may wait to be read: HTTP/2's own default (RFC 9113, 6.9.2).
const WINDOW_BYTES: u32 = 64 << 10;
/// Bytes that the byte account reserves for a connection: its window, and both tables of headers (RFC 7541).
pub(super) const CONNECTION_BYTES: usize = WINDOW_BYTES as usize + (16 << 10);
/// Bytes of one stream's answer that may wait to be sent: a frame of the default size.
pub(super) const STREAM_BYTES: usize = 16 << 10;
/// How often a connection is checked at most for being idle or reading too slowly.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

/// The state of a connection's streams that the requests share.
pub(super) struct Streams {
    budget: Budget,
    under_way: AtomicUsize,
    requests: AtomicU64,
    /// Since when a piece of an answer waits for the client to read it, by the stream's number.
    offered: Mutex<BTreeMap<u64, Instant>>,
    is_over_budget: AtomicBool,
}

/// A request that is served until dropped.
pub(super) struct UnderWay {
    streams: Arc<Streams>,
    number: u64,
    /// The client that is charged for its work if it is dropped before it is answered.
    charged_if_dropped: Option<ClientKey>,
}

impl Streams {
    pub(super) fn new<B>(front: &Shared<B>) -> Arc<Self> {
        Arc::new(Self {
            budget: front.budget.clone(),
            under_way: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            offered: Mutex::default(),
            is_over_budget: AtomicBool::new(false),
        })
    }

    /// A request of this client begins.
    pub(super) fn begin(self: &Arc<Self>, client: ClientKey) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay {
            streams: Arc::clone(self),
            number: self.requests.fetch_add(1, Ordering::Relaxed),
            charged_if_dropped: Some(client),
        }
    }

    /// Whether a piece of an answer has waited for the client longer than this.
    fn has_unread_answer_for(&self, patience: Duration) -> bool {
        let offered = self.offered.lock();
        let since = offered.values().min();
        since.is_some_and(|since| since.elapsed() > patience)
    }
}

impl UnderWay {
    /// Notes that it was answered, and its work charged or bounded.
    pub(super) const fn answered(&mut self) {
        self.charged_if_dropped = None;
    }

    fn offer(&self, since: Option<Instant>) {
        let mut offered = self.streams.offered.lock();
        match since {
            Some(since) => offered.insert(self.number, since),
            None => offered.remove(&self.number),
        };
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.offer(None);
        self.streams.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(client) = self.charged_if_dropped
            && self.streams.budget.work(client, work_of(0)).is_some()
        {
            self.streams.is_over_budget.store(true, Ordering::Relaxed);
        }
    }
}

/// A stream ends without an answer, or in the middle of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub(super) struct NoAnswer;

/// The body of an answer, in pieces of which few bytes wait for the client.
pub(super) struct Answer<T> {
    body: T,
    rest: Bytes,
    under_way: UnderWay,
}

impl<T> Answer<T> {
    pub(super) fn new(body: T, under_way: UnderWay) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            under_way,
        }
    }
}

impl<T: Body<Data = Bytes> + Unpin> Body for Answer<T> {
    type Data = Bytes;
    type Error = T::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, T::Error>>> {
        if self.rest.is_empty() {
            self.under_way.offer(None);
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        self.under_way.offer(Some(Instant::now()));
        let most = self.rest.len().min(STREAM_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(most)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One stream, up to its end.
type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Passes the futures of a connection's streams to the task that serves it: one for each stream.
#[derive(Clone)]
struct Started(mpsc::UnboundedSender<Served>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Started {
    fn execute(&self, future: F) {
        // Fails only when the connection is closed, and its streams with it.
        let _ = self.0.send(Box::pin(future));
    }
}

/// Serves HTTP/1.1 or HTTP/2, whichever the client begins with.
fn builder<B>(front: &Shared<B>, streams: Started) -> auto::Builder<Started> {
    let config = front.config.load();
    let fixed = &config.fixed;
    let mut builder = auto::Builder::new(streams);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(fixed.header_timeout)
        .max_headers(fixed.headers)
        .max_buf_size(fixed.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(u32::try_from(fixed.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(STREAM_BYTES)
        .keep_alive_interval(fixed.ping_interval)
        .keep_alive_timeout(fixed.silence_limit);
    builder
}

/// Reads requests and writes answers until the connection ends, is idle for too long, or gets the order to end, which it
/// does once its streams have ended.
///
/// # Errors
/// Why sentinel closed it before that.
pub(super) async fn drive<B, IO, S, F, T>(
    front: &Shared<B>,
    (io, client): (IO, ClientKey),
    (streams, end): (&Streams, CancellationToken),
    answer: S,
) -> Result<(), Refusal>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Result<Response<T>, NoAnswer>> + Send + 'static,
    T: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let held = front.ledger.of(client).reserve(CONNECTION_BYTES);
    let held = held.ok_or_else(Refusal::buffers_full)?;
    let (sender, started) = mpsc::unbounded_channel();
    let builder = builder(front, Started(sender));
    let mut serving = pin!(builder.serve_connection(TokioIo::new(io), service_fn(answer)));
    let mut running = Running {
        started,
        streams: FuturesUnordered::new(),
        most: 0,
        held,
    };
    let mut ordered_to_end = pin!(end.cancelled());
    let idle = front.config.load().fixed.idle_timeout;
    let patience = front.config.load().fixed.write_timeout;
    let mut idle_look = interval(idle.max(SHORTEST_LOOK));
    let mut look = interval((patience / 2).max(SHORTEST_LOOK));
    let (mut seen, mut is_ending) = (u64::MAX, false);
    loop {
        tokio::select! {
            biased;
            // Streams first, so that answers that are ready at the same time are sent together.
            refusal = poll_fn(|context| running.poll(streams, context)) => return Err(refusal),
            // The client caused the error: it closed the connection, or did not send HTTP.
            _ = &mut serving => return Ok(()),
            () = &mut ordered_to_end, if !is_ending => {
                is_ending = true;
                serving.as_mut().graceful_shutdown();
            }
            _ = look.tick() => {
                if streams.has_unread_answer_for(patience) {
                    return Ok(());
                }
            }
            _ = idle_look.tick() => {
                let requests = streams.requests.load(Ordering::Relaxed);
                let is_idle = streams.under_way.load(Ordering::Relaxed) == 0 && requests == seen;
                if !is_idle {
                    seen = requests;
                } else if is_ending {
                    // The client did not end it in the time that it had.
                    return Ok(());
                } else {
                    is_ending = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// The streams that are served.
struct Running {
    started: mpsc::UnboundedReceiver<Served>,
    streams: FuturesUnordered<Served>,
    most: usize,
    held: Reservation,
}

impl Running {
    /// Polls all of them. It is ready with a reason when the connection has to be closed.
    fn poll(&mut self, streams: &Streams, context: &mut Context<'_>) -> Poll<Refusal> {
        while let Poll::Ready(Some(stream)) = self.started.poll_recv(context) {
            self.streams.push(stream);
            if self.streams.len() > self.most {
                self.most = self.streams.len();
                // The answers of ended streams may still wait to be sent, so room stays reserved for the most streams there were.
                if !self.held.grow(STREAM_BYTES) {
                    return Poll::Ready(Refusal::buffers_full());
                }
            }
        }
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(context) {
            if streams.is_over_budget.load(Ordering::Relaxed) {
                return Poll::Ready(resets());
            }
        }
        Poll::Pending
    }
}

fn resets() -> Refusal {
    let text = "this client resets streams faster than it may ask";
    Refusal::new(Reason::Rate, text)
}
