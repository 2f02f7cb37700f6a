//! The transactions on one connection: queued, sent, answered; the request that is put together, and what is signed
//! again for it.

use std::collections::VecDeque;

use measure::{Answered, Failure, Reply, Sent, Unsent, UnsentReason, hash_prefix};
use pacing::Nanos;

use crate::protocol::{Framing, Protocol, TxStream, WorkloadError};
use crate::source::Prepared;

/// What is on a connection, in the order of sending. Indices ascend.
#[derive(Debug)]
pub(super) struct Requests {
    /// Queued, but the last byte has not been handed to the socket.
    writing: VecDeque<Writing>,
    /// Sent and not answered; answered ones leave holes until they are first.
    waiting: VecDeque<Waiting>,
    /// Live entries of `waiting`.
    unanswered: usize,
    /// Indices that were given up, [`MOST_GIVEN_UP`] of the last: their answers may still come.
    given_up: VecDeque<u64>,
    /// From when on an answer is slow, by the last one that can show it; until it is taken.
    slow: Option<Nanos>,
    /// How long the last one took; [`Nanos::MAX`] when it was given up.
    last_took: Nanos,
}

#[derive(Debug, Clone, Copy)]
struct Writing {
    /// Offset behind the last byte of its request in the connection's stream.
    end: u64,
    sent: Sent,
    /// How much longer than this one an answer takes at least that waits in a queue, when no connection has room; `None`
    /// where too many were under way already.
    unqueued: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: u64,
    hash_prefix: u64,
    sent: Nanos,
    /// As in [`Writing`]: it distinguishes requests.
    request: u64,
    /// As in [`Writing`].
    unqueued: Option<u64>,
    answered: bool,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            writing: VecDeque::new(),
            waiting: VecDeque::new(),
            unanswered: 0,
            given_up: VecDeque::new(),
            slow: None,
            last_took: Nanos::ZERO,
        }
    }
}

impl Requests {
    /// Transactions that are queued or unanswered.
    pub(super) fn len(&self) -> usize {
        self.writing.len() + self.unanswered
    }

    /// Whether something still waits for its stamp.
    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// When the oldest unanswered transaction was sent.
    pub(super) fn oldest_sent(&self) -> Option<Nanos> {
        self.waiting.front().map(|waiting| waiting.sent)
    }

    /// From when on an answer is slow, by the last one that can show it since this was asked.
    pub(super) fn take_slow(&mut self) -> Option<Nanos> {
        self.slow.take()
    }

    /// How long the last answer took.
    pub(super) fn last_took(&self) -> Nanos {
        self.last_took
    }

    /// Whether an answer took so long, or has by `now`, that the node queues requests: more connections
    /// would only lengthen that queue. `slow` is from when on one is slow.
    pub(super) fn are_queued(&self, now: Nanos, slow: Option<Nanos>) -> bool {
        let slow = slow.map_or(SLOW_FIRST_ANSWER, |slow| slow.max(SLOW_ANSWER));
        let since = self.oldest_sent().unwrap_or(now);
        self.last_took.max(now.saturating_sub(since)) >= slow
    }

    /// Adds a transaction of the request that ends at this offset of the stream.
    pub(super) fn queue(&mut self, end: u64, sent: Sent, unqueued: Option<u64>) {
        self.writing.push_back(Writing {
            end,
            sent,
            unqueued,
        });
    }

    /// Takes the first queued transaction if the socket has taken all of its request by `now`; it then
    /// waits for its answer. It still has the time when it was queued.
    pub(super) fn next_written(&mut self, written_to: u64, now: Nanos) -> Option<Sent> {
        let Writing {
            end,
            sent,
            unqueued,
        } = *self.writing.front()?;
        if end > written_to {
            return None;
        }
        self.writing.pop_front();
        self.unanswered += 1;
        self.waiting.push_back(Waiting {
            index: sent.index,
            hash_prefix: hash_prefix(&sent.hash),
            sent: now,
            request: end,
            unqueued,
            answered: false,
        });
        Some(sent)
    }

    /// Gives the reply to the transaction with this index; `None` when it waits for none. A node
    /// that answers in order names the first one.
    pub(super) fn answer(&mut self, index: u64, at: Nanos, reply: Reply) -> Option<Answered> {
        let position = match self.waiting.front() {
            Some(first) if first.index == index => 0,
            _ => self
                .waiting
                .binary_search_by_key(&index, |waiting| waiting.index)
                .ok()?,
        };
        let waiting = &mut self.waiting[position];
        if waiting.answered {
            return None;
        }
        waiting.answered = true;
        let answered = waiting.answered(at, reply);
        self.last_took = at.saturating_sub(waiting.sent);
        let slow = waiting
            .unqueued
            .map(|times| self.last_took.saturating_mul(times));
        self.slow = slow.or(self.slow);
        self.unanswered -= 1;
        while self.waiting.front().is_some_and(|first| first.answered) {
            self.waiting.pop_front();
        }
        Some(answered)
    }

    /// Gives the reply to every unanswered transaction of the oldest request; how many those are.
    pub(super) fn answer_oldest(
        &mut self,
        at: Nanos,
        reply: Reply,
        mut answered: impl FnMut(Answered),
    ) -> usize {
        let before = self.unanswered;
        let Some(request) = self.waiting.front().map(|first| first.request) else {
            return 0;
        };
        while let Some(first) = self
            .waiting
            .front()
            .filter(|first| first.request == request)
        {
            if !first.answered {
                answered(first.answered(at, reply));
                self.unanswered -= 1;
            }
            self.waiting.pop_front();
        }
        // Of the next request, some may have been answered already.
        while self.waiting.front().is_some_and(|first| first.answered) {
            self.waiting.pop_front();
        }
        before - self.unanswered
    }

    /// Gives up what was sent by `sent_by` and is unanswered.
    pub(super) fn give_up(&mut self, sent_by: Nanos, at: Nanos, mut failed: impl FnMut(Answered)) {
        while let Some(first) = self.waiting.front()
            && first.sent <= sent_by
        {
            let request = first.request;
            let indices = self.waiting.iter();
            let indices = indices.take_while(|waiting| waiting.request == request);
            let unanswered = indices.filter(|waiting| !waiting.answered);
            self.given_up
                .extend(unanswered.map(|waiting| waiting.index));
            self.answer_oldest(at, Reply::Failed(Failure::Timeout), &mut failed);
            self.last_took = Nanos::MAX;
        }
        let forgotten = self.given_up.len().saturating_sub(MOST_GIVEN_UP);
        self.given_up.drain(..forgotten);
    }

    /// Whether an answer to this index comes after it was given up; the first time that it does.
    pub(super) fn is_late(&mut self, index: u64) -> bool {
        let position = self.given_up.binary_search(&index);
        position.is_ok_and(|position| self.given_up.remove(position).is_some())
    }

    /// Gives up what was not handed to the socket: it was never sent.
    pub(super) fn drop_unwritten(&mut self, at: Nanos, mut unsent: impl FnMut(Unsent)) {
        for Writing { sent, .. } in self.writing.drain(..) {
            unsent(Unsent {
                index: sent.index,
                due: sent.due,
                at,
                step: sent.step,
                reason: UnsentReason::Broken,
            });
        }
    }

    /// Fails what was sent, after the connection broke: the oldest request with `first`, the others
    /// with [`Failure::Closed`].
    pub(super) fn fail_sent(
        &mut self,
        at: Nanos,
        first: Failure,
        mut failed: impl FnMut(Answered),
    ) {
        let mut failure = first;
        while self.answer_oldest(at, Reply::Failed(failure), &mut failed) > 0 {
            failure = Failure::Closed;
        }
    }
}

impl Waiting {
    fn answered(&self, at: Nanos, reply: Reply) -> Answered {
        Answered {
            index: self.index,
            hash_prefix: self.hash_prefix,
            // The system may stamp an answer before the write that it answers has returned.
            at: at.max(self.sent),
            reply,
        }
    }
}

/// 512 KiB a connection; what is forgotten counts as an answer without a request.
const MOST_GIVEN_UP: usize = 64 * 1024;
/// A node that serves requests one by one takes this many times as long when as many wait. What is compared with are
/// answers of late: one that was fast once shows nothing of the line, or of blocks that are awaited, by now.
pub const QUEUED_FACTOR: u64 = 4;
/// Below this, an answer may be slow by chance.
pub const SLOW_ANSWER: Nanos = Nanos::from_millis(10);
/// The same, before it is known how fast an answer can be.
const SLOW_FIRST_ANSWER: Nanos = Nanos::from_millis(100);

/// The request that is being put together.
#[derive(Default)]
pub(super) struct Request {
    pub(super) txs: Vec<Sent>,
    /// The parts of its transactions, joined; unused where a request carries one.
    pub(super) body: Vec<u8>,
}

/// Signs transactions again whose account goes on with another sequence than they were signed with.
pub(super) struct Resigner<T> {
    target: T,
    stream: Box<dyn TxStream>,
    tx: Vec<u8>,
    body: Vec<u8>,
}

impl<T: Protocol> Resigner<T> {
    pub(super) fn new(target: T, stream: Box<dyn TxStream>) -> Self {
        Self {
            target,
            stream,
            tx: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The transaction as it is signed now.
    pub(super) fn sign(&mut self, index: u64) -> Result<Prepared<'_>, WorkloadError> {
        self.tx.clear();
        self.body.clear();
        let name = self.stream.write(index, &mut self.tx)?;
        let hash = self.target.encode(index, &self.tx, name, &mut self.body)?;
        Ok(Prepared {
            hash,
            size: self.tx.len() as u32,
            sequence: 0,
            body: &self.body,
        })
    }
}

impl Request {
    pub(super) fn add(&mut self, part: &[u8], sent: Sent, framing: Framing) {
        self.body.extend_from_slice(match self.txs.len() {
            0 => framing.open,
            _ => framing.between,
        });
        self.body.extend_from_slice(part);
        self.txs.push(sent);
    }

    /// A request of one has no framing.
    pub(super) fn end(&mut self, framing: Framing) {
        if self.txs.len() == 1 {
            self.body.drain(..framing.open.len());
        } else if !self.txs.is_empty() {
            self.body.extend_from_slice(framing.close);
        }
    }
}
