//! One connection of a shard and the transactions that are on it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::{Answered, Failure, ReconnectReason, Reply, Sent, Unsent, UnsentReason, hash_prefix};
use pacing::Nanos;
use rpc::{Connection, ConnectionOptions, Endpoint, Interest, Transport};

/// A node's address, resolved once before the run.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// Its place in the plan's list.
    pub(crate) number: u16,
    pub(crate) endpoint: Endpoint,
    pub(crate) socket: SocketAddr,
    pub(crate) options: Arc<ConnectionOptions>,
}

impl Address {
    /// The same node, reached from a local address.
    #[must_use]
    pub(crate) fn reached_from(mut self, source: Option<IpAddr>) -> Self {
        if source.is_some() {
            Arc::make_mut(&mut self.options).source = source;
        }
        self
    }
}

/// A connection that is made again whenever it breaks.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) address: Address,
    pub(super) state: State,
    /// Queued, but the last byte has not been handed to the socket.
    writing: VecDeque<Writing>,
    /// Sent and not answered, in the order of sending; answered ones leave holes until they are first.
    waiting: VecDeque<Waiting>,
    /// Live entries of `waiting`.
    unanswered: usize,
    /// What the poller waits for.
    pub(super) registered: Interest,
    /// Times in a row that the connection broke without having brought an answer.
    pub(super) fruitless: u32,
    /// Whether the socket last took less than it was given.
    pub(super) stuck: bool,
    /// Whether the link stands in the queue of links with room.
    pub(super) queued: bool,
}

/// The life of a connection.
#[derive(Debug)]
pub(super) enum State {
    /// Not there; tried again at `retry_at`.
    Down { outage: Outage, retry_at: Nanos },
    /// Connecting, or shaking hands.
    Opening {
        connection: Box<Connection>,
        outage: Outage,
        give_up_at: Nanos,
    },
    /// Usable.
    Up(Box<Connection>),
}

/// Since when, why and how stubbornly a connection is down.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) since: Nanos,
    pub(super) failed_attempts: u32,
    /// `None` for the connection's first opening, which is no reconnect.
    pub(super) reason: Option<ReconnectReason>,
}

#[derive(Debug, Clone, Copy)]
struct Writing {
    /// Offset of its last byte in the connection's stream.
    end: u64,
    sent: Sent,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: u64,
    hash_prefix: u64,
    sent: Nanos,
    answered: bool,
}

/// An answer found its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matched {
    pub(super) index: u64,
    pub(super) hash_prefix: u64,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            state: State::Down {
                outage: Outage {
                    since: Nanos::ZERO,
                    failed_attempts: 0,
                    reason: None,
                },
                retry_at: Nanos::ZERO,
            },
            writing: VecDeque::new(),
            waiting: VecDeque::new(),
            unanswered: 0,
            registered: NOTHING,
            fruitless: 0,
            stuck: false,
            queued: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether another transaction may be queued: over HTTP only when nothing is under way, over
    /// WebSocket until [`UNWRITTEN_LIMIT_BYTES`] wait for the socket (the node reads too slowly).
    pub(super) fn has_room(&self) -> bool {
        let State::Up(connection) = &self.state else {
            return false;
        };
        match self.address.endpoint.transport() {
            Transport::Http => self.unanswered == 0 && self.writing.is_empty(),
            Transport::Ws => connection.unwritten() < UNWRITTEN_LIMIT_BYTES,
        }
    }

    /// Transactions on this link: queued or unanswered.
    pub(super) fn load(&self) -> usize {
        self.writing.len() + self.unanswered
    }

    /// When the oldest unanswered transaction was sent.
    pub(super) fn oldest_sent(&self) -> Option<Nanos> {
        self.waiting.front().map(|waiting| waiting.sent)
    }

    /// Remembers a queued transaction; its stamp comes with [`Link::next_written`].
    pub(super) fn queue(&mut self, end: u64, sent: Sent) {
        self.writing.push_back(Writing { end, sent });
    }

    /// Whether queued transactions still wait for their stamp.
    pub(super) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Takes the first queued transaction if the socket has taken all of it.
    pub(super) fn next_written(&mut self, written_to: u64) -> Option<Sent> {
        let first = self.writing.front()?;
        if first.end > written_to {
            return None;
        }
        self.writing.pop_front().map(|writing| writing.sent)
    }

    /// Waits for the answer of a transaction that has its stamp.
    pub(super) fn await_answer(&mut self, sent: &Sent) {
        self.unanswered += 1;
        self.waiting.push_back(Waiting {
            index: sent.index,
            hash_prefix: hash_prefix(&sent.hash),
            sent: sent.sent,
            answered: false,
        });
    }

    /// Finds the request with this id. Indices ascend on a link, and a CometBFT node answers a
    /// connection in order, so the first one is nearly always it.
    pub(super) fn answered(&mut self, index: u64) -> Option<Matched> {
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
        self.fruitless = 0;
        let matched = Matched {
            index,
            hash_prefix: waiting.hash_prefix,
        };
        self.unanswered -= 1;
        self.drop_answered();
        Some(matched)
    }

    /// Takes the oldest unanswered request, for an answer that names none.
    pub(super) fn answered_oldest(&mut self) -> Option<Matched> {
        let index = self.waiting.front()?.index;
        self.answered(index)
    }

    /// Half-written transactions were never sent.
    pub(super) fn give_up_writing(&mut self, now: Nanos, mut unsent: impl FnMut(Unsent)) {
        for writing in self.writing.drain(..) {
            unsent(Unsent {
                index: writing.sent.index,
                due: writing.sent.due,
                at: now,
                step: writing.sent.step,
                reason: UnsentReason::Broken,
            });
        }
    }

    /// Connections made before the run do not count as made again.
    pub(super) fn forget_first_opening(&mut self) {
        match &mut self.state {
            State::Up(_) => {}
            State::Down { outage, retry_at } => {
                outage.restart();
                *retry_at = Nanos::ZERO;
            }
            State::Opening {
                outage, give_up_at, ..
            } => {
                outage.restart();
                *give_up_at = super::OPENING_TIMEOUT;
            }
        }
    }

    /// Empties the link after its connection broke: sent transactions fail with `first` (the oldest)
    /// or [`Failure::Closed`] (the others), half-written ones were never sent.
    pub(super) fn fail_all(
        &mut self,
        now: Nanos,
        first: Failure,
        mut answered: impl FnMut(Answered),
        mut unsent: impl FnMut(Unsent),
    ) {
        let mut failure = first;
        for waiting in self.waiting.drain(..).filter(|waiting| !waiting.answered) {
            answered(Answered {
                index: waiting.index,
                hash_prefix: waiting.hash_prefix,
                at: now,
                reply: Reply::Failed(failure),
            });
            failure = Failure::Closed;
        }
        self.unanswered = 0;
        self.give_up_writing(now, &mut unsent);
    }

    fn drop_answered(&mut self) {
        while self.waiting.front().is_some_and(|first| first.answered) {
            self.waiting.pop_front();
        }
    }
}

impl State {
    /// What stands in for a connection while it is lent out.
    pub(super) fn empty() -> Self {
        Self::Down {
            outage: Outage {
                since: Nanos::ZERO,
                failed_attempts: 0,
                reason: None,
            },
            retry_at: Nanos::MAX,
        }
    }
}

impl Outage {
    /// Begins anew at the origin.
    fn restart(&mut self) {
        self.since = Nanos::ZERO;
        self.reason = Some(ReconnectReason::Broken);
    }

    /// The pause before the next attempt: 100 ms after the first that failed, doubling to 1 s.
    pub(super) fn backoff(&self) -> Nanos {
        let doublings = self.failed_attempts.min(5);
        let pause = FIRST_BACKOFF.as_nanos() << doublings;
        Nanos::from_nanos(pause.min(LONGEST_BACKOFF.as_nanos()))
    }
}

const NOTHING: Interest = Interest {
    read: false,
    write: false,
};
/// A WebSocket with this much unwritten is held up by its node; more would only hide the wait inside
/// the generator's buffers.
const UNWRITTEN_LIMIT_BYTES: usize = 64 * 1024;
const FIRST_BACKOFF: Nanos = Nanos::from_millis(50);
const LONGEST_BACKOFF: Nanos = Nanos::from_secs(1);
