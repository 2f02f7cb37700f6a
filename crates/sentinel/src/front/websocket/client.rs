//! The client's side of a session: its socket, its calls and their answers, and what the session waits for before it reads
//! the client's next message.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;
use slab::Slab;
use tokio::time::Instant;
use wire::ws::write_text_head;

use super::message::{Counted, Question};
use crate::access::{Ended, Seen};
use crate::budget::{LONG_BYTES, Piece, Reservation};
use crate::front::Shared;
use crate::front::backend::{Backend, Queue, WRITE_OVERHEAD};
use crate::front::socket::{Socket, Stream};
use crate::lane::{Delivery, WriteAnswer};
use crate::metrics::{MethodClass, OutcomeLabel, Transport};
use crate::refusal::Refusal;
use crate::respond::{KeptId, refusal_member, write_ws_answer};
use crate::upstream::{RelayEvent, RelayLink as _, charged};

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
    /// Messages that the link has not answered, by the tags of their answers.
    asked: Slab<(MethodClass, Option<Box<Seen>>)>,
}

/// A write that has no answer yet.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) id: KeptId,
    pub(super) method: BroadcastMethod,
    pub(super) seen: Option<Box<Seen>>,
}

impl PendingCall {
    /// How it is counted.
    pub(super) fn counted(&self) -> Counted<'_> {
        (MethodClass::of_broadcast(self.method), self.seen.as_deref())
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
            asked: Slab::new(),
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
        self.socket.unsent() > fixed.out_bytes / 4 || self.asked.len() >= fixed.reads_per_client
    }

    /// Sets aside what a message of the client holds while it is kept; none is a refusal, which is answered.
    fn reserve(
        &mut self,
        call: Counted<'_>,
        id: Option<&KeptId>,
        bytes: usize,
    ) -> Option<Reservation> {
        let long = id.filter(|id| id.is_heap_allocated());
        let bytes = bytes + WRITE_OVERHEAD + long.map_or(0, |id| id.len());
        let room = self.socket.ledger().reserve(bytes);
        if room.is_none() {
            self.reject(call, id, &Refusal::buffers_full());
        }
        room
    }

    /// A message that is kept: charged until it is dropped.
    pub(super) fn keep(&mut self, mut question: Question) -> Option<Question> {
        let (call, id) = (question.counted(), question.message.id.as_ref());
        let room = self.reserve(call, id, question.message.text.len())?;
        question.message.text = charged(question.message.text, room);
        Some(question)
    }

    /// A write that is kept until the lane takes it.
    pub(super) fn hold(&mut self, call: PendingCall, tx: Bytes) -> Option<HeldWrite> {
        let room = self.reserve(call.counted(), Some(&call.id), tx.len())?;
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
            self.reject(call.counted(), Some(&call.id), refusal);
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
                self.count(call.counted(), OutcomeLabel::Forwarded);
            }
            WriteAnswer::Refused(refusal) => {
                self.refuse(call.counted(), Some(&call.id), &refusal);
                self.count(call.counted(), OutcomeLabel::of_write(refusal.reason));
            }
        }
    }

    fn take_pending(&mut self, tag: u64) -> Option<PendingCall> {
        let call = self.pending.try_remove(tag as usize);
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

    /// Sends a message to the node; false if it was refused, which is answered.
    pub(super) fn send(&mut self, question: Question) -> bool {
        let make = || Box::new(self.front.backend.relay(self.key));
        let link = self.link.get_or_insert_with(make);
        let place = self.asked.vacant_entry();
        match link.send(&question.message, place.key() as u64) {
            Ok(()) => {
                place.insert((question.class, question.seen));
                true
            }
            Err(refusal) => {
                self.reject(question.counted(), question.message.id.as_ref(), &refusal);
                false
            }
        }
    }

    /// What came from the node.
    pub(super) fn poll_link(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        match &mut self.link {
            Some(link) => link.poll_event(context),
            None => Poll::Pending,
        }
    }

    /// A message with this tag was answered, or is now, with a refusal.
    pub(super) fn answered(&mut self, tag: u64, refused: Option<(KeptId, Refusal)>) {
        let Some((class, seen)) = self.asked.try_remove(tag as usize) else {
            return;
        };
        let call = (class, seen.as_deref());
        let Some((id, refusal)) = refused else {
            return self.count(call, OutcomeLabel::Forwarded);
        };
        self.refuse(call, Some(&id), &refusal);
        self.count(call, OutcomeLabel::Lost);
    }

    /// What is written down of a message that begins now.
    pub(super) fn seen(&self) -> Option<Box<Seen>> {
        self.front.see(|_| None::<&[u8]>).map(Box::new)
    }

    /// Answers a call with a refusal.
    pub(super) fn refuse(&mut self, call: Counted<'_>, id: Option<&KeptId>, refusal: &Refusal) {
        self.front.refused_call(self.ended(call), refusal);
        let id = id.map(KeptId::as_str);
        write_ws_answer(self.out(), id, &refusal_member(refusal));
    }

    /// Counts a call as rejected and answers it with a refusal.
    pub(super) fn reject(&mut self, call: Counted<'_>, id: Option<&KeptId>, refusal: &Refusal) {
        self.count(call, OutcomeLabel::Rejected);
        self.refuse(call, id, refusal);
    }

    /// Counts the end of a call.
    pub(super) fn count(&self, call: Counted<'_>, outcome: OutcomeLabel) {
        self.front.ended(self.ended(call), outcome);
    }
}

impl<B: Backend, IO> Client<B, IO> {
    /// It has gone away, and so waits for none of its calls.
    pub(super) fn leave(&self, waiting: Option<Counted<'_>>) {
        let writes = self.pending.iter().map(|(_, call)| call.counted());
        let others = self.asked.iter();
        let others = others.map(|(_, (class, seen))| (*class, seen.as_deref()));
        for call in waiting.into_iter().chain(writes).chain(others) {
            self.front.abandoned(self.ended(call));
        }
    }

    fn ended<'a>(&self, (class, seen): Counted<'a>) -> Ended<'a> {
        Ended {
            client: self.key,
            call: Some((Transport::Ws, class)),
            seen,
        }
    }
}

/// What is waited for before the message that a session is at can be carried out.
pub(super) enum Wait {
    /// Room in the client's queue.
    QueueRoom {
        write: HeldWrite,
        room: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    /// Room in the link to the node, and the session's turn to ask.
    LinkRoom(Question),
    /// The time from when on the client's rate of work has room for its last message.
    Pause(Instant),
}

impl Wait {
    /// The call that waits, if one does, and the id of its answer.
    pub(super) fn call(&self) -> Option<(Counted<'_>, Option<&KeptId>)> {
        match self {
            Self::QueueRoom { write, .. } => Some((write.call.counted(), Some(&write.call.id))),
            Self::LinkRoom(question) => Some((question.counted(), question.message.id.as_ref())),
            Self::Pause(_) => None,
        }
    }

    /// When it is over at the latest.
    pub(super) const fn until(&self) -> Option<Instant> {
        match self {
            Self::Pause(until) => Some(*until),
            Self::QueueRoom { .. } | Self::LinkRoom(_) => None,
        }
    }
}

/// Goes on with what is waited for: whether nothing is any more.
pub(super) fn advance<B: Backend, IO: Stream>(
    waiting: &mut Option<Wait>,
    client: &mut Client<B, IO>,
    context: &mut Context<'_>,
) -> bool {
    let waited = waiting.take();
    *waiting = waited.and_then(|wait| step(wait, client, context));
    waiting.is_none()
}

/// Refuses the message that waits, because nothing more is taken.
pub(super) fn cancel<B: Backend, IO: Stream>(
    waiting: &mut Option<Wait>,
    client: &mut Client<B, IO>,
) {
    let waited = waiting.take();
    if let Some((call, id)) = waited.as_ref().and_then(Wait::call) {
        client.count(call, OutcomeLabel::Lost);
        client.refuse(call, id, &Refusal::going_down());
    }
}

/// What is still waited for, if it has not come.
fn step<B: Backend, IO: Stream>(
    wait: Wait,
    client: &mut Client<B, IO>,
    context: &mut Context<'_>,
) -> Option<Wait> {
    match wait {
        Wait::QueueRoom { write, mut room } => {
            if room.as_mut().poll(context).is_pending() {
                return Some(Wait::QueueRoom { write, room });
            }
            client.submit(write);
            None
        }
        Wait::Pause(until) if until <= Instant::now() => None,
        Wait::LinkRoom(question)
            if client.link_has_room()
                && (client.socket.turn())
                    .poll_begin(Piece::LONG, context)
                    .is_ready() =>
        {
            client.socket.turn().used();
            client.send(question);
            None
        }
        wait => Some(wait),
    }
}
