//! The client's side of a session: its socket, its calls, and their answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;
use slab::Slab;
use wire::ws::write_text_head;

use crate::budget::{LONG_BYTES, Reservation};
use crate::front::Shared;
use crate::front::backend::Backend;
use crate::front::queue::{Queue, WRITE_OVERHEAD};
use crate::front::socket::{Socket, Stream};
use crate::lane::{Delivery, WriteAnswer};
use crate::metrics::{MethodClass, OutcomeLabel, Transport};
use crate::refusal::Refusal;
use crate::respond::KeptId;
use crate::respond::{write_ws_answer, write_ws_refused};
use crate::upstream::{RelayEvent, RelayLink as _, RelayMessage, charged};

/// One client with its socket and its calls.
pub(super) struct Client<B: Backend, IO> {
    pub(super) front: Arc<Shared<B>>,
    pub(super) socket: Socket<IO>,
    pub(super) key: ClientKey,
    queue: Queue<B>,
    /// The writes that have no answer yet, by the tags of their answers. Bounded by the writes under
    /// way, which the client's queue and the waiters for commits bound.
    pending: Slab<PendingCall>,
    /// Where all other messages go; made for the first of them.
    link: Option<Box<B::Relay>>,
    /// Messages that the link has not answered.
    unanswered: usize,
}

/// A write that has no answer yet.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) id: KeptId,
    pub(super) method: BroadcastMethod,
}

impl PendingCall {
    /// How it is counted.
    pub(super) const fn class(&self) -> MethodClass {
        MethodClass::of_broadcast(self.method)
    }
}

/// A write that is to go into the lane, and what it may hold there.
pub(super) struct HeldWrite {
    pub(super) call: PendingCall,
    tx: Bytes,
    room: Reservation,
}

/// Places for pending writes that are kept when nothing is under way.
const KEPT_PLACES: usize = 64;

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
            key,
            queue,
            pending: Slab::new(),
            link: None,
            unanswered: 0,
        }
    }

    /// Whether its network was banned since it came. A ban concerns whole clients, so any address of the client will do;
    /// rules may tell addresses of one client apart.
    pub(super) fn is_banned(&self) -> bool {
        let address = self.key.network().address();
        self.front.identities.is_banned(address) && !self.front.shadow.is_on()
    }

    /// What the client is to get.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        self.socket.output.tail()
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

    /// Whether the client has so much to take that nothing more is taken from the node.
    pub(super) fn is_behind(&self) -> bool {
        self.socket.is_sharing() || self.socket.unsent() > self.front.config.fixed().out_bytes / 2
    }

    /// Whether the client has so much to take, or so many questions open, that it is not asked for
    /// more.
    pub(super) fn is_backed_up(&self) -> bool {
        let fixed = self.front.config.fixed();
        self.socket.unsent() > fixed.out_bytes / 4 || self.unanswered >= fixed.reads_per_client
    }

    /// Sets aside what a message of the client holds while it is kept; none is a refusal, which is answered.
    fn reserve(
        &mut self,
        class: MethodClass,
        id: Option<&KeptId>,
        bytes: usize,
    ) -> Option<Reservation> {
        let long = id.filter(|id| id.is_heap_allocated());
        let bytes = bytes + WRITE_OVERHEAD + long.map_or(0, |id| id.len());
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
    pub(super) fn hold(&mut self, call: PendingCall, tx: Bytes) -> Option<HeldWrite> {
        let room = self.reserve(call.class(), Some(&call.id), tx.len())?;
        Some(HeldWrite { call, tx, room })
    }

    /// Puts a write into the lane; false if it was refused, which is answered.
    pub(super) fn submit(&mut self, write: HeldWrite) -> bool {
        let HeldWrite { call, tx, room } = write;
        let write = (call.method, tx);
        let tag = self.pending.insert(call) as u64;
        let submitted = self.queue.submit(self.key, tag, write, room);
        if let Err(refusal) = &submitted
            && let Some(call) = self.take_pending(tag)
        {
            self.reject(call.class(), Some(&call.id), refusal);
        }
        submitted.is_ok()
    }

    /// Writes that have no answer yet.
    pub(super) const fn writes_under_way(&self) -> usize {
        self.queue.under_way()
    }

    /// The answers to writes that are there, once one is.
    pub(super) fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        self.queue.poll_answers(context)
    }

    /// Writes the answer to a write.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        let Some(call) = self.take_pending(delivery.tag) else {
            return;
        };
        match delivery.answer {
            WriteAnswer::Member(member) => {
                write_ws_answer(self.out(), Some(call.id.as_str()), &member);
                self.count(call.class(), OutcomeLabel::Forwarded);
            }
            WriteAnswer::Refused(refusal) => {
                self.refuse(Some(&call.id), &refusal);
                self.count(call.class(), OutcomeLabel::of_write(refusal.reason));
            }
        }
    }

    fn take_pending(&mut self, tag: u64) -> Option<PendingCall> {
        let call = self.pending.try_remove(usize::try_from(tag).ok()?);
        if self.pending.is_empty() && self.pending.capacity() > KEPT_PLACES {
            self.pending = Slab::new();
        }
        call
    }

    /// Whether something may come from the node.
    pub(super) const fn has_link(&self) -> bool {
        self.link.is_some()
    }

    /// Whether the link takes another message. There is always room in one that is not made yet.
    pub(super) fn link_has_room(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.has_room())
    }

    /// Sends a message to the node; false if it was refused, which is answered. Its tag is its class: that is all that
    /// has to be known of one that is answered.
    pub(super) fn send(&mut self, message: &RelayMessage, class: MethodClass) -> bool {
        let make = || Box::new(self.front.backend.relay(self.key));
        let link = self.link.get_or_insert_with(make);
        let sent = link.send(message, class as u64);
        match &sent {
            Ok(()) => self.unanswered += 1,
            Err(refusal) => self.reject(class, message.id.as_ref(), refusal),
        }
        sent.is_ok()
    }

    /// What came from the node.
    pub(super) fn poll_link(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        match &mut self.link {
            Some(link) => link.poll_event(context),
            None => Poll::Pending,
        }
    }

    /// A message with this tag was answered.
    pub(super) fn answered(&mut self, tag: u64, outcome: OutcomeLabel) {
        self.unanswered = self.unanswered.saturating_sub(1);
        let place = usize::try_from(tag).ok();
        let class = place.and_then(|place| MethodClass::ALL.get(place).copied());
        self.count(class.unwrap_or(MethodClass::Other), outcome);
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
        let ended = crate::access::Ended {
            client: self.key,
            call: Some((Transport::Ws, class)),
            seen: None,
        };
        self.front.ended(ended, outcome);
    }
}
