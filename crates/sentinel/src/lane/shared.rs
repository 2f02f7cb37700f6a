//! What the handles and the pump have in common.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pacing::Nanos;
use tokio::sync::Notify;

use super::state::State;
use super::status::Status;
use crate::clock::Clock;

/// The queue behind its lock, and the bell of the pump.
pub(super) struct Shared {
    state: Mutex<State>,
    status: Mutex<Status>,
    /// The node that takes the writes; `usize::MAX` while there is none.
    node: AtomicUsize,
    /// Wakes the pump.
    pub(super) wake: Notify,
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn new(state: State, clock: Clock) -> Self {
        Self {
            state: Mutex::new(state),
            status: Mutex::default(),
            node: AtomicUsize::new(usize::MAX),
            wake: Notify::new(),
            clock,
        }
    }

    /// A panic while the lock was held leaves a queue that is still whole: every section is a
    /// sequence of complete operations.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn node(&self) -> Option<usize> {
        let node = self.node.load(Ordering::Relaxed);
        (node != usize::MAX).then_some(node)
    }

    pub(super) fn set_node(&self, node: usize) {
        self.node.store(node, Ordering::Relaxed);
    }

    /// Tells the front how fast its writes go out, and until when nothing does.
    pub(super) fn publish(&self, status: Status, closed_until: Nanos) {
        let mut state = self.lock();
        state.rate = status.rate;
        state.closed_until = closed_until;
        drop(state);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    pub(super) fn status(&self) -> Status {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status = status.clone();
        let state = self.lock();
        status.queued = state.queue.len();
        status.queued_bytes = state.queue.bytes() as usize;
        status.backlogged_clients = state.queue.backlogged_clients();
        status.overflow_clients = state.queue.overflow_clients();
        (status.known_clients, status.evictions) = state.remembered();
        status.accounts = state.accounts;
        status
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
