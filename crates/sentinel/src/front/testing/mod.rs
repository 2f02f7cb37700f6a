//! Lanes that do what a test scripts, and connections in memory.

mod bench;

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use pacing::Nanos;
use tokio::sync::Notify;

pub(super) use self::bench::{Bench, Client};
use super::backend::Backend;
use crate::keys::KnownKeys;
use crate::lane::{Delivery, Write, WriteAnswer};
use crate::refusal::{Reason, Refusal};
use crate::respond::KeptId;
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
    /// Whether reads wait as well.
    pub(super) hold_reads: bool,
    /// Writes in the queue.
    pub(super) queue: Vec<Write>,
    /// What was judged in shadow.
    pub(super) judged: Vec<String>,
    /// Transactions that came.
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
    /// The clients known by a key.
    pub(super) known: Option<Arc<KnownKeys>>,
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
            answer(&write);
        }
        self.0.room.notify_waiters();
    }
}

fn answer(write: &Write) {
    write.outbox.deliver(Delivery {
        tag: write.tag,
        answer: WriteAnswer::Member(member(&String::from_utf8_lossy(&write.tx))),
    });
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
        let tx = String::from_utf8_lossy(&write.tx);
        state.txs.push(tx.into_owned());
        if state.hold {
            state.queue.push(write);
            return Ok(());
        }
        answer(&write);
        Ok(())
    }

    fn judge(&self, client: ClientKey, call: Bytes) {
        let mut state = self.state();
        state.clients.push(client.to_string());
        let call = String::from_utf8_lossy(&call);
        state.judged.push(call.into_owned());
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

    fn check_method(&self, client: ClientKey, method: &str) -> Result<(), Refusal> {
        if let Some(known) = &self.state().known {
            known.check_method(client, method)?;
        }
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
            self.check_method(client, method)?;
        }
        let released = self.0.room.notified();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let waits = {
            let mut state = self.state();
            state.clients.push(client.to_string());
            state.forwarded.push((
                request.http_method.to_string(),
                text(&request.target),
                text(&request.body),
            ));
            state.hold_reads
        };
        if waits {
            released.await;
        }
        let echo = ReadAnswer::whole(200, &format!(r#"{{"echo":{}}}"#, request.body.len()));
        self.state().answers.pop_front().unwrap_or(Ok(echo))
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
        Poll::Ready(self.0.pop_front().map(|piece| {
            if piece.is_empty() {
                Err(Refusal::new(Reason::Upstream, "the node broke off"))
            } else {
                Ok(piece)
            }
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
            headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/test"))]),
            length: None,
            took: Some(Nanos::from_millis(2)),
            is_counted: true,
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
