//! One connection's side of the write lane: its outbox, its tags, and its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;

use super::backend::Backend;
use crate::budget::Reservation;
use crate::lane::{Delivery, Outbox, Write};
use crate::refusal::Refusal;

/// Submits the writes of one connection and takes their answers. Dropped with writes under way, it
/// takes them out of the queue: whoever has hung up wants nothing sent. What a stream has left there is dropped when its
/// turn comes.
#[derive(Debug)]
pub(crate) struct Queue<B: Backend> {
    backend: B,
    /// The connection, unique in this process.
    number: u64,
    /// Made with the first write: most idle connections never make one.
    outbox: Option<Arc<Outbox>>,
    /// Whose writes are under way. One connection of a trusted proxy serves many clients, but one
    /// after the other.
    client: Option<ClientKey>,
    under_way: usize,
    /// Whether others have the same number.
    is_stream: bool,
}

/// What one write costs the ledger beside its transaction: its place in the queue, its id, and the
/// answer that will wait for its client.
pub(crate) const WRITE_OVERHEAD: usize = 512;

impl<B: Backend> Queue<B> {
    /// No writes yet.
    pub(crate) const fn new(backend: B, number: u64) -> Self {
        Self {
            backend,
            number,
            outbox: None,
            client: None,
            under_way: 0,
            is_stream: false,
        }
    }

    /// The same for one stream of a connection: its writes stay in order with those of the others.
    pub(crate) fn of_stream(backend: B, number: u64) -> Self {
        let mut queue = Self::new(backend, number);
        queue.is_stream = true;
        queue
    }

    /// Puts a write into the client's queue. Its answer carries `tag`.
    ///
    /// # Errors
    /// Why it was not taken.
    pub(crate) fn submit(
        &mut self,
        client: ClientKey,
        tag: u64,
        (method, tx): (BroadcastMethod, Bytes),
        reservation: Reservation,
    ) -> Result<(), Refusal> {
        let outbox = self.outbox.get_or_insert_with(Outbox::new);
        self.backend.submit(Write {
            client,
            connection: self.number,
            tag,
            method,
            tx,
            reservation,
            outbox: Arc::clone(outbox),
        })?;
        self.client = Some(client);
        self.under_way += 1;
        Ok(())
    }

    /// Every answer that is there, once one is.
    pub(crate) fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<VecDeque<Delivery>> {
        let Some(outbox) = &self.outbox else {
            return Poll::Pending;
        };
        let answers = outbox.poll_take(context);
        if let Poll::Ready(answers) = &answers {
            self.under_way = self.under_way.saturating_sub(answers.len());
        }
        answers
    }

    /// Writes that have no answer yet.
    pub(crate) const fn under_way(&self) -> usize {
        self.under_way
    }
}

impl<B: Backend> Drop for Queue<B> {
    fn drop(&mut self) {
        if let Some(outbox) = &self.outbox {
            outbox.close();
        }
        let has_left = self.under_way > 0 && !self.is_stream;
        if let Some(client) = self.client.filter(|_| has_left) {
            self.backend.disconnect(client, self.number);
        }
    }
}
