//! What a session waits for before it reads the client's next message.

use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use tokio::time::Instant;

use super::client::{Client, HeldWrite, WriteTurn};
use super::message::Question;
use super::relay::NodeLink;
use crate::budget::Piece;
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::jsonrpc::KeptId;
use crate::lane::Permit;
use crate::metrics::{MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::upstream::RelayMessage;

/// The message that a session is at, if it cannot be carried out at once.
#[derive(Default)]
pub(super) struct Waiting(Option<Wait>);

/// What is waited for.
enum Wait {
    /// Room in the client's queue.
    QueueRoom {
        write: HeldWrite,
        room: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    /// Room in the relay, and the session's turn to ask.
    RelayRoom(Question),
    /// The answers to all writes before this one, which goes another way and must not overtake
    /// them.
    EarlierWrites { id: KeptId, text: Bytes },
    /// The turn of an unusual write.
    Turn(Bytes),
    /// Room in the relay for an unusual write whose turn has come.
    RelayRoomForWrite(Permit, KeptId, Bytes),
    /// The node's answer to it.
    Answer { _permit: Permit, until: Instant },
    /// The time from when on the client's rate of work has room for its last message.
    Rest(Instant),
}

/// What became of a wait.
enum Step {
    /// It goes on.
    Unchanged(Wait),
    /// Something else is waited for, or nothing.
    To(Option<Wait>),
}

impl Waiting {
    /// Whether anything is waited for.
    pub(super) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for room in the client's queue for a write.
    pub(super) fn for_queue_room(
        &mut self,
        room: impl Future<Output = ()> + Send + 'static,
        write: HeldWrite,
    ) {
        self.0 = Some(Wait::QueueRoom {
            write,
            room: Box::pin(room),
        });
    }

    /// Waits until then.
    pub(super) fn rest(&mut self, until: Instant) {
        self.0 = Some(Wait::Rest(until));
    }

    /// When what is waited for has come, or is given up, at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        match &self.0 {
            Some(Wait::Rest(until) | Wait::Answer { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// Waits for the relay to take a message.
    pub(super) fn for_relay(&mut self, question: Question) {
        self.0 = Some(Wait::RelayRoom(question));
    }

    /// Waits until an unusual write may be sent and is answered.
    pub(super) fn for_unusual(&mut self, id: KeptId, text: Bytes) {
        self.0 = Some(Wait::EarlierWrites { id, text });
    }

    /// Goes on with what is waited for: whether nothing is any more.
    pub(super) fn advance<B: Backend, IO: Stream>(
        &mut self,
        client: &mut Client<B, IO>,
        node: &mut NodeLink<B::Relay>,
        context: &mut Context<'_>,
    ) -> bool {
        while let Some(wait) = self.0.take() {
            match step(wait, client, node, context) {
                Step::To(next) => self.0 = next,
                Step::Unchanged(wait) => {
                    self.0 = Some(wait);
                    return false;
                }
            }
        }
        true
    }

    /// The turn of an unusual write has come, or never will.
    pub(super) fn turn(&mut self, turn: WriteTurn) {
        self.0 = match (self.0.take(), turn) {
            (Some(Wait::Turn(text)), WriteTurn::Granted(permit, id)) => {
                Some(Wait::RelayRoomForWrite(permit, id, text))
            }
            (Some(Wait::Turn(_)), WriteTurn::Refused) => None,
            (other, _) => other,
        };
    }

    /// Gives up waiting for the answer to an unusual write: whether it was time.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let is_late = matches!(&self.0, Some(Wait::Answer { until, .. }) if *until <= now);
        if is_late {
            self.0 = None;
        }
        is_late
    }

    /// The node has answered a write.
    pub(super) fn write_answered(&mut self) {
        if matches!(self.0, Some(Wait::Answer { .. })) {
            self.0 = None;
        }
    }

    /// Refuses the message that waits, because nothing more is taken. An unusual write that has its
    /// turn, or is in the queue, is still served.
    pub(super) fn cancel<B: Backend, IO: Stream>(&mut self, client: &mut Client<B, IO>) {
        let (class, id) = match self.0.take() {
            Some(Wait::QueueRoom { write, .. }) => {
                (MethodClass::of_broadcast(write.method), Some(write.id))
            }
            Some(Wait::Rest(_)) => return,
            Some(Wait::RelayRoom(question)) => (question.class, question.message.id),
            Some(Wait::EarlierWrites { id, .. }) => (MethodClass::BroadcastUnusual, Some(id)),
            other => {
                self.0 = other;
                return;
            }
        };
        client.count(class, OutcomeLabel::Lost);
        client.refuse(id.as_ref(), &Refusal::going_down());
    }
}

fn step<B: Backend, IO: Stream>(
    wait: Wait,
    client: &mut Client<B, IO>,
    node: &mut NodeLink<B::Relay>,
    context: &mut Context<'_>,
) -> Step {
    match wait {
        Wait::QueueRoom { write, mut room } => {
            if room.as_mut().poll(context).is_pending() {
                return Step::Unchanged(Wait::QueueRoom { write, room });
            }
            client.submit(write);
            Step::To(None)
        }
        Wait::Rest(until) if until <= Instant::now() => Step::To(None),
        Wait::RelayRoom(question)
            if node.has_room() && client.turn().poll_begin(Piece::LONG, context).is_ready() =>
        {
            client.turn().used();
            let Question { class, message } = question;
            if let Err(refusal) = node.send(client.front(), client.key(), &message, class) {
                client.reject(class, message.id.as_ref(), &refusal);
            }
            Step::To(None)
        }
        // EarlierWrites => Turn
        Wait::EarlierWrites { id, text } if client.writes_under_way() == 0 => {
            let is_queued = client.ask_turn(id);
            Step::To(is_queued.then_some(Wait::Turn(text)))
        }
        // RelayRoomForWrite => Answer
        Wait::RelayRoomForWrite(permit, id, text) if node.has_room() => {
            let class = MethodClass::BroadcastUnusual;
            let message = RelayMessage {
                text,
                id: Some(id),
                method: None,
                is_write: true,
            };
            let sent = node.send(client.front(), client.key(), &message, class);
            Step::To(match sent {
                Ok(()) => Some(Wait::Answer {
                    _permit: permit,
                    until: Instant::now() + client.front().config.upstream.write_timeout,
                }),
                Err(refusal) => {
                    client.reject(class, message.id.as_ref(), &refusal);
                    None
                }
            })
        }
        wait => Step::Unchanged(wait),
    }
}
