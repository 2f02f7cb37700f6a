//! What a client asks over a WebSocket, on its way through the read lane.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method};

use super::body::Pieces as _;
use super::client_link::RelayEvent;
use super::nodes::NodeIndex;
use super::query::charged;
use super::reads::{ReadAnswer, ReadBody, ReadRequest, Reads};
use crate::jsonrpc::KeptId;
use crate::ledger::{Ledger, Reservation};
use crate::refusal::{Reason, Refusal};

/// The questions of one WebSocket. The node answers what comes over one in order, and so do these.
pub(super) struct Questions {
    reads: Reads,
    client: ClientKey,
    node: NodeIndex,
    ledger: Ledger,
    list: VecDeque<Question>,
}

/// A question without an answer.
struct Question {
    tag: u64,
    id: Option<KeptId>,
    answer: Answer,
}

enum Answer {
    /// Nothing is asked before the future is polled.
    Awaited(Pin<Box<dyn Future<Output = Result<Bytes, Refusal>> + Send>>),
    There(Result<Bytes, Refusal>),
}

/// How a call goes to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    /// With the limits of reads.
    Read,
    /// A write whose turn has come: at most once.
    Write,
}

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
            list: VecDeque::new(),
        }
    }

    /// Whether another one would be taken.
    pub(super) fn has_room(&self) -> bool {
        self.list.len() < MOST_QUESTIONS
    }

    /// Takes one call in JSON-RPC. Its answer has this tag, a refusal this id as well.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn ask(
        &mut self,
        call: Bytes,
        kind: CallKind,
        (tag, id): (u64, KeptId),
    ) -> Result<(), Refusal> {
        let held = self.ledger.reserve(call.len() + QUESTION_BYTES);
        let held = held.ok_or_else(Refusal::buffers_full)?;
        let (reads, client, node) = (self.reads.clone(), self.client, self.node);
        let room = self.ledger.nothing();
        let asking = async move {
            let _held = held;
            let answer = match kind {
                CallKind::Read => reads.forward(client, node, request(call)).await?,
                CallKind::Write => reads.pass(client, node, request(call)).await?,
            };
            let answer = collected(answer, room).await;
            answer.map_err(|refusal| match kind {
                CallKind::Read => refusal,
                CallKind::Write => refusal.maybe_forwarded(),
            })
        };
        let answer = Answer::Awaited(Box::pin(asking));
        let id = Some(id);
        self.push(Question { tag, id, answer })
    }

    /// Takes one whose answer is there already.
    ///
    /// # Errors
    /// There is no room for it.
    pub(super) fn answered(&mut self, text: Vec<u8>, tag: u64) -> Result<(), Refusal> {
        let held = self.ledger.reserve(text.len());
        let text = charged(text, held.ok_or_else(Refusal::buffers_full)?);
        let answer = Answer::There(Ok(text));
        self.push(Question {
            tag,
            id: None,
            answer,
        })
    }

    fn push(&mut self, question: Question) -> Result<(), Refusal> {
        if !self.has_room() {
            let text = "too many messages are under way on this WebSocket";
            return Err(Refusal::new(Reason::QueueFull, text));
        }
        self.list.push_back(question);
        Ok(())
    }

    /// What comes of the question that is the next to be answered.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        for question in self.list.iter_mut().take(MOST_UNDER_WAY) {
            if let Answer::Awaited(asking) = &mut question.answer
                && let Poll::Ready(answer) = asking.as_mut().poll(context)
            {
                question.answer = Answer::There(answer);
            }
        }
        let is_there = |question: &mut Question| matches!(question.answer, Answer::There(_));
        let Some(Question { tag, id, answer }) = self.list.pop_front_if(is_there) else {
            return Poll::Pending;
        };
        match answer {
            Answer::There(Ok(text)) => Poll::Ready(RelayEvent::Answer { tag, text }),
            Answer::There(Err(refusal)) => Poll::Ready(RelayEvent::Failed {
                tag: Some(tag),
                id,
                refusal,
            }),
            Answer::Awaited(_) => Poll::Pending,
        }
    }
}

/// A call as a request to the node. It was taken from the client's rate when it came.
fn request(call: Bytes) -> ReadRequest {
    let json = HeaderValue::from_static("application/json");
    ReadRequest {
        http_method: Method::POST,
        target: Bytes::from_static(b"/"),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
        body: call,
        method: None,
        calls: 0,
    }
}

/// An answer, complete.
async fn collected(
    mut answer: ReadAnswer<ReadBody>,
    mut room: Reservation,
) -> Result<Bytes, Refusal> {
    let mut text = Vec::new();
    while let Some(piece) = answer.body.next().await {
        let piece = piece?;
        if !room.grow(piece.len()) {
            return Err(Refusal::buffers_full());
        }
        text.extend_from_slice(&piece);
    }
    // What is no JSON-RPC is a gateway's.
    match text.trim_ascii_start().starts_with(b"{") {
        true => Ok(charged(text, room)),
        false => {
            let told = "the node answered something that cannot be read";
            Err(Refusal::new(Reason::Upstream, told))
        }
    }
}

/// What a question holds beside its text, the futures of the read lane above all.
const QUESTION_BYTES: usize = 4 << 10;
/// Questions of one WebSocket that are taken.
const MOST_QUESTIONS: usize = 64;
/// Of which so many are asked at a time, so that none waits for the round trip of the one before it.
const MOST_UNDER_WAY: usize = 4;
