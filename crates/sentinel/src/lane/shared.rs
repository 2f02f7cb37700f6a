//! What the handles and the worker share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use control::Bound;
use pacing::Nanos;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::queue::WriteQueue;
use super::status::Status;
use crate::clock::Clock;

/// The queue behind its lock, and what wakes the worker.
pub(super) struct Shared {
    queue: Mutex<WriteQueue>,
    status: Mutex<Status>,
    /// The node that takes the writes; `usize::MAX` while there is none.
    node: AtomicUsize,
    /// Whether the node takes writes and answers: whoever is told that a write was taken may count on it.
    is_answering: AtomicBool,
    /// Wakes the worker.
    pub(super) wake: Notify,
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn new(queue: WriteQueue, clock: Clock) -> Self {
        // Until the worker has published the first one.
        let status = Status {
            bound: Bound::NodeDown { since: clock.now() },
            ..Status::default()
        };
        Self {
            queue: Mutex::new(queue),
            status: Mutex::new(status),
            node: AtomicUsize::new(usize::MAX),
            is_answering: AtomicBool::new(false),
            wake: Notify::new(),
            clock,
        }
    }

    /// The queue. A panic while the lock was held leaves one that is still whole: every section is a
    /// sequence of complete operations.
    pub(super) fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock()
    }

    pub(super) fn node(&self) -> Option<usize> {
        let node = self.node.load(Ordering::Relaxed);
        (node != usize::MAX).then_some(node)
    }

    pub(super) fn set_node(&self, node: usize) {
        self.node.store(node, Ordering::Relaxed);
    }

    pub(super) fn is_answering(&self) -> bool {
        self.is_answering.load(Ordering::Relaxed)
    }

    pub(super) fn set_answering(&self, is_answering: bool) {
        self.is_answering.store(is_answering, Ordering::Relaxed);
    }

    /// Tells the front how fast its writes go out, and until when nothing does.
    pub(super) fn publish(&self, status: Status, closed_until: Nanos) {
        self.lock().set_pace(status.served, closed_until);
        *self.status.lock() = status;
    }

    pub(super) fn status(&self) -> Status {
        let mut status = self.status.lock().clone();
        self.lock().fill(&mut status);
        status
    }
}
