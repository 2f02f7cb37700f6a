//! The write connections to the node that takes the writes.
//!
//! Each has a state and a back-off of its own: they are opened side by side, writes go with the first that is up, and
//! one that breaks costs the writes that were under way on it. One of them, the express one, carries what comes from
//! short queues: a node reads each connection by itself, so such a write does not wait behind all that long queues
//! have under way.

mod alone;
mod link;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::{ConnectionError, Endpoint, TaskConnection, Transport};

use self::alone::Alone;
pub(super) use self::alone::{AloneError, MOST as MOST_ALONE};
use self::link::{Link, Sent, Slot, SlotState, open};
use super::answer;
use super::answer::AnswerKind;
use super::job::Job;
use super::writes::{Carrier, WriteId};

/// The write connections to one node.
pub(super) struct Pool<L = TaskConnection> {
    /// The express one first.
    slots: Vec<Slot<L>>,
    alone: Alone,
    answers: Vec<NodeAnswer>,
    opener: Opener<L>,
    /// For a connection, and for an answer.
    patience: [Duration; 2],
    /// All are being replaced.
    is_renewing: bool,
}

type Opening<L> = Pin<Box<dyn Future<Output = Result<L, ConnectionError>> + Send>>;
type Opener<L> = Box<dyn Fn(&Endpoint) -> Opening<L> + Send>;

/// An answer that was read.
#[derive(Debug)]
pub(super) struct NodeAnswer {
    /// The write that it ends.
    pub(super) write: WriteId,
    /// When that was sent.
    pub(super) sent: Nanos,
    pub(super) member: Bytes,
    pub(super) kind: AnswerKind,
}

/// What happened to the connections.
#[derive(Debug)]
pub(super) enum PoolEvent {
    /// Answers were read.
    Answers,
    /// One that was blocked takes more.
    Writable,
    /// One is up; whether it is the first of those that replace others.
    Opened { renewed: bool },
    /// One could not be opened.
    NotOpened(ConnectionError),
    /// One broke.
    Broken(Broken),
    /// A write that was sent alone has no answer.
    AloneFailed(WriteId, AloneError),
}

/// A connection that broke.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) reason: String,
    /// What was under way on it, in the order in which it was sent.
    pub(super) under_way: Vec<WriteId>,
    /// Whether the node refused a message as too long for it.
    pub(super) is_too_long: bool,
}

impl Pool {
    /// Opens `count` connections beside the express one. `patience` is for a connection and for an answer.
    pub(super) fn new(count: usize, patience: [Duration; 2]) -> Self {
        let timeout = patience[0];
        let opener: Opener<TaskConnection> = Box::new(move |endpoint| {
            Box::pin(open(endpoint.with_transport(Transport::Ws), timeout))
        });
        Self::with(count, patience, opener)
    }
}

impl<L: Link> Pool<L> {
    fn with(count: usize, patience: [Duration; 2], opener: Opener<L>) -> Self {
        let mut pool = Self {
            slots: Vec::new(),
            alone: Alone::default(),
            answers: Vec::new(),
            opener,
            patience,
            is_renewing: false,
        };
        pool.resize(count, Nanos::ZERO);
        pool
    }

    /// From now on there shall be `count` connections beside the express one: those that are too many take nothing
    /// more.
    pub(super) fn resize(&mut self, count: usize, now: Nanos) {
        let wanted = count + 1;
        while self.slots.len() < wanted {
            self.slots.push(Slot::new());
        }
        for (place, slot) in self.slots.iter_mut().enumerate() {
            slot.want(place < wanted, now);
        }
        while self.slots.len() > wanted
            && let Some(SlotState::Closed) = self.slots.last().map(|slot| &slot.state)
        {
            self.slots.pop();
        }
    }

    /// Starts to open those whose time has come: when to come again, if later.
    pub(super) fn tend(&mut self, endpoint: &Endpoint, now: Nanos) -> Option<Nanos> {
        let mut next: Option<Nanos> = None;
        for slot in &mut self.slots {
            if let SlotState::Down { retry_at } = slot.state {
                if retry_at <= now {
                    // Down => Opening
                    slot.state = SlotState::Opening((self.opener)(endpoint));
                } else {
                    next = Some(next.map_or(retry_at, |at| at.min(retry_at)));
                }
            }
        }
        next
    }

    /// Replaces all connections on which nothing is under way, in a break.
    pub(super) fn renew(&mut self, now: Nanos) {
        self.is_renewing = true;
        self.reopen_idle(self.same_since(), now);
    }

    /// Opens those anew on which nothing is under way: in a break, or because the node was gone and they may be dead
    /// without showing it. The node is the same since `same_since`, if that is known.
    pub(super) fn reopen_idle(&mut self, same_since: Option<Nanos>, now: Nanos) {
        for slot in &mut self.slots {
            if slot.is_up() && slot.under_way.is_empty() {
                slot.inherited = same_since;
                // Up => Down
                slot.state = SlotState::Down { retry_at: now };
            }
        }
    }

    /// Closes everything: what was under way.
    pub(super) fn give_up(&mut self, now: Nanos) -> Vec<WriteId> {
        let mut under_way = self.alone.give_up();
        for slot in &mut self.slots {
            under_way.append(&mut slot.give_up());
            slot.failures = 0;
            if !matches!(slot.state, SlotState::Closed) {
                slot.state = SlotState::Down { retry_at: now };
            }
        }
        under_way.sort_unstable();
        under_way
    }

    /// Gives up those whose oldest write has had no answer for longer than `limit`: what was under way on each.
    pub(super) fn give_up_silent(&mut self, limit: Nanos, now: Nanos) -> Vec<Vec<WriteId>> {
        let is_silent = |slot: &&mut Slot<L>| {
            let oldest = slot.under_way.front();
            oldest.is_some_and(|sent| now.saturating_sub(sent.at) > limit)
        };
        let silent = self.slots.iter_mut().filter(is_silent);
        silent.map(|slot| slot.fail(now)).collect()
    }

    /// Whether no other one than the last that was opened is up.
    pub(super) fn is_first(&self) -> bool {
        self.slots.iter().filter(|slot| slot.is_up()).count() == 1
    }

    /// Whether any is up.
    pub(super) fn is_up(&self) -> bool {
        self.slots.iter().any(Slot::is_up)
    }

    /// Since when the node is surely the same, started once: one of the connections is as old. None while none is up.
    pub(super) fn same_since(&self) -> Option<Nanos> {
        let open = self.slots.iter().filter(|slot| slot.is_open());
        open.map(|slot| slot.same_since).min()
    }

    /// Connections that are up, without the express one.
    pub(super) fn in_use(&self) -> usize {
        self.slots
            .iter()
            .skip(1)
            .filter(|slot| slot.is_up())
            .count()
    }

    /// The carrier of a write of whose line nothing is under way: the connection with the fewest. `express` is its client
    /// if it may take the express one, which comes first of equal ones.
    pub(super) fn choose(&self, express: Option<ClientKey>) -> Option<Carrier> {
        let express = express.filter(|client| self.has_express_for(*client));
        (express.map(|_| EXPRESS_PLACE).into_iter())
            .chain(self.usual())
            .min_by_key(|place| self.slots[*place].under_way.len())
            .map(Carrier::Slot)
    }

    /// The connections that take another write, without the express one as long as any other is up.
    fn usual(&self) -> impl Iterator<Item = usize> {
        let first = EXPRESS_PLACE + usize::from(self.in_use() > 0);
        (first..self.slots.len()).filter(|place| self.takes(Carrier::Slot(*place)))
    }

    /// Whether any connection but the express one takes another write.
    pub(super) fn takes_any(&self) -> bool {
        self.usual().next().is_some()
    }

    /// Whether another write of a client may go in a request of its own.
    pub(super) fn takes_alone(&self, client: ClientKey) -> bool {
        self.alone.has_place(client)
    }

    /// Whether a shared connection takes another write: it is up, and has not filled its share of the bytes that may wait
    /// for sockets. What it does not take waits in the queue, where it is fair.
    pub(super) fn takes(&self, carrier: Carrier) -> bool {
        (self.slot(carrier)).is_some_and(|slot| !slot.is_full(self.share()))
    }

    /// A shared connection that is up.
    fn slot(&self, carrier: Carrier) -> Option<&Slot<L>> {
        match carrier {
            Carrier::Slot(place) => self.slots.get(place).filter(|slot| slot.is_up()),
            Carrier::Alone => None,
        }
    }

    /// The bytes that may wait for one connection: no number of those that are blocked takes the share of another.
    fn share(&self) -> usize {
        MOST_UNWRITTEN / self.slots.len()
    }

    /// Whether the express connection takes another write.
    pub(super) fn has_express(&self) -> bool {
        self.takes(EXPRESS) && self.slots[EXPRESS_PLACE].under_way.len() < MOST_EXPRESS
    }

    /// Whether the express connection takes another write of a client: it may have as many there as are free besides.
    fn has_express_for(&self, client: ClientKey) -> bool {
        let under_way = &self.slots[EXPRESS_PLACE].under_way;
        let own = || under_way.iter().filter(|sent| sent.client == client);
        self.has_express() && own().count() + under_way.len() < MOST_EXPRESS
    }

    /// Whether the line of a client that has writes under way on this carrier waits for them, and takes another one then:
    /// the express one if it may and fewer are under way there, and a usual one when the client has its share of that.
    pub(super) fn changes(&self, carrier: Carrier, client: ClientKey, is_express: bool) -> bool {
        if carrier == EXPRESS {
            self.in_use() > 0 && !self.has_express_for(client)
        } else {
            let express = self.slots[EXPRESS_PLACE].under_way.len();
            let is_shorter = (self.slot(carrier)).is_none_or(|it| express < it.under_way.len());
            is_express && is_shorter && self.has_express_for(client)
        }
    }

    /// Whether a carrier that has `own` writes of a line under way takes another one of it. A line that shares its
    /// connection while another one is idle waits for its own there, and takes the idle one then.
    pub(super) fn goes_on(&self, carrier: Carrier, own: usize) -> bool {
        let Some(slot) = self.slot(carrier) else {
            return false;
        };
        let is_idle = |slot: &Slot<L>| slot.is_up() && slot.under_way.is_empty();
        let is_shared = carrier != EXPRESS && slot.under_way.len() > own;
        !(is_shared && self.slots[EXPRESS_PLACE + 1..].iter().any(is_idle))
    }

    /// Connections that are being opened.
    pub(super) fn opening(&self) -> usize {
        let is_opening = |slot: &&Slot<L>| matches!(slot.state, SlotState::Opening(_));
        self.slots.iter().filter(is_opening).count()
    }

    /// Hands a write to a carrier; nothing is written to a shared one before [`flush`](Self::flush).
    pub(super) fn send(
        &mut self,
        carrier: Carrier,
        (write, job): (WriteId, &Job),
        endpoint: &Endpoint,
        now: Nanos,
    ) {
        match carrier {
            Carrier::Alone => self.alone.send(endpoint, write, job, self.patience, now),
            Carrier::Slot(place) => {
                let slot = &mut self.slots[place];
                if let SlotState::Up(link) = &mut slot.state {
                    let id = slot.next_id;
                    slot.next_id += 1;
                    link.queue(id, job.upstream_method(), &job.tx);
                    slot.under_way.push_back(Sent {
                        id,
                        write,
                        client: job.client,
                        at: now,
                    });
                }
            }
        }
    }

    /// Writes what was queued: whether that made room in one that had its share. A connection that cannot be written to
    /// breaks when it is polled next.
    pub(super) fn flush(&mut self) -> bool {
        let share = self.share();
        let mut makes_room = false;
        for slot in &mut self.slots {
            let was_full = slot.is_full(share);
            if let SlotState::Up(link) = &mut slot.state
                && link.unwritten() > 0
                && let Err(error) = link.flush()
            {
                slot.flush_error = Some(error);
            }
            slot.is_blocked = slot.is_full(share);
            makes_room |= was_full && !slot.is_blocked;
        }
        makes_room
    }

    /// When the oldest write under way was sent.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        let of_slots = self.slots.iter().filter_map(|slot| slot.under_way.front());
        let shared = of_slots.map(|sent| sent.at);
        shared.chain(self.alone.oldest()).min()
    }

    /// Exchanges the answers read so far for an empty list.
    pub(super) fn take_answers(&mut self, empty: &mut Vec<NodeAnswer>) {
        std::mem::swap(&mut self.answers, empty);
    }

    /// What happens next.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: answers that were read are kept until they are
    /// taken.
    pub(super) async fn next(&mut self, clock: impl Fn() -> Nanos) -> PoolEvent {
        std::future::poll_fn(|context| self.poll(context, clock())).await
    }

    fn poll(&mut self, context: &mut Context<'_>, now: Nanos) -> Poll<PoolEvent> {
        let (same_since, share) = (self.same_since(), self.share());
        for slot in &mut self.slots {
            let Poll::Ready(mut event) = slot.poll(context, &mut self.answers, now) else {
                if slot.is_blocked && !slot.is_full(share) {
                    slot.is_blocked = false;
                    return Poll::Ready(PoolEvent::Writable);
                }
                continue;
            };
            if let PoolEvent::Opened { renewed } = &mut event {
                let inherited = slot.inherited.take().filter(|_| same_since.is_none());
                slot.same_since = inherited.unwrap_or(now);
                *renewed = std::mem::take(&mut self.is_renewing);
            }
            return Poll::Ready(event);
        }
        while let Poll::Ready((write, sent, outcome)) = self.alone.poll(context) {
            let body = match outcome {
                Ok(body) => body,
                Err(error) => return Poll::Ready(PoolEvent::AloneFailed(write, error)),
            };
            match answer::read(&body) {
                Some((_, member, kind)) => self.answers.push(NodeAnswer {
                    write,
                    sent,
                    member: Bytes::from(member.into_owned()),
                    kind,
                }),
                None => {
                    let error = AloneError::Unanswered("its answer cannot be read".to_owned());
                    return Poll::Ready(PoolEvent::AloneFailed(write, error));
                }
            }
        }
        if self.answers.is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(PoolEvent::Answers)
        }
    }
}

/// The place of the express connection, and it as a carrier.
const EXPRESS_PLACE: usize = 0;
const EXPRESS: Carrier = Carrier::Slot(EXPRESS_PLACE);
/// Writes under way on it at most: with more it would be another long queue.
const MOST_EXPRESS: usize = 64;
/// Bytes that may wait for the sockets of all connections, in equal shares, and those of one turn: 700 common writes, or
/// a quarter of a millisecond of encoding. A write begun below this is queued whole.
pub(super) const MOST_UNWRITTEN: usize = 256 << 10;

#[cfg(test)]
mod tests;
