//! The connections that wait for a turn at the processor, and the work that is left until the next look at the sockets.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;

use tokio::sync::Notify;

/// Requests, messages and answers of more bytes are long work: some 30 µs of copying, decoding and hashing.
pub(crate) const LONG_BYTES: usize = 32 << 10;

/// What is done in a turn, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct Piece(pub(super) i64);

impl Piece {
    /// Long work, or all that goes between a WebSocket and the node.
    pub(crate) const LONG: Self = Self(BETWEEN_LOOKS);

    /// For a request, message or part of an answer of so many bytes.
    pub(crate) const fn of(bytes: usize) -> Self {
        if bytes > LONG_BYTES {
            Self::LONG
        } else {
            Self(1 + (bytes / UNIT_BYTES) as i64)
        }
    }
}

/// Units of work between two looks at the sockets: at a microsecond or less for each of the smallest messages
/// that is some 0.1 ms, as for long work of the smallest size.
pub(super) const BETWEEN_LOOKS: i64 = 128;
/// Bytes of one unit: another half of a microsecond.
const UNIT_BYTES: usize = 512;

/// The work that may be done before the sockets are looked at.
#[derive(Debug)]
pub(super) struct WorkPool {
    pub(super) at_once: i64,
    /// Units that are left; the last turn may take more than there are.
    pub(super) free: AtomicI64,
    /// None are left.
    pub(super) exhausted: Notify,
}

/// The connections that wait for a turn.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    /// Bounded by the connections: each waits for one turn.
    pub(super) waiters: BTreeMap<Place, Waiter>,
    /// The virtual time: the place of the turn that was granted last.
    pub(super) clock: u64,
    pub(super) count: u64,
}

/// A place in the queue: the client's virtual time, and a number that no other place has.
pub(super) type Place = (u64, u64);

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) waker: Waker,
    pub(super) piece: Piece,
}

impl WorkPool {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Self {
        let at_once = i64::try_from(threads).unwrap_or(i64::MAX / BETWEEN_LOOKS) * BETWEEN_LOOKS;
        Self {
            at_once,
            free: AtomicI64::new(at_once),
            exhausted: Notify::new(),
        }
    }

    /// Takes a turn at this piece, if any work is left.
    pub(super) fn take(&self, piece: Piece) -> bool {
        let some_left = |free: i64| (free > 0).then(|| free - piece.0);
        let taken = (self.free).fetch_update(Ordering::Relaxed, Ordering::Relaxed, some_left);
        if taken.is_ok_and(|before| before <= piece.0) {
            self.exhausted.notify_one();
        }
        taken.is_ok()
    }
}

impl TurnQueue {
    /// A place at this virtual time, or at the present one if that is later.
    pub(super) fn push(&mut self, start: u64, waiter: Waiter) -> Place {
        self.count += 1;
        let place = (start.max(self.clock), self.count);
        self.waiters.insert(place, waiter);
        place
    }

    /// Grants turns while work is left: how much is left then.
    pub(super) fn grant(&mut self, mut free: i64) -> i64 {
        while free > 0
            && let Some((place, waiter)) = self.waiters.pop_first()
        {
            self.clock = place.0;
            free -= waiter.piece.0;
            waiter.waker.wake();
        }
        free
    }
}
