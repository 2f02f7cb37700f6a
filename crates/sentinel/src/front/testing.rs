//! Lanes that do what a test says, and connections in memory.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::accept::Accept;
use super::backend::Backend;
use super::socket::Stream;
use super::{Shared, listener};
use crate::config::Config;
use crate::jsonrpc::KeptId;
use crate::lane::{Delivery, Permit, Write, WriteAnswer, WriteBody};
use crate::metrics::Gauges;
use crate::refusal::{Reason, Refusal};
use crate::shared_context::SharedContext;
use crate::upstream::{Pieces, ReadAnswer, ReadRequest, RelayEvent, RelayLink, RelayMessage};

/// Lanes under a test's control.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    room: Notify,
}

#[derive(Default)]
pub(super) struct State {
    /// Whether writes stay in the queue instead of being answered at once.
    pub(super) hold: bool,
    /// Writes in the queue.
    pub(super) queue: Vec<Write>,
    /// Transactions that came, and `?` for unusual writes.
    pub(super) txs: Vec<String>,
    /// Room in the queue; none for any number.
    pub(super) room: Option<usize>,
    /// Why writes are refused, if they are.
    pub(super) refusal: Option<Refusal>,
    /// What was forwarded: method, target and body.
    pub(super) forwarded: Vec<(String, String, String)>,
    /// What is answered to reads, in order; else the body comes back.
    pub(super) answers: VecDeque<Result<ReadAnswer<Body>, Refusal>>,
    /// Connections that hung up with writes under way.
    pub(super) disconnected: Vec<u64>,
    /// Permits that are held.
    pub(super) permits: usize,
    /// What relays were given.
    pub(super) relayed: Vec<String>,
    /// What relays give out, beside echoes.
    pub(super) events: VecDeque<Bytes>,
    /// Whether relays keep their answers to themselves.
    pub(super) mute: bool,
    /// Methods that are refused, beside `unsafe*`.
    pub(super) refused: Vec<&'static str>,
    /// Whether the node serves nothing under `/v1`.
    pub(super) without_v1: bool,
    /// Clients that were asked for.
    pub(super) clients: Vec<String>,
}

impl Fake {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Answers everything in the queue, the last first.
    pub(super) fn release(&self) {
        let queue = std::mem::take(&mut self.state().queue);
        for write in queue.into_iter().rev() {
            self.answer(&write);
        }
        self.0.room.notify_waiters();
    }

    fn answer(&self, write: &Write) {
        let answer = match &write.body {
            WriteBody::Tx { tx, .. } => WriteAnswer::Member(member(&String::from_utf8_lossy(tx))),
            WriteBody::Unusual => {
                self.state().permits += 1;
                let fake = self.clone();
                WriteAnswer::Permit(Permit::new(move || fake.state().permits -= 1))
            }
        };
        write.outbox.deliver(Delivery {
            tag: write.tag,
            answer,
        });
    }
}

/// A handshake for a WebSocket.
pub(super) const HANDSHAKE: &str = "GET /websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
     Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// `broadcast_tx_sync` of a transaction, in base64.
pub(super) fn sync(id: impl Display, tx: &str) -> String {
    let tx = base64_simd::STANDARD.encode_to_string(tx);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
    )
}

/// What the fake lanes answer to it.
pub(super) fn answer_to(id: impl Display, tx: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"log":"{tx}"}}}}"#)
}

pub(super) fn call(id: impl Display, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)
}

/// Lets everything run that can.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// The member that answers a transaction.
pub(super) fn member(tx: &str) -> Bytes {
    format!(r#""result":{{"log":"{tx}"}}"#).into()
}

impl Backend for Fake {
    type Body = Body;
    type Relay = Echo;

    fn submit(&self, write: Write) -> Result<(), Refusal> {
        let mut state = self.state();
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        state.clients.push(write.client.to_string());
        state.txs.push(match &write.body {
            WriteBody::Tx { tx, .. } => String::from_utf8_lossy(tx).into_owned(),
            WriteBody::Unusual => "?".to_owned(),
        });
        if state.hold {
            state.queue.push(write);
            return Ok(());
        }
        drop(state);
        self.answer(&write);
        Ok(())
    }

    fn has_room(&self, _client: ClientKey) -> bool {
        let state = self.state();
        state.room.is_none_or(|room| state.queue.len() < room)
    }

    async fn room(&self, client: ClientKey) {
        loop {
            let notified = self.0.room.notified();
            if self.has_room(client) {
                return;
            }
            notified.await;
        }
    }

    fn disconnect(&self, _client: ClientKey, connection: u64) {
        self.state().disconnected.push(connection);
    }

    fn check_method(&self, method: &str) -> Result<(), Refusal> {
        if method.starts_with("unsafe") || self.state().refused.contains(&method) {
            return Err(Refusal::new(
                Reason::Method,
                "this method is not served here",
            ));
        }
        Ok(())
    }

    fn has_v1_routes(&self) -> bool {
        !self.state().without_v1
    }

    fn admit(&self, _client: ClientKey, _calls: u32) -> Result<(), Refusal> {
        Ok(())
    }

    async fn forward(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> Result<ReadAnswer<Body>, Refusal> {
        if let Some(method) = &request.method {
            self.check_method(method)?;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut state = self.state();
        state.clients.push(client.to_string());
        state.forwarded.push((
            request.http_method.to_string(),
            text(&request.target),
            text(&request.body),
        ));
        let echo = ReadAnswer::whole(200, &format!(r#"{{"echo":{}}}"#, request.body.len()));
        state.answers.pop_front().unwrap_or(Ok(echo))
    }

    async fn pass(
        &self,
        client: ClientKey,
        request: ReadRequest,
    ) -> Result<ReadAnswer<Body>, Refusal> {
        assert_eq!(self.state().permits, 1, "a write passes with a permit");
        self.forward(client, request).await
    }

    fn relay(&self, _client: ClientKey) -> Echo {
        Echo {
            fake: self.clone(),
            answers: VecDeque::new(),
        }
    }
}

/// The pieces of an answer; an empty one breaks it off. Beside them how many were taken, which lives as long
/// as what it was admitted with.
#[derive(Debug)]
pub(super) struct Body(
    VecDeque<Bytes>,
    pub(super) Arc<AtomicUsize>,
    /// Whether others wait for its place.
    pub(super) Arc<AtomicBool>,
);

impl Pieces for Body {
    type Error = Refusal;

    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(self.0.pop_front().map(|piece| match piece.is_empty() {
            true => Err(Refusal::new(Reason::Upstream, "the node broke off")),
            false => Ok(piece),
        }))
    }

    fn is_wanted(&self) -> bool {
        self.2.load(Ordering::Relaxed)
    }
}

impl ReadAnswer<Body> {
    /// An answer of known length.
    pub(super) fn whole(status: u16, body: &str) -> Self {
        Self {
            length: Some(body.len() as u64),
            ..Self::pieces(status, &[body])
        }
    }

    /// An answer in pieces.
    pub(super) fn pieces(status: u16, pieces: &[&str]) -> Self {
        let bytes = |piece: &&str| Bytes::copy_from_slice(piece.as_bytes());
        Self {
            status,
            headers: vec![("Content-Type".into(), Bytes::from_static(b"text/test"))],
            length: None,
            took: Nanos::from_millis(2),
            body: Body(
                pieces.iter().map(bytes).collect(),
                Arc::default(),
                Arc::default(),
            ),
        }
    }
}

/// A relay that answers with the id.
pub(super) struct Echo {
    fake: Fake,
    answers: VecDeque<(u64, Bytes)>,
}

impl RelayLink for Echo {
    fn has_room(&self) -> bool {
        self.answers.len() < 4
    }

    fn send(&mut self, message: &RelayMessage, tag: u64) -> Result<(), Refusal> {
        let mut state = self.fake.state();
        state
            .relayed
            .push(String::from_utf8_lossy(&message.text).into_owned());
        let id = message.id.as_ref().map_or("null", KeptId::as_str);
        self.answers
            .push_back((tag, format!("relayed {id}").into()));
        Ok(())
    }

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<RelayEvent> {
        let mut state = self.fake.state();
        if let Some(event) = state.events.pop_front() {
            let (head, rest) = (Bytes::new(), event);
            return Poll::Ready(RelayEvent::Event { head, rest });
        }
        if state.mute {
            return Poll::Pending;
        }
        match self.answers.pop_front() {
            Some((tag, text)) => Poll::Ready(RelayEvent::Answer { tag, text }),
            None => Poll::Pending,
        }
    }
}

/// A front on connections in memory.
pub(super) struct Bench {
    pub(super) fake: Fake,
    pub(super) shared: Arc<Shared<Fake>>,
    pub(super) stop: CancellationToken,
    pub(super) serving: JoinHandle<usize>,
    connections: mpsc::UnboundedSender<(Pipe, SocketAddr)>,
}

/// The client's end of a connection. Dropped, it resets the connection.
pub(super) struct Client(pub(super) DuplexStream, Arc<AtomicUsize>);

/// The other end. It counts its writes.
pub(super) struct Pipe(DuplexStream, Weak<AtomicUsize>);

/// What fits between client and front.
const PIPE: usize = 64 << 10;
/// Looks at the sockets after which nothing more is expected.
const MOST_LOOKS: usize = 10_000;

impl Bench {
    /// With the default configuration.
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    /// With another configuration.
    pub(super) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let fake = Fake::default();
        let stop = CancellationToken::new();
        let shared = Shared::new(
            fake.clone(),
            SharedContext {
                seed: [1, 2],
                ..SharedContext::new(config, stop.clone())
            },
        );
        let shared = Arc::new(shared.unwrap());
        let (connections, listener) = mpsc::unbounded_channel();
        Self {
            serving: tokio::spawn(listener::serve(Arc::clone(&shared), Pipes(listener))),
            fake,
            shared,
            stop,
            connections,
        }
    }

    /// Connects from an address.
    pub(super) fn connect_from(&self, address: [u8; 4]) -> Client {
        let (client, server) = duplex(PIPE);
        let writes = Arc::default();
        let server = Pipe(server, Arc::downgrade(&writes));
        self.connections
            .send((server, (address, 1).into()))
            .unwrap();
        Client(client, writes)
    }

    /// Connects.
    pub(super) fn connect(&self) -> Client {
        self.connect_from([192, 0, 2, 1])
    }

    /// What `count` rises by between any two looks of the runtime at its sockets, until it is `all`.
    pub(super) async fn rises(&self, all: usize, count: impl Fn(&Self) -> usize) -> Vec<usize> {
        let (mut rises, mut before) = (Vec::new(), count(self));
        while before < all {
            assert!(rises.len() < MOST_LOOKS, "{before} of {all}: {rises:?}");
            tokio::task::yield_now().await;
            let now = count(self);
            rises.push(now - before);
            before = now;
        }
        rises
    }

    /// The next read is answered with this.
    pub(super) fn will_answer(&self, answer: ReadAnswer<Body>) {
        self.fake.state().answers.push_back(Ok(answer));
    }

    /// The value of a metric.
    pub(super) fn metric(&self, series: &str) -> String {
        let text = self.shared.metrics.render(&Gauges::default());
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or("none").trim().to_owned()
    }
}

struct Pipes(mpsc::UnboundedReceiver<(Pipe, SocketAddr)>);

impl Accept for Pipes {
    type Stream = Pipe;

    async fn accept(&mut self) -> io::Result<(Pipe, SocketAddr)> {
        match self.0.recv().await {
            Some(connection) => Ok(connection),
            None => std::future::pending().await,
        }
    }
}

impl Stream for DuplexStream {
    fn is_hung_up(&self) -> bool {
        false
    }

    fn is_reset(&self) -> bool {
        false
    }
}

impl Stream for Pipe {
    fn is_hung_up(&self) -> bool {
        self.is_reset()
    }

    fn is_reset(&self) -> bool {
        self.1.strong_count() == 0
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(writes) = self.1.upgrade() {
            writes.fetch_add(1, Ordering::Relaxed);
        }
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Client {
    /// How often the front has written to it.
    pub(super) fn writes(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// POSTs a body.
    pub(super) async fn post(&mut self, body: &str) {
        self.post_to("/", "", body).await;
    }

    /// POSTs a body to this target, with further header lines.
    pub(super) async fn post_to(&mut self, target: &str, headers: &str, body: &str) {
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len}");
        self.send(format!("{head}\r\n\r\n{body}")).await;
    }

    /// GETs this target.
    pub(super) async fn get(&mut self, target: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.send(request).await;
    }

    /// The next answer: its head and its body, chunks undone.
    pub(super) async fn answer(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("an answer"));
        }
        let head = String::from_utf8(head).unwrap();
        let mut body = Vec::new();
        if let Some((_, rest)) = head.split_once("Content-Length: ") {
            body.resize(rest.split_once('\r').unwrap().0.parse().unwrap(), 0);
            self.0.read_exact(&mut body).await.unwrap();
        } else if head.contains("chunked") {
            while !body.ends_with(b"0\r\n\r\n") {
                body.push(self.0.read_u8().await.unwrap());
            }
        }
        (head, String::from_utf8(body).unwrap())
    }

    /// The status line and the body of the next answer.
    pub(super) async fn status(&mut self) -> (u16, String) {
        let (head, body) = self.answer().await;
        (head[9..12].parse().unwrap(), body)
    }

    /// Everything up to the end of the connection.
    pub(super) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let read = self.0.read_to_end(&mut rest);
        // A reset is an end as well.
        let _ = tokio::time::timeout(Duration::from_secs(3_600), read)
            .await
            .expect("the connection ends");
        String::from_utf8_lossy(&rest).into_owned()
    }
}
