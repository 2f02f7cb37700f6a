//! The client's side of a session: its socket, its writes in the lane, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;
use slab::Slab;
use wire::ws::write_text_head;

use crate::budget::{LONG_BYTES, Reservation, Turn};
use crate::front::Shared;
use crate::front::backend::Backend;
use crate::front::queue::{Queue, WRITE_OVERHEAD};
use crate::front::socket::{Socket, Stream};
use crate::jsonrpc::KeptId;
use crate::lane::{Delivery, Permit, WriteAnswer, WriteBody};
use crate::metrics::{MethodClass, OutcomeLabel, Transport};
use crate::refusal::Refusal;
use crate::respond::{write_ws_answer, write_ws_refused};
use crate::upstream::charged;

/// One client with its socket and its writes.
pub(super) struct Client<B: Backend, IO> {
    front: Arc<Shared<B>>,
    socket: Socket<IO>,
    queue: Queue<B>,
    key: ClientKey,
    /// The writes that have no answer yet, by the tags of their answers. Bounded by the writes under
    /// way, which the client's queue and the waiters for commits bound.
    pending: Slab<PendingCall>,
}

/// A write that has no answer yet.
#[derive(Debug)]
struct PendingCall {
    id: KeptId,
    class: MethodClass,
}

/// A write that is to go into the lane, and what it may hold there.
pub(super) struct HeldWrite {
    pub(super) id: KeptId,
    pub(super) method: BroadcastMethod,
    tx: Bytes,
    room: Reservation,
}

/// Places for pending writes that are kept when nothing is under way.
const KEPT_PLACES: usize = 64;

/// What came of the turn that an unusual write waited for.
pub(super) enum WriteTurn {
    /// It may go to the node.
    Granted(Permit, KeptId),
    /// It was refused.
    Refused,
}

impl<B: Backend, IO: Stream> Client<B, IO> {
    pub(super) fn new(
        front: Arc<Shared<B>>,
        socket: Socket<IO>,
        queue: Queue<B>,
        key: ClientKey,
    ) -> Self {
        Self {
            front,
            socket,
            queue,
            key,
            pending: Slab::new(),
        }
    }

    pub(super) fn front(&self) -> &Shared<B> {
        &self.front
    }

    pub(super) const fn key(&self) -> ClientKey {
        self.key
    }

    pub(super) const fn socket(&mut self) -> &mut Socket<IO> {
        &mut self.socket
    }

    /// The session's turns at what takes long.
    pub(super) fn turn(&mut self) -> &mut Turn {
        self.socket.turn()
    }

    /// What the client is to get.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.socket.output.tail()
    }

    /// How much the client has still to take.
    pub(super) fn unsent(&self) -> usize {
        self.socket.unsent()
    }

    /// Puts an event behind what the client is to get. A long one is written from the one copy that all its
    /// readers share, in turns.
    pub(super) fn event(&mut self, head: &[u8], rest: Bytes) {
        let out = self.out();
        write_text_head(out, head.len() + rest.len());
        out.extend_from_slice(head);
        if rest.len() > LONG_BYTES {
            self.socket.share(rest);
        } else {
            out.extend_from_slice(&rest);
        }
    }

    /// Whether the client has ended its side.
    pub(super) fn is_hung_up(&self) -> bool {
        self.socket.is_hung_up()
    }

    /// Writes that have no answer yet.
    pub(super) const fn writes_under_way(&self) -> usize {
        self.queue.under_way()
    }

    /// Sets aside what a message of the client holds while it is kept; none is a refusal, which is answered.
    fn reserve(
        &mut self,
        class: MethodClass,
        id: Option<&KeptId>,
        bytes: usize,
    ) -> Option<Reservation> {
        let bytes = bytes + WRITE_OVERHEAD + id.map_or(0, KeptId::heap_bytes);
        let room = self.socket.ledger().reserve(bytes);
        if room.is_none() {
            self.reject(class, id, &Refusal::buffers_full());
        }
        room
    }

    /// A message that is kept: charged until it is dropped.
    pub(super) fn keep(
        &mut self,
        class: MethodClass,
        id: Option<&KeptId>,
        text: Bytes,
    ) -> Option<Bytes> {
        let room = self.reserve(class, id, text.len())?;
        Some(charged(text, room))
    }

    /// A write that is kept until the lane takes it.
    pub(super) fn hold(
        &mut self,
        id: KeptId,
        method: BroadcastMethod,
        tx: Bytes,
    ) -> Option<HeldWrite> {
        let class = MethodClass::of_broadcast(method);
        let room = self.reserve(class, Some(&id), tx.len())?;
        Some(HeldWrite {
            id,
            method,
            tx,
            room,
        })
    }

    /// Puts a write into the lane; false if it was refused, which is answered.
    pub(super) fn submit(&mut self, write: HeldWrite) -> bool {
        let HeldWrite {
            id,
            method,
            tx,
            room,
        } = write;
        let class = MethodClass::of_broadcast(method);
        let body = WriteBody::Tx { method, tx };
        self.queue(PendingCall { id, class }, body, room)
    }

    /// Asks for the turn of an unusual write, which is then awaited; false if it was refused, which
    /// is answered.
    pub(super) fn ask_turn(&mut self, id: KeptId) -> bool {
        let class = MethodClass::BroadcastUnusual;
        let room = self.reserve(class, Some(&id), 0);
        room.is_some_and(|room| self.queue(PendingCall { id, class }, WriteBody::Unusual, room))
    }

    fn queue(&mut self, call: PendingCall, body: WriteBody, room: Reservation) -> bool {
        let class = call.class;
        let tag = self.pending.insert(call) as u64;
        let submitted = self.queue.submit(self.key, tag, body, room);
        if let Err(refusal) = &submitted {
            let id = self.take_pending(tag).map(|call| call.id);
            self.reject(class, id.as_ref(), refusal);
        }
        submitted.is_ok()
    }

    /// The answers to writes that are there, once one is.
    pub(super) fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        self.queue.poll_answers(context)
    }

    /// Writes the answer to a write, or gives back what came of a turn.
    pub(super) fn deliver(&mut self, delivery: Delivery) -> Option<WriteTurn> {
        let call = self.take_pending(delivery.tag)?;
        match delivery.answer {
            WriteAnswer::Member(member) => {
                write_ws_answer(self.out(), Some(call.id.as_str()), &member);
                self.count(call.class, OutcomeLabel::Forwarded);
                None
            }
            WriteAnswer::Refused(refusal) => {
                self.refuse(Some(&call.id), &refusal);
                let outcome = OutcomeLabel::of_write(refusal.reason);
                self.count(call.class, outcome);
                (call.class == MethodClass::BroadcastUnusual).then_some(WriteTurn::Refused)
            }
            WriteAnswer::Permit(permit) => Some(WriteTurn::Granted(permit, call.id)),
        }
    }

    fn take_pending(&mut self, tag: u64) -> Option<PendingCall> {
        let call = self.pending.try_remove(usize::try_from(tag).ok()?);
        if self.pending.is_empty() && self.pending.capacity() > KEPT_PLACES {
            self.pending = Slab::new();
        }
        call
    }

    /// Answers a call with a refusal.
    pub(super) fn refuse(&mut self, id: Option<&KeptId>, refusal: &Refusal) {
        self.front.refused(self.key, refusal);
        write_ws_refused(self.out(), id.map(KeptId::as_str), refusal);
    }

    /// Counts a call as rejected and answers it with a refusal.
    pub(super) fn reject(&mut self, class: MethodClass, id: Option<&KeptId>, refusal: &Refusal) {
        self.count(class, OutcomeLabel::Rejected);
        self.refuse(id, refusal);
    }

    /// Counts the end of a call.
    pub(super) fn count(&self, class: MethodClass, outcome: OutcomeLabel) {
        let metrics = &self.front.metrics;
        metrics.request(Transport::Ws, class, outcome);
    }
}
