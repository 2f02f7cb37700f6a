//! Whose turn it is to write some of a large event.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// A session's turns at large events.
///
/// An event is ready for all its subscribers at the same moment: at 128 sessions that each copied and wrote
/// a block of a megabyte nobody else's requests were read for half a second. So the sessions of a thread
/// write one after the other, a bounded piece each, and whatever else is ready is served between two of them.
#[derive(Debug)]
pub(super) struct Turn {
    turns: PollSemaphore,
    /// Kept until the session is polled again, and with that all that was ready before.
    taken: Option<OwnedSemaphorePermit>,
}

impl Turn {
    pub(super) fn new(turns: &Arc<Semaphore>) -> Self {
        Self {
            turns: PollSemaphore::new(Arc::clone(turns)),
            taken: None,
        }
    }

    /// The session is polled again, or its socket takes nothing: another may have its turn.
    pub(super) fn end(&mut self) {
        self.taken = None;
    }

    /// Whether a piece may be written, once each time that the session is polled.
    pub(super) fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.taken.is_some() {
            return Poll::Pending;
        }
        self.taken = ready!(self.turns.poll_acquire(context));
        Poll::Ready(())
    }

    /// A piece was written: the session is woken for the next one.
    pub(super) fn written(context: &mut Context<'_>) {
        // Unlike a waker this lets the runtime look at its sockets first, which it does only every 61
        // turns of tasks else.
        let _ = pin!(tokio::task::yield_now()).poll(context);
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
        assert!(first.poll_begin(context).is_ready());
        assert!(second.poll_begin(context).is_pending());
        // Not even the same session has another before it is polled anew.
        assert!(first.poll_begin(context).is_pending());
        first.end();
        assert!(second.poll_begin(context).is_ready());
        assert!(first.poll_begin(context).is_pending());
        // A session that ends gives its turn back.
        drop(second);
        assert!(first.poll_begin(context).is_ready());
    }
}
