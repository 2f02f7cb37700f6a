//! WebSockets to nodes: one for each client's WebSocket that asks something, and a few for the
//! subscriptions of all clients.
//!
//! When the connection breaks, the relay connects and subscribes again and delivers the events of
//! missed blocks, or tells that a subscription has ended.

pub(super) mod event;
mod link;
pub(super) mod message;
pub(super) mod node_message;
mod open;
mod receive;
mod recovery;
mod socket;
pub(super) mod subscriptions;
mod upkeep;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fairq::ClientKey;
use rpc::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use self::link::{LONGEST_PAUSE, Link, LinkEvent, Outage, OwnQuery, Replay};
use self::message::{Pending, Purpose, Queued};
pub use self::message::{RelayEvent, RelayMessage};
use self::subscriptions::Subscriptions;
use super::nodes::{NodeIndex, Nodes};
use super::reads::Reads;
use crate::budget::{Budget, Held};
use crate::config::Config;
use crate::ledger::Ledger;
use crate::refusal::{Forwarded, Reason, Refusal};
use crate::timer::Timer;

/// Makes relays. Cheap to clone; clones share the limits.
#[derive(Clone)]
pub struct Relays(Arc<Inner>);

struct Inner {
    nodes: Nodes,
    clients: Budget,
    places: Arc<Semaphore>,
    read_timeout: Duration,
    /// Whether the application writes `null` where there are no validator updates, and not `[]`, once that is
    /// known.
    no_updates_are_null: OnceLock<bool>,
    replayed: AtomicU64,
    cancelled: AtomicU64,
}

/// What relays have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounters {
    /// Events of missed blocks that were delivered late.
    pub replayed: u64,
    /// Subscriptions that were ended because something was missed.
    pub cancelled: u64,
}

/// A WebSocket to a node. The node answers what comes over one WebSocket in order.
pub struct Relay {
    relays: Relays,
    /// Whose it is; none for the subscriptions of all.
    client: Option<ClientKey>,
    /// The node that the client is assigned to.
    home: NodeIndex,
    /// The node of the current connection.
    node: NodeIndex,
    /// The client's slot and the place among all relays, from the first message on.
    places: Option<(Held, OwnedSemaphorePermit)>,
    link: Link,
    backoff: Backoff,
    /// Not written yet.
    queue: VecDeque<Queued>,
    /// Written and not answered, in order: the node answers in order.
    pending: VecDeque<Pending>,
    subscriptions: Subscriptions,
    /// Events that come out next.
    ready: VecDeque<RelayEvent>,
    /// The outage after which subscriptions are not complete yet.
    lost: Option<Outage>,
    replay: Option<Replay>,
    work: Option<OwnQuery>,
    used: Instant,
    timer: Timer,
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Relays {
    /// Relays to these nodes. They share the clients' limits with the read lane.
    pub fn new(config: &Config, nodes: &Nodes, reads: &Reads) -> Self {
        Self(Arc::new(Inner {
            nodes: nodes.clone(),
            clients: reads.clients().clone(),
            places: Arc::new(Semaphore::new(MAX_RELAYS)),
            read_timeout: config.upstream.read_timeout,
            no_updates_are_null: OnceLock::new(),
            replayed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }))
    }

    /// A relay for one WebSocket of a client, to `node` while that is up. It connects when it is
    /// first used.
    pub fn relay(&self, client: ClientKey, node: NodeIndex) -> Relay {
        self.new_relay(Some(client), node)
    }

    /// A relay for subscriptions of all clients, to `node` while that is up.
    pub(super) fn subscriber(&self, node: NodeIndex) -> Relay {
        self.new_relay(None, node)
    }

    /// Cancelled when the proxy ends.
    pub(super) fn end(&self) -> CancellationToken {
        self.0.nodes.surroundings().end.clone()
    }

    fn new_relay(&self, client: Option<ClientKey>, node: NodeIndex) -> Relay {
        Relay {
            relays: self.clone(),
            client,
            home: node,
            node,
            places: None,
            link: Link::Idle,
            backoff: Backoff::new(LONGEST_PAUSE),
            queue: VecDeque::new(),
            pending: VecDeque::new(),
            subscriptions: Subscriptions::default(),
            ready: VecDeque::new(),
            lost: None,
            replay: None,
            work: None,
            used: Instant::now(),
            timer: Timer::default(),
            shutdown: Box::pin(self.0.nodes.surroundings().end.clone().cancelled_owned()),
        }
    }

    /// What relays have done.
    pub fn counters(&self) -> RelayCounters {
        let inner = &*self.0;
        RelayCounters {
            replayed: inner.replayed.load(Ordering::Relaxed),
            cancelled: inner.cancelled.load(Ordering::Relaxed),
        }
    }
}

impl Relay {
    /// Whether another message would be taken. While it would not, the client should not be read
    /// from; room comes while [`poll_recv`](Self::poll_recv) is polled.
    pub fn has_room(&self) -> bool {
        self.queue.len() < MAX_QUEUE && self.pending.len() < MAX_PENDING
    }

    /// Takes a message of the client that the node answers. With a tag its answer comes as
    /// [`RelayEvent::Answer`]. Every message is answered or comes out as [`RelayEvent::Failed`].
    ///
    /// # Errors
    /// A refusal, and nothing was taken: no room, or no place for a connection.
    pub fn send(&mut self, message: &RelayMessage, tag: Option<u64>) -> Result<(), Refusal> {
        if !self.has_room() {
            return Err(Refusal::new(
                Reason::QueueFull,
                "too many messages are under way on this WebSocket",
            ));
        }
        let charge = self.ledger().reserve(message.text.len());
        let charge = charge.ok_or_else(Refusal::buffers_full)?;
        self.take_place()?;
        let since = Instant::now();
        let pending = Pending {
            id: message.id.clone(),
            tag,
            purpose: Purpose::of(message),
            forwarded: match message.is_write {
                true => Forwarded::Unknown,
                false => Forwarded::No,
            },
            since,
            charge: Some(charge),
        };
        self.queue.push_back(Queued {
            text: message.text.clone(),
            pending,
        });
        self.used = since;
        if matches!(self.link, Link::Idle) {
            self.link = Link::Waiting(since);
        }
        Ok(())
    }

    /// The account, for the client of this relay.
    fn ledger(&self) -> Ledger {
        let ledger = self.relays.0.nodes.ledger();
        self.client
            .map_or_else(|| ledger.clone(), |client| ledger.of(client))
    }

    /// What comes next. All of the relay's work is done in here, so it should always be polled.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(event);
            }
            match ready!(self.poll_event(context)) {
                LinkEvent::Shutdown => return Poll::Ready(RelayEvent::Closed),
                LinkEvent::Due => self.on_due(Instant::now()),
                LinkEvent::Opened(Ok(socket)) => self.on_open(socket),
                LinkEvent::Opened(Err(error)) => self.on_no_connection(&error),
                LinkEvent::Broken(reason) => self.on_break(&reason),
                LinkEvent::Message(text) => self.on_message(text),
                LinkEvent::Height(height) => self.on_height(height),
                LinkEvent::PastEvent(key, event) => self.on_past(key, event),
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        if self.shutdown.as_mut().poll(context).is_ready() {
            return Poll::Ready(LinkEvent::Shutdown);
        }
        if let Poll::Ready(happened) = self.poll_link(context) {
            return Poll::Ready(happened);
        }
        let Some(due) = self.due() else {
            return Poll::Pending;
        };
        self.timer.poll_until(due, context).map(|()| LinkEvent::Due)
    }

    /// A place among the clients' relays that have a connection.
    fn take_place(&mut self) -> Result<(), Refusal> {
        let Some(client) = self.client.filter(|_| self.places.is_none()) else {
            return Ok(());
        };
        let inner = &self.relays.0;
        let free = (inner.places.available_permits(), MAX_RELAYS);
        let slot = inner.clients.open_relay(client, free)?;
        let place = Arc::clone(&inner.places).try_acquire_owned();
        let place = place.map_err(|_| {
            Refusal::new(Reason::Connections, "too many WebSockets use the node")
                .retry_after(CROWDED_PAUSE)
        })?;
        self.places = Some((slot, place));
        Ok(())
    }

    /// Subscriptions that it repeats on another connection.
    #[cfg(test)]
    pub(super) fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }
}

/// Relays that may have a connection, in all: a node takes 900 connections by default, and the
/// proxy's own must always be among them.
pub const MAX_RELAYS: usize = 512;
/// Messages of one client that wait to be written.
const MAX_QUEUE: usize = 64;
/// Messages of one client that wait for their answer.
const MAX_PENDING: usize = 256;
/// Retry-After of a refusal because all places are taken.
const CROWDED_PAUSE: Duration = Duration::from_secs(5);
