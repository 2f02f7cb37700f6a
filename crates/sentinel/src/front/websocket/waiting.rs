//! What a session waits for before it reads the client's next message.

use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use tokio::time::Instant;

use super::client::{Client, HeldWrite, PendingCall, WriteTurn};
use super::message::Question;
use crate::budget::Piece;
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::lane::{Permit, WriteBody};
use crate::metrics::{MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::respond::KeptId;
use crate::upstream::RelayMessage;

/// The message that a session is at, if it cannot be carried out at once.
#[derive(Default)]
pub(super) struct Waiting(Option<Wait>);

/// What is waited for.
pub(super) enum Wait {
    /// Room in the client's queue.
    QueueRoom {
        write: HeldWrite,
        room: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    /// Room in the link to the node, and the session's turn to ask.
    LinkRoom(Question),
    /// The answers to all writes before this one, which goes another way and must not overtake
    /// them.
    EarlierWrites { id: KeptId, text: Bytes },
    /// The turn of an unusual write.
    Turn(Bytes),
    /// Room in the link for an unusual write whose turn has come.
    LinkRoomForWrite(Permit, KeptId, Bytes),
    /// The node's answer to it.
    Answer { _permit: Permit, until: Instant },
    /// The time from when on the client's rate of work has room for its last message.
    Pause(Instant),
}

impl Waiting {
    /// Waits for this. Nothing is waited for yet.
    pub(super) fn begin(&mut self, wait: Wait) {
        self.0 = Some(wait);
    }

    /// Whether anything is waited for.
    pub(super) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// When what is waited for has come, or is given up, at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        match &self.0 {
            Some(Wait::Pause(until) | Wait::Answer { until, .. }) => Some(*until),
            _ => None,
        }
    }

    /// Goes on with what is waited for: whether nothing is any more.
    pub(super) fn advance<B: Backend, IO: Stream>(
        &mut self,
        client: &mut Client<B, IO>,
        context: &mut Context<'_>,
    ) -> bool {
        while let Some(wait) = self.0.take() {
            match step(wait, client, context) {
                Ok(next) => self.0 = next,
                Err(wait) => {
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
                Some(Wait::LinkRoomForWrite(permit, id, text))
            }
            (Some(Wait::Turn(_)), WriteTurn::Refused) => None,
            (other, _) => other,
        };
    }

    /// Gives up waiting for the answer to an unusual write: whether it was time.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let answer = |wait: &mut Wait| matches!(wait, Wait::Answer { until, .. } if *until <= now);
        self.0.take_if(answer).is_some()
    }

    /// The node has answered a write.
    pub(super) fn write_answered(&mut self) {
        self.0.take_if(|wait| matches!(wait, Wait::Answer { .. }));
    }

    /// Refuses the message that waits, because nothing more is taken. An unusual write that has its
    /// turn, or is in the queue, is still served.
    pub(super) fn cancel<B: Backend, IO: Stream>(&mut self, client: &mut Client<B, IO>) {
        let (class, id) = match self.0.take() {
            Some(Wait::QueueRoom { write, .. }) => (write.call.class, Some(write.call.id)),
            Some(Wait::Pause(_)) => return,
            Some(Wait::LinkRoom(question)) => (question.class, question.message.id),
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

/// What is waited for next, if anything.
///
/// # Errors
/// The same as before.
fn step<B: Backend, IO: Stream>(
    wait: Wait,
    client: &mut Client<B, IO>,
    context: &mut Context<'_>,
) -> Result<Option<Wait>, Wait> {
    let class = MethodClass::BroadcastUnusual;
    match wait {
        Wait::QueueRoom { write, mut room } => {
            if room.as_mut().poll(context).is_pending() {
                return Err(Wait::QueueRoom { write, room });
            }
            client.submit(write);
            Ok(None)
        }
        Wait::Pause(until) if until <= Instant::now() => Ok(None),
        Wait::LinkRoom(Question { class, message })
            if client.link_has_room()
                && (client.socket.turn())
                    .poll_begin(Piece::LONG, context)
                    .is_ready() =>
        {
            client.socket.turn().used();
            client.send(&message, class);
            Ok(None)
        }
        // EarlierWrites => Turn
        Wait::EarlierWrites { id, text } if client.writes_under_way() == 0 => {
            let write = client.hold(PendingCall { id, class }, WriteBody::Unusual);
            let is_queued = write.is_some_and(|write| client.submit(write));
            Ok(is_queued.then_some(Wait::Turn(text)))
        }
        // LinkRoomForWrite => Answer
        Wait::LinkRoomForWrite(permit, id, text) if client.link_has_room() => {
            let message = RelayMessage {
                text,
                id: Some(id),
                method: None,
                is_write: true,
            };
            let until = Instant::now() + client.front.config.upstream.write_timeout;
            let is_sent = client.send(&message, class);
            Ok(is_sent.then_some(Wait::Answer {
                _permit: permit,
                until,
            }))
        }
        wait => Err(wait),
    }
}
