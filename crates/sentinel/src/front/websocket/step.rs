//! Reads a client's messages, one frame after the other.

use std::task::{Context, Poll};

use bytes::Bytes;
use rpc::BroadcastMethod;

use super::message::{Act, Read, judge};
use super::pending::Asked;
use super::stall::Stalled;
use super::{End, Session};
use crate::front::backend::Backend;
use crate::front::buffer::READ_BYTES;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::jsonrpc::KeptId;
use crate::lane::WriteBody;
use crate::metrics::{LaneLabel, MethodClass, OutcomeLabel, Transport};
use crate::refusal::Refusal;
use wire::ws::{Step, write_pong};

impl<B: Backend, IO: Stream> Session<B, IO> {
    /// Takes the messages that were read, then reads once: whether there was anything.
    pub(super) fn take_messages(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let mut progress = false;
        loop {
            if !self.unstall(context) || self.is_backed_up() || self.is_leaving {
                return Ok(progress);
            }
            match self.take_frame()? {
                Taken::Frame => progress = true,
                Taken::Incomplete(needed) => {
                    return Ok(self.read(needed, context)? || progress);
                }
            }
        }
    }

    /// Reads more of a frame that needs so many bytes in all.
    fn read(&mut self, needed: usize, context: &mut Context<'_>) -> Result<bool, End> {
        if needed > READ_BYTES {
            let whole = needed + self.reader.held_bytes();
            if !self.socket.expect(whole) {
                return Err(Ended::Full.into());
            }
            let missing = needed.saturating_sub(self.socket.input.len());
            self.socket.input.make_room(missing);
        }
        match self.socket.poll_read(context) {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(ended)) => Err(ended.into()),
            Poll::Pending => Ok(false),
        }
    }

    fn take_frame(&mut self) -> Result<Taken, End> {
        if self.socket.input.is_empty() {
            return Ok(Taken::Incomplete(0));
        }
        let step = self.reader.next(self.socket.input.filled_mut());
        let step = step.map_err(|error| End::Say(error.close_code(), error.to_string()))?;
        let (used, act) = match step {
            Step::Incomplete { needed } => return Ok(Taken::Incomplete(needed)),
            Step::Event { used, event } => (used, judge(&event, &self.front.json_limits)),
        };
        self.socket.input.consume(used);
        self.clocks.heard();
        self.act(act)?;
        Ok(Taken::Frame)
    }

    fn act(&mut self, act: Act) -> Result<(), End> {
        match act {
            Act::Nothing => {}
            Act::Write { id, method, tx } => {
                if self.front.backend.has_room(self.client) {
                    self.submit(id, method, tx);
                } else {
                    let backend = self.front.backend.clone();
                    let client = self.client;
                    let room = Box::pin(async move { backend.room(client).await });
                    self.stalled = Some(Stalled::Write {
                        id,
                        method,
                        tx,
                        room,
                    });
                }
            }
            Act::Unusual { id, text } => self.stalled = Some(Stalled::Unusual { id, text }),
            Act::Relay(read) => self.relay(read),
            Act::Refuse(refusal) => {
                self.count_read(MethodClass::Other, OutcomeLabel::Rejected);
                self.refuse(None, &refusal);
            }
            Act::Pong(payload) => {
                if self.clocks.may_pong() {
                    write_pong(self.socket.output.tail(), &payload);
                }
            }
            Act::Leave(Some(code)) => return Err(End::Say(code, String::new())),
            Act::Leave(None) => return Err(End::Echo),
        }
        Ok(())
    }

    /// Puts a write into the lane.
    pub(super) fn submit(&mut self, id: KeptId, method: BroadcastMethod, tx: Bytes) {
        let class = MethodClass::of(method.name());
        let bytes = tx.len();
        if let Err(refusal) =
            self.try_submit(Asked { id, class }, WriteBody::Tx { method, tx }, bytes)
        {
            let (id, refusal) = *refusal;
            self.count_write(class, OutcomeLabel::Rejected);
            self.refuse(Some(id.as_str()), &refusal);
        }
    }

    /// Puts something into the lane; on refusal the id comes back.
    pub(super) fn try_submit(
        &mut self,
        asked: Asked,
        body: WriteBody,
        bytes: usize,
    ) -> Result<(), Box<(KeptId, Refusal)>> {
        let room = bytes + WRITE_OVERHEAD + asked.id.heap_bytes();
        let Some(room) = self.socket.ledger().reserve(room) else {
            return Err(Box::new((asked.id, Refusal::buffers_full())));
        };
        let tag = self.pending.insert(asked);
        match self.queue.submit(self.client, tag, body, room) {
            Ok(()) => Ok(()),
            Err(refusal) => {
                let asked = self.pending.remove(tag);
                let id = asked.map_or_else(|| KeptId::new("null"), |asked| asked.id);
                Err(Box::new((id, refusal)))
            }
        }
    }

    /// Checks a message that is no write and lets it wait for the relay.
    fn relay(&mut self, read: Read) {
        let backend = &self.front.backend;
        let checked = match &read.method {
            Some(method) => backend.check_method(method),
            None => Ok(()),
        };
        match checked.and_then(|()| backend.admit(self.client, 1)) {
            Ok(()) => self.stalled = Some(Stalled::Relay(read)),
            Err(refusal) => {
                self.count_read(read.class, OutcomeLabel::Rejected);
                self.refuse(read.id.as_ref().map(KeptId::as_str), &refusal);
            }
        }
    }

    pub(super) fn count_read(&self, class: MethodClass, outcome: OutcomeLabel) {
        let metrics = &self.front.metrics;
        metrics.request(Transport::Ws, LaneLabel::Read, class, outcome);
    }

    pub(super) fn count_write(&self, class: MethodClass, outcome: OutcomeLabel) {
        let metrics = &self.front.metrics;
        metrics.request(Transport::Ws, LaneLabel::Write, class, outcome);
    }
}

/// What the input came to.
enum Taken {
    /// A frame was taken.
    Frame,
    /// There is none; it would need so many bytes.
    Incomplete(usize),
}
