//! Whose turn it is to write a large event.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// A session's turns at large events.
///
/// An event is ready for all its subscribers at the same moment, and a block of a megabyte takes each
/// session a millisecond or more to copy and write: at 128 sessions nobody else's requests were read for
/// half a second. So the sessions of a thread do it one after the other, and whatever else is ready is
/// served between two of them.
#[derive(Debug)]
pub(super) struct Turn {
    turns: PollSemaphore,
    /// An event that waits for its turn: its head and its rest.
    event: Option<(Bytes, Bytes)>,
    /// Kept until the session is polled again, and with that all that was ready before.
    taken: Option<OwnedSemaphorePermit>,
}

/// Events of fewer bytes are written without waiting for a turn.
const LARGE: usize = 64 << 10;

impl Turn {
    pub(super) fn new(turns: &Arc<Semaphore>) -> Self {
        Self {
            turns: PollSemaphore::new(Arc::clone(turns)),
            event: None,
            taken: None,
        }
    }

    /// The session is polled again: another may have its turn.
    pub(super) fn end(&mut self) {
        self.taken = None;
    }

    /// An event that came; the last one was taken out.
    pub(super) fn put(&mut self, head: Bytes, rest: Bytes) {
        self.event = Some((head, rest));
    }

    /// Whether an event waits.
    pub(super) const fn is_waiting(&self) -> bool {
        self.event.is_some()
    }

    /// The event that waits, when it may be written. The session is woken once it has had its turn.
    pub(super) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<(Bytes, Bytes)> {
        let is_large = self
            .event
            .as_ref()
            .is_some_and(|(_, rest)| rest.len() > LARGE);
        if is_large {
            if self.taken.is_some() {
                return Poll::Pending;
            }
            match self.turns.poll_acquire(context) {
                Poll::Ready(permit) => self.taken = permit,
                Poll::Pending => return Poll::Pending,
            }
            // Unlike a waker this lets the runtime look at its sockets first, which it does only every 61
            // turns of tasks else: with turns of milliseconds nobody's request would be read.
            let _ = pin!(tokio::task::yield_now()).poll(context);
        }
        self.event.take().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// At 5ff2818 128 subscribers that read nothing delayed everybody else's writes by half a second.
    #[test]
    fn sharing_71_large_events_are_written_one_session_a_turn() {
        let turns = Arc::new(Semaphore::new(1));
        let [mut first, mut second] = [(); 2].map(|()| Turn::new(&turns));
        let context = &mut Context::from_waker(Waker::noop());
        let event = |len| (Bytes::from_static(b"{"), Bytes::from(vec![b'x'; len]));
        for turn in [&mut first, &mut second] {
            let (head, rest) = event(LARGE + 1);
            turn.put(head, rest);
        }
        assert!(first.poll_event(context).is_ready());
        assert!(second.poll_event(context).is_pending() && second.is_waiting());
        // Not even the same session takes another before it is polled anew.
        let (head, rest) = event(LARGE + 1);
        first.put(head, rest);
        assert!(first.poll_event(context).is_pending());
        first.end();
        assert!(second.poll_event(context).is_ready());
        assert!(first.poll_event(context).is_pending());
        // A session that ends gives its turn back; small events need none.
        let mut third = Turn::new(&turns);
        let (head, rest) = event(LARGE);
        third.put(head, rest);
        assert!(third.poll_event(context).is_ready());
        drop(second);
        assert!(first.poll_event(context).is_ready());
    }
}
