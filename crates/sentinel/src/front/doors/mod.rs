//! The other listeners of a Cosmos SDK's node, gRPC and REST: a broadcast takes the one write lane as its client's, a
//! simulation is an expensive read, everything else passes under the limits of reads, streams included.
//!
//! HTTP/1.1 and HTTP/2 are hyper's. One task serves a connection and all streams on it.

mod answers;
mod request;
mod tx_response;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rpc::BroadcastMethod;
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep_until, timeout};

use self::answers::{ended, grpc_answer, json_answer};
use self::request::{Route, grpc_broadcast, rest_broadcast, route};
use self::tx_response::TxResponse;
use super::Shared;
use super::backend::{Backend as _, Lanes};
use super::queue::WRITE_OVERHEAD;
use super::{listener, proxied};
use crate::budget::{Reservation, work_of};
use crate::identity::{FORWARDED_FOR, Identity, Peer, denied};
use crate::lane::{Outbox, Write, WriteAnswer};
use crate::metrics::{MethodClass, OutcomeLabel, Transport};
use crate::refusal::{Reason, Refusal};
use crate::respond::GrpcStatus;
use crate::upstream::{DoorBody, DoorNode, next_piece};

/// What is spoken on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// gRPC.
    Grpc,
    /// The gateway from REST to it.
    Rest,
}

/// Serves a listener in front of `node` as [`listener::accept`] does.
pub(super) async fn serve(
    front: Arc<Shared<Lanes>>,
    listener: TcpListener,
    (door, node): (Door, DoorNode),
) -> usize {
    let node = Arc::new(node);
    let admit = |connections: &mut tokio::task::JoinSet<()>, stream, address: SocketAddr| {
        let served = connection(
            Arc::clone(&front),
            stream,
            address,
            (door, Arc::clone(&node)),
        );
        connections.spawn(served);
    };
    listener::accept(&front, listener, admit).await
}

/// Streams of one connection under way: nginx's `http2_max_concurrent_streams`.
const MOST_STREAMS: u32 = 128;
/// Bytes of a stream, and of all of a connection, that may wait to be read.
const STREAM_BYTES: u32 = 64 << 10;
const CONNECTION_BYTES: u32 = 256 << 10;

/// Serves one connection to its end.
async fn connection(
    front: Arc<Shared<Lanes>>,
    mut stream: TcpStream,
    address: SocketAddr,
    (door, node): (Door, Arc<DoorNode>),
) {
    let mut address = address.ip().to_canonical();
    if front.names_clients(address) {
        match proxied::client(&front, &mut stream, address).await {
            Some(client) => address = client,
            None => return,
        }
    }
    let (peer, slot) = listener::slot(&front, address);
    let _slot = match slot {
        Ok(slot) => slot,
        Err(refusal) => return front.refused(peer.identity.client, &refusal),
    };
    let caller = Arc::new(Caller {
        door,
        node,
        peer,
        number: front.next_connection(),
        under_way: AtomicUsize::new(0),
        requests: AtomicU64::new(0),
        front: Arc::clone(&front),
    });
    drive(&caller, stream).await;
    front
        .backend
        .disconnect(peer.identity.client, caller.number);
}

/// Futures of a connection's streams, handed to the task that serves it. They are as many as the streams.
#[derive(Clone)]
struct Streams(mpsc::UnboundedSender<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, future: F) {
        // Fails only when the connection is gone, and its streams with it.
        let _ = self.0.send(Box::pin(future));
    }
}

/// Reads requests and writes answers until the connection ends, is idle for too long, or the program ends.
async fn drive(caller: &Arc<Caller>, stream: TcpStream) {
    let (streams, mut started) = mpsc::unbounded_channel();
    let (front, fixed) = (&caller.front, caller.front.config.current().fixed.clone());
    let mut builder = auto::Builder::new(Streams(streams));
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
        .initial_stream_window_size(STREAM_BYTES)
        .initial_connection_window_size(CONNECTION_BYTES)
        .keep_alive_interval(fixed.ping_interval)
        .keep_alive_timeout(fixed.silence_limit);
    let service = service_fn(|request| {
        let caller = Arc::clone(caller);
        async move { Ok::<_, Infallible>(caller.answer(request).await) }
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut running = FuturesUnordered::new();
    let mut stopped = pin!(front.stop.cancelled());
    let mut look = interval(front.config.load().fixed.idle_timeout.max(SHORTEST_LOOK));
    let (mut seen, mut is_ending) = (u64::MAX, false);
    loop {
        tokio::select! {
            biased;
            // An error is the client's: it broke off, or what it sent is no HTTP.
            _ = &mut serving => return,
            Some(stream) = started.recv() => running.push(stream),
            Some(()) = running.next(), if !running.is_empty() => {}
            () = &mut stopped, if !is_ending => {
                is_ending = true;
                serving.as_mut().graceful_shutdown();
            }
            _ = look.tick() => {
                let requests = caller.requests.load(Ordering::Relaxed);
                let is_idle = caller.under_way.load(Ordering::Relaxed) == 0 && requests == seen;
                match (is_idle, is_ending) {
                    // It was told, and did not end.
                    (true, true) => return,
                    (true, false) => {
                        is_ending = true;
                        serving.as_mut().graceful_shutdown();
                    }
                    (false, _) => seen = requests,
                }
            }
        }
    }
}

/// An idle connection is looked for at most this often.
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

/// One connection, as its requests see it.
struct Caller {
    front: Arc<Shared<Lanes>>,
    door: Door,
    node: Arc<DoorNode>,
    peer: Peer,
    /// Unique in this process: writes of one connection stay in order.
    number: u64,
    under_way: AtomicUsize,
    requests: AtomicU64,
}

/// An answer, or why there is none: an end of the call, or a refusal, which is counted.
type Answered = Result<Response<DoorBody>, Failure>;

enum Failure {
    Ended(GrpcStatus),
    Refused(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Counts a request while its answer is made.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Caller {
    async fn answer(&self, request: Request<Incoming>) -> Response<DoorBody> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.under_way);
        let identity = self.identity(request.headers());
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], HeaderValue::as_bytes);
        let is_grpc = self.door == Door::Grpc || content_type.starts_with(b"application/grpc");
        let route = route(request.method(), request.uri().path(), content_type);
        let class = match route {
            Route::GrpcWrite | Route::RestWrite => MethodClass::BroadcastSync,
            Route::Unserved(_) | Route::Read(_) => MethodClass::Other,
        };
        let (outcome, answer) = match self.serve(identity, request, (route, is_grpc)).await {
            Ok(answer) => (OutcomeLabel::Forwarded, answer),
            Err(failure) => {
                // Nothing bounds how many of these come.
                if let Some(until) = self.front.budget.work(identity.client, work_of(0)) {
                    sleep_until(until).await;
                }
                let status = match failure {
                    Failure::Ended(status) => status,
                    Failure::Refused(refusal) => {
                        self.front.refused(identity.client, &refusal);
                        GrpcStatus::from(&refusal)
                    }
                };
                (OutcomeLabel::Rejected, ended(&status, is_grpc))
            }
        };
        let transport = match self.door {
            Door::Grpc => Transport::Grpc,
            Door::Rest => Transport::Rest,
        };
        self.front.metrics.request(transport, class, outcome);
        answer
    }

    fn identity(&self, headers: &HeaderMap) -> Identity {
        if !self.peer.is_proxy {
            return self.peer.identity;
        }
        let lines = headers.get_all(FORWARDED_FOR).iter();
        let lines: Vec<&[u8]> = lines.map(HeaderValue::as_bytes).collect();
        let identities = self.front.identities.load();
        identities.of_request(self.peer.address, lines.into_iter())
    }

    async fn serve(
        &self,
        identity: Identity,
        request: Request<Incoming>,
        (route, is_grpc): (Route, bool),
    ) -> Answered {
        if !identity.allowed {
            return Err(denied().into());
        }
        // A stream of a trusted proxy's connection is a connection of its client's.
        let of_proxy = self.peer.is_proxy;
        let _slot = of_proxy.then(|| self.front.budget.request(identity.client));
        let _slot = _slot.transpose()?;
        match route {
            Route::GrpcWrite => {
                let (body, held) = self.body(identity, request.into_body()).await?;
                let broadcast = grpc_broadcast(&body).map_err(Failure::Ended)?;
                let response = self.write(identity, broadcast, held).await?;
                Ok(grpc_answer(&response))
            }
            Route::RestWrite => {
                let (body, held) = self.body(identity, request.into_body()).await?;
                let broadcast = rest_broadcast(&body).map_err(Failure::Ended)?;
                let response = self.write(identity, broadcast, held).await?;
                Ok(json_answer(200, response.json()))
            }
            Route::Unserved(instead) => Err(Failure::Ended(GrpcStatus::new(
                GrpcStatus::UNIMPLEMENTED,
                instead,
            ))),
            Route::Read(calls) if self.door == Door::Grpc => {
                debug_assert!(is_grpc, "everything at this listener is");
                self.stream(identity, request, calls).await
            }
            Route::Read(calls) => self.read(identity, request, calls).await,
        }
    }

    /// Reads a body whole, within the bounds of a request and as far as the client's account has room.
    async fn body(
        &self,
        identity: Identity,
        mut body: Incoming,
    ) -> Result<(Bytes, Reservation), Refusal> {
        let config = self.front.config.current();
        let most = config.limits.body_bytes;
        let mut held = self.front.ledger.of(identity.client).nothing();
        let mut bytes = Vec::new();
        let reading = async {
            while let Some(piece) = next_piece(&mut body).await {
                let broken = |_| Refusal::new(Reason::Parse, "the request broke off");
                let piece = piece.map_err(broken)?;
                if bytes.len() + piece.len() > most {
                    let text = format!("a body of more than {most} bytes");
                    return Err(Refusal::new(Reason::Body, text));
                }
                if !held.grow(piece.len()) {
                    return Err(Refusal::buffers_full());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(())
        };
        let late = |_| Refusal::new(Reason::Parse, "the body did not come in time");
        timeout(config.fixed.body_timeout, reading)
            .await
            .map_err(late)??;
        Ok((bytes.into(), held))
    }

    /// Puts a broadcast into the write lane and waits for its answer. Dropped, it takes the write back if it still
    /// waits.
    async fn write(
        &self,
        identity: Identity,
        (method, tx): (BroadcastMethod, Bytes),
        mut held: Reservation,
    ) -> Result<TxResponse, Failure> {
        let backend = &self.front.backend;
        backend.check_method(method.name())?;
        if !held.grow(WRITE_OVERHEAD) {
            return Err(Refusal::buffers_full().into());
        }
        let hash: [u8; 32] = Sha256::digest(&tx).into();
        let waiting = Waiting(Outbox::new());
        backend.submit(Write {
            client: identity.client,
            connection: self.number,
            tag: 0,
            method,
            tx,
            reservation: held,
            outbox: Arc::clone(&waiting.0),
        })?;
        let answers = poll_fn(|context| waiting.0.poll_take(context)).await;
        match answers.into_iter().next().map(|delivery| delivery.answer) {
            Some(WriteAnswer::Member(member)) => {
                TxResponse::read(&member, &hash).map_err(Failure::Ended)
            }
            Some(WriteAnswer::Refused(refusal)) => Err(refusal.into()),
            None => Err(Refusal::going_down().into()),
        }
    }

    /// Passes a stream of gRPC on, of any kind.
    async fn stream(&self, identity: Identity, request: Request<Incoming>, calls: u32) -> Answered {
        let admitted = self
            .front
            .backend
            .reads()
            .place(identity.client, calls)
            .await?;
        let ledger = self.front.ledger.of(identity.client);
        let window = ledger.reserve(DoorBody::WINDOW_BYTES);
        let window = window.ok_or_else(Refusal::buffers_full)?;
        let answer = self.node.stream(request).await.map_err(Refusal::from)?;
        let silence = self.front.config.load().fixed.idle_timeout;
        Ok(answer.map(|body| DoorBody::stream(body, (admitted, window), silence)))
    }

    /// Passes a request to REST on.
    async fn read(&self, identity: Identity, request: Request<Incoming>, calls: u32) -> Answered {
        let (head, body) = request.into_parts();
        let (body, mut held) = self.body(identity, body).await?;
        let admitted = self
            .front
            .backend
            .reads()
            .place(identity.client, calls)
            .await?;
        if !held.grow(self.front.config.load().fixed.window_bytes) {
            return Err(Refusal::buffers_full().into());
        }
        let answer = self.node.ask(head, body, (admitted, held)).await;
        Ok(answer.map_err(Refusal::from)?)
    }
}

/// A write whose answer is awaited: dropped, nobody wants it any more.
struct Waiting(Arc<Outbox>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.close();
    }
}
