//! What the front and the write lane exchange.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use rpc::BroadcastMethod;

use crate::budget::Reservation;
use crate::refusal::Refusal;

/// One broadcast of a client, ready to wait its turn.
#[derive(Debug)]
pub struct Write {
    /// Between whom capacity is shared.
    pub client: ClientKey,
    /// The client's connection, unique in this process.
    pub connection: u64,
    /// Comes back with the answer.
    pub tag: u64,
    /// How it was broadcast.
    pub method: BroadcastMethod,
    /// The transaction.
    pub tx: Bytes,
    /// The bytes this write occupies; returned to the ledger when it is dropped.
    pub reservation: Reservation,
    /// Where the answer goes.
    pub outbox: Arc<Outbox>,
}

/// The answer to a [`Write`].
#[derive(Debug)]
pub struct Delivery {
    /// The tag of the write.
    pub tag: u64,
    /// What became of it.
    pub answer: WriteAnswer,
}

/// What became of a write.
#[derive(Debug)]
pub enum WriteAnswer {
    /// The member that comes after `"id":…,`: `"result":{…}` or `"error":{…}`, compact JSON.
    Member(Bytes),
    /// It was not forwarded, or its end is not known.
    Refused(Refusal),
}

/// Where the answers to one connection's writes come out. Bounded by the writes under way, which
/// the queue bounds.
#[derive(Debug, Default)]
pub struct Outbox {
    ready: Mutex<VecDeque<Delivery>>,
    waker: AtomicWaker,
    closed: AtomicBool,
}

impl Outbox {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Hands an answer over; dropped silently when the connection is gone.
    pub fn deliver(&self, delivery: Delivery) {
        if self.is_closed() {
            return;
        }
        self.ready.lock().push_back(delivery);
        self.waker.wake();
    }

    /// Everything that is there, once something is.
    ///
    /// # Cancel safety
    /// Nothing is taken by a call that returned `Pending`.
    pub fn poll_take(&self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        self.waker.register(context.waker());
        let mut ready = self.ready.lock();
        if ready.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(std::mem::take(&mut *ready))
        }
    }

    /// The connection is gone.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// An outbox for one write, whose answer is awaited: dropped, nobody wants it any more.
pub(crate) struct Awaited(pub(crate) Arc<Outbox>);

impl Awaited {
    /// The answer; none if the write went without one.
    pub(crate) async fn answer(self) -> Option<WriteAnswer> {
        let answers = poll_fn(|context| self.0.poll_take(context)).await;
        answers.into_iter().next().map(|delivery| delivery.answer)
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.close();
    }
}
