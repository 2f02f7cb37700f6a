//! What a session waits for before it reads the client's next message.

use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use rpc::BroadcastMethod;
use tokio::time::Instant;

use super::Session;
use super::message::Read;
use super::pending::Asked;
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::jsonrpc::KeptId;
use crate::lane::{Permit, WriteBody};
use crate::metrics::{MethodClass, OutcomeLabel};
use crate::refusal::{Reason, Refusal};

/// What a session waits for.
pub(super) enum Stalled {
    /// For room in the client's queue.
    Write {
        id: KeptId,
        method: BroadcastMethod,
        tx: Bytes,
        room: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    /// For the relay to take a message.
    Relay(Read),
    /// For the answers to all writes before this one, which goes another way and must not
    /// overtake them.
    Unusual { id: KeptId, text: Bytes },
    /// For the turn of an unusual write.
    Turn(Bytes),
    /// For the relay to take an unusual write whose turn has come.
    Take(Permit, KeptId, Bytes),
    /// For the node's answer to it.
    Answer { _permit: Permit, until: Instant },
}

impl<B: Backend, IO: Stream> Session<B, IO> {
    /// Goes on with what is waited for: whether nothing is any more.
    pub(super) fn unstall(&mut self, context: &mut Context<'_>) -> bool {
        while let Some(stalled) = self.stalled.take() {
            let (stalled, moved) = self.try_unstall(stalled, context);
            self.stalled = stalled;
            if !moved {
                return false;
            }
        }
        true
    }

    /// What is waited for now, and whether that is something else than before.
    fn try_unstall(
        &mut self,
        stalled: Stalled,
        context: &mut Context<'_>,
    ) -> (Option<Stalled>, bool) {
        match stalled {
            Stalled::Write {
                id,
                method,
                tx,
                mut room,
            } => {
                if room.as_mut().poll(context).is_pending() {
                    let stalled = Stalled::Write {
                        id,
                        method,
                        tx,
                        room,
                    };
                    return (Some(stalled), false);
                }
                self.submit(id, method, tx);
                (None, true)
            }
            Stalled::Relay(read) if !self.way_has_room() => (Some(Stalled::Relay(read)), false),
            Stalled::Relay(read) => {
                if let Err(refusal) = self.send(&read.text, read.class) {
                    self.count_read(read.class, OutcomeLabel::Rejected);
                    self.refuse(read.id.as_ref().map(KeptId::as_str), &refusal);
                }
                (None, true)
            }
            Stalled::Unusual { id, text } if self.queue.under_way() > 0 => {
                (Some(Stalled::Unusual { id, text }), false)
            }
            Stalled::Unusual { id, text } => (self.queue_unusual(id, text), true),
            Stalled::Take(permit, id, text) if !self.way_has_room() => {
                (Some(Stalled::Take(permit, id, text)), false)
            }
            Stalled::Take(permit, id, text) => (self.send_unusual(permit, &id, &text), true),
            Stalled::Turn(_) | Stalled::Answer { .. } => (Some(stalled), false),
        }
    }

    /// Asks for the turn of an unusual write.
    fn queue_unusual(&mut self, id: KeptId, text: Bytes) -> Option<Stalled> {
        let class = MethodClass::BroadcastUnusual;
        let bytes = text.len();
        match self.try_submit(Asked { id, class }, WriteBody::Unusual, bytes) {
            Ok(()) => Some(Stalled::Turn(text)),
            Err(refused) => {
                let (id, refusal) = *refused;
                self.count_write(class, OutcomeLabel::Rejected);
                self.refuse(Some(id.as_str()), &refusal);
                None
            }
        }
    }

    /// Sends an unusual write whose turn has come.
    fn send_unusual(&mut self, permit: Permit, id: &KeptId, text: &Bytes) -> Option<Stalled> {
        let class = MethodClass::BroadcastUnusual;
        match self.send(text, class) {
            Ok(()) => Some(Stalled::Answer {
                _permit: permit,
                until: Instant::now() + self.front.config.upstream.write_timeout,
            }),
            Err(refusal) => {
                self.count_write(class, OutcomeLabel::Rejected);
                self.refuse(Some(id.as_str()), &refusal);
                None
            }
        }
    }

    /// An unusual write may go to the node.
    pub(super) fn turn_has_come(&mut self, permit: Permit, asked: Asked) {
        if let Some(Stalled::Turn(text)) = self.stalled.take() {
            self.stalled = Some(Stalled::Take(permit, asked.id, text));
        }
    }

    /// A queued write was refused: if it was the unusual one, nothing is waited for any more.
    pub(super) fn turn_is_over(&mut self) {
        if matches!(self.stalled, Some(Stalled::Turn(_))) {
            self.stalled = None;
        }
    }

    /// Gives up waiting for the answer to an unusual write: whether it was time.
    pub(super) fn turn_is_late(&mut self, now: Instant) -> bool {
        let is_late = matches!(&self.stalled, Some(Stalled::Answer { until, .. }) if *until <= now);
        if is_late {
            self.stalled = None;
        }
        is_late
    }

    /// The node has answered an unusual write.
    pub(super) fn turn_is_answered(&mut self) {
        if matches!(self.stalled, Some(Stalled::Answer { .. })) {
            self.stalled = None;
        }
    }

    /// Refuses what waits, because nothing more is taken.
    pub(super) fn drop_stalled(&mut self) {
        let refusal = Refusal::new(Reason::Shutdown, "the proxy is going down");
        match self.stalled.take() {
            Some(Stalled::Write { id, method, .. }) => {
                self.count_write(MethodClass::of(method.name()), OutcomeLabel::Lost);
                self.refuse(Some(id.as_str()), &refusal);
            }
            Some(Stalled::Relay(read)) => {
                self.count_read(read.class, OutcomeLabel::Lost);
                self.refuse(read.id.as_ref().map(KeptId::as_str), &refusal);
            }
            Some(Stalled::Unusual { id, .. }) => {
                self.count_write(MethodClass::BroadcastUnusual, OutcomeLabel::Lost);
                self.refuse(Some(id.as_str()), &refusal);
            }
            // What has its turn, or is in the queue, is still served.
            other => self.stalled = other,
        }
    }
}
