//! What a client asks over a WebSocket, on its way through the read lane.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fairq::ClientKey;
use hyper::Method;
use rpc::BroadcastMethod;
use tokio_util::task::AbortOnDropHandle;

use super::body::{charged, collected};
use super::client_link::RelayEvent;
use super::node_state::NodeIndex;
use super::query::json_headers;
use super::reads::{ReadRequest, Reads};
use crate::budget::Ledger;
use crate::refusal::{Reason, Refusal};
use crate::respond::KeptId;

/// The questions of one WebSocket. The node answers what comes over one in order, and so do these.
pub(super) struct Questions {
    reads: Reads,
    client: ClientKey,
    node: NodeIndex,
    ledger: Ledger,
    /// Not begun.
    waiting: VecDeque<Asking>,
    /// Each on its own: others may wait for its answer, whether this client reads or not.
    under_way: VecDeque<AbortOnDropHandle<RelayEvent>>,
}

type Asking = Pin<Box<dyn Future<Output = RelayEvent> + Send>>;

impl Questions {
    /// None yet. What they hold is in this account of the client.
    pub(super) fn new(
        reads: &Reads,
        (client, node): (ClientKey, NodeIndex),
        ledger: &Ledger,
    ) -> Self {
        Self {
            reads: reads.clone(),
            client,
            node,
            ledger: ledger.clone(),
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
        }
    }

    /// Whether another one would be taken.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() + self.under_way.len() < MOST_QUESTIONS
    }

    /// Takes one call in JSON-RPC, with its method. Its answer has this tag, a refusal this id as well.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn ask(
        &mut self,
        call: (Option<Box<str>>, Bytes),
        (tag, id): (u64, KeptId),
    ) -> Result<(), Refusal> {
        let held = self.ledger.reserve(call.1.len() + QUESTION_BYTES);
        let held = held.ok_or_else(Refusal::buffers_full)?;
        let (reads, client, node) = (self.reads.clone(), self.client, self.node);
        let room = self.ledger.nothing();
        let request = request(call, id.clone());
        let asking = async move {
            let _held = held;
            let answer = reads.forward(client, node, request).await?;
            json_object(collected(answer.body, room, usize::MAX).await?)
        };
        self.push(Box::pin(async move {
            match asking.await {
                Ok(text) => RelayEvent::Answer { tag, text },
                Err(refusal) => RelayEvent::Failed { tag, id, refusal },
            }
        }))
    }

    /// Takes one whose answer is there already.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn answered(&mut self, text: Vec<u8>, tag: u64) -> Result<(), Refusal> {
        let held = self.ledger.reserve(text.len());
        let text = charged(text, held.ok_or_else(Refusal::buffers_full)?);
        self.push(Box::pin(async move { RelayEvent::Answer { tag, text } }))
    }

    fn push(&mut self, asking: Asking) -> Result<(), Refusal> {
        if !self.has_room() {
            let text = "too many messages are under way on this WebSocket";
            return Err(Refusal::new(Reason::QueueFull, text));
        }
        self.waiting.push_back(asking);
        Ok(())
    }

    /// What comes of the question that is the next to be answered.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        while self.under_way.len() < MOST_UNDER_WAY
            && let Some(asking) = self.waiting.pop_front()
        {
            let asking = AbortOnDropHandle::new(tokio::spawn(asking));
            self.under_way.push_back(asking);
        }
        let Some(next) = self.under_way.front_mut() else {
            return Poll::Pending;
        };
        let event = ready!(Pin::new(next).poll(context));
        self.under_way.pop_front();
        Poll::Ready(event.unwrap_or(RelayEvent::Closed))
    }
}

/// An answer in JSON-RPC; anything else is a gateway's.
fn json_object(text: Bytes) -> Result<Bytes, Refusal> {
    if text.trim_ascii_start().starts_with(b"{") {
        return Ok(text);
    }
    let detail = "the node answered something that cannot be read";
    Err(Refusal::new(Reason::Upstream, detail))
}

/// A call as a request to the node. It was taken from the client's rate when it came.
fn request((method, call): (Option<Box<str>>, Bytes), id: KeptId) -> ReadRequest {
    let of_broadcast = |method: &str| BroadcastMethod::of(method.as_bytes()).is_some();
    ReadRequest {
        has_writes: method.as_deref().is_some_and(of_broadcast),
        http_method: Method::POST,
        target: Bytes::from_static(b"/"),
        headers: json_headers(),
        body: call,
        method,
        id: Some(id),
        calls: 0,
    }
}

/// What a question holds beside its text, the futures of the read lane above all.
const QUESTION_BYTES: usize = 4 << 10;
/// Questions of one WebSocket that are taken.
const MOST_QUESTIONS: usize = 64;
/// Of which so many are asked at a time, so that none waits for the round trip of the one before it.
const MOST_UNDER_WAY: usize = 4;
