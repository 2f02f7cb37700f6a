//! What a session waits for before it reads the client's next message.

use std::pin::Pin;
use std::task::Context;

use tokio::time::Instant;

use super::client::{Client, HeldWrite};
use super::message::Question;
use crate::budget::Piece;
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::metrics::OutcomeLabel;
use crate::refusal::Refusal;

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
            Some(Wait::Pause(until)) => Some(*until),
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

    /// Refuses the message that waits, because nothing more is taken.
    pub(super) fn cancel<B: Backend, IO: Stream>(&mut self, client: &mut Client<B, IO>) {
        let waited = self.0.take();
        let (call, id) = match &waited {
            Some(Wait::QueueRoom { write, .. }) => (write.call.counted(), Some(&write.call.id)),
            Some(Wait::LinkRoom(question)) => (question.counted(), question.message.id.as_ref()),
            Some(Wait::Pause(_)) | None => return,
        };
        client.count(call, OutcomeLabel::Lost);
        client.refuse(call, id, &Refusal::going_down());
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
    match wait {
        Wait::QueueRoom { write, mut room } => {
            if room.as_mut().poll(context).is_pending() {
                return Err(Wait::QueueRoom { write, room });
            }
            client.submit(write);
            Ok(None)
        }
        Wait::Pause(until) if until <= Instant::now() => Ok(None),
        Wait::LinkRoom(question)
            if client.link_has_room()
                && (client.socket.turn())
                    .poll_begin(Piece::LONG, context)
                    .is_ready() =>
        {
            client.socket.turn().used();
            client.send(question);
            Ok(None)
        }
        wait => Err(wait),
    }
}
