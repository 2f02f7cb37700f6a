//! Subscriptions of clients, shared: one at a node for each distinct query, however many clients have it.
//!
//! A node takes 100 subscribers with 5 queries each, in all. So the clients' subscriptions are
//! sentinel's: [`Hub`] is what clients join, [`HubWorker`] keeps the few connections to the nodes
//! that carry the queries, and a [`Feed`] is a query with its readers.

mod feed;
mod link;
mod node_message;
mod socket;

use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use fairq::{ClientKey, KeyScheme};
use parking_lot::Mutex;
use tokio::task::JoinError;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use wire::json::write::internal_error;

use self::feed::{Feed, FeedTotals};
pub(super) use self::feed::{FeedEnd, FeedNews, Reader};
pub(super) use self::link::ALREADY;
use self::link::{Connections, Link, QUERIES_PER_LINK};
pub(super) use self::node_message::{cancelled, canonical, event_head};
use super::UpstreamError;
use super::node_state::NodeIndex;
use super::nodes::Nodes;
use super::reads::Reads;
use crate::budget::{Budget, Kind, Ledger};
use crate::config::Config;
use crate::handover::Queries;
use crate::refusal::{Reason, Refusal};

/// The queries of all clients at all nodes. Clones share them.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    nodes: Nodes,
    clients: Budget,
    /// Connections to one node that subscribe.
    most_links: usize,
    /// How long a node may take to answer a request to subscribe, and to be reached for one.
    answer_limit: Duration,
    /// The feeds that are read, of distinct queries, and those that a node has not ended yet.
    board: Mutex<Vec<Arc<Feed>>>,
    totals: Arc<FeedTotals>,
    /// Connections to nodes that subscribe.
    links: AtomicUsize,
}

/// What the hub has and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubCounters {
    /// Subscriptions of clients.
    pub subscriptions: usize,
    /// Distinct queries at the nodes.
    pub queries: usize,
    /// Connections to nodes that subscribe.
    pub links: usize,
    /// Subscriptions that ended because their client did not read its events.
    pub slow: u64,
    /// Subscriptions that ended because the node ended them, or its connection broke.
    pub ended: u64,
}

impl Hub {
    /// A hub over these nodes, and the task that serves it. It shares the clients' limits with the
    /// read lane.
    pub fn new(config: &Config, nodes: &Nodes, reads: &Reads) -> (Self, HubWorker) {
        let hub = Self(Arc::new(Inner {
            nodes: nodes.clone(),
            clients: reads.clients().clone(),
            most_links: config.fixed.subscribers,
            answer_limit: config.upstream.timeout,
            board: Mutex::default(),
            totals: Arc::new(FeedTotals {
                max_lag_bytes: nodes.ledger().capacity() / EVENT_SHARE,
                ..FeedTotals::default()
            }),
            links: AtomicUsize::new(0),
        }));
        let worker = HubWorker {
            hub: hub.clone(),
            links: Vec::new(),
            connections: Connections::new(),
        };
        (hub, worker)
    }

    /// Joins the readers of a query, in its [`canonical`] spelling, at a node. What waits for this
    /// reader alone is in its client's account.
    ///
    /// # Errors
    /// The client has too many subscriptions, or there are too many queries.
    pub(super) fn join(
        &self,
        (client, ledger): (ClientKey, &Ledger),
        node: NodeIndex,
        query: &str,
    ) -> Result<Reader, Refusal> {
        let inner = &*self.0;
        let slot = inner.clients.subscribe(client)?;
        let mut board = inner.board.lock();
        let at_node = || board.iter().filter(|feed| feed.node == node);
        let is_it = |feed: &&Arc<Feed>| feed.query == query && feed.readers() > 0;
        if let Some(feed) = at_node().find(is_it) {
            return Ok(feed.join(slot, ledger));
        }
        let most = inner.most_links * QUERIES_PER_LINK;
        let free = most.saturating_sub(at_node().count());
        let place = inner.clients.hold(client, Kind::Query, (free, most))?;
        if free == 0 {
            let text = too_many_subscribers(most);
            return Err(Refusal::new(Reason::Connections, text).retry_after(CROWDED_PAUSE));
        }
        let feed = Feed::new((node, query.to_owned()), &inner.totals, place);
        let reader = feed.join(slot, ledger);
        board.push(feed);
        inner.totals.changed.notify_one();
        Ok(reader)
    }

    /// What clients subscribe to, and at which node.
    pub(crate) fn queries(&self) -> Queries {
        let query = |feed: &Arc<Feed>| (feed.node, feed.query.clone());
        self.0.board.lock().iter().map(query).collect()
    }

    /// Subscribes to what clients of another process do. So an event that comes here after they have is theirs, even if the
    /// node sent it before. Drops `waiting` once the nodes have answered, and ends when dropped.
    pub(crate) async fn expect<W>(&self, queries: Queries, waiting: W) {
        let (nobody, nodes) = (Ipv4Addr::UNSPECIFIED.into(), &self.0.nodes);
        let whose = (KeyScheme::default().key(nobody), nodes.ledger());
        let known = queries.iter().filter(|(node, _)| *node < nodes.count());
        let joined = known.filter_map(|(node, query)| self.join(whose, *node, query).ok());
        let (mut readers, mut waiting) = (joined.collect::<Vec<_>>(), Some(waiting));
        poll_fn(|context| {
            readers.retain_mut(|reader| {
                loop {
                    match reader.poll_news(context) {
                        Poll::Ready(FeedNews::Ended(_)) => break false,
                        Poll::Ready(_) => {}
                        Poll::Pending => break true,
                    }
                }
            });
            if readers.iter().all(Reader::is_confirmed) {
                waiting = None;
            }
            Poll::<()>::Pending
        })
        .await;
    }

    /// Cancelled when the proxy ends.
    pub(super) fn end_of_proxy(&self) -> CancellationToken {
        self.0.nodes.shared_context().end.clone()
    }

    /// What the hub has and has done.
    pub fn counters(&self) -> HubCounters {
        let inner = &*self.0;
        let board = inner.board.lock();
        HubCounters {
            subscriptions: board.iter().map(|feed| feed.readers()).sum(),
            queries: board.len(),
            links: inner.links.load(Ordering::Relaxed),
            slow: inner.totals.slow.load(Ordering::Relaxed),
            ended: inner.totals.ended.load(Ordering::Relaxed),
        }
    }

    /// Ends a feed.
    fn end(&self, feed: &Arc<Feed>, end: FeedEnd) {
        self.forget(feed);
        feed.end(end);
    }

    fn forget(&self, feed: &Arc<Feed>) {
        let is_other = |known: &Arc<Feed>| !Arc::ptr_eq(known, feed);
        self.0.board.lock().retain(is_other);
    }
}

/// Asks nodes for what clients subscribe to, and hands their events out: run it.
pub struct HubWorker {
    hub: Hub,
    links: Vec<Link>,
    connections: Connections,
}

impl HubWorker {
    /// Serves until shutdown.
    ///
    /// # Cancel safety
    /// Dropping the future ends all subscriptions.
    pub async fn run(mut self) {
        let (totals, shutdown) = (Arc::clone(&self.hub.0.totals), self.hub.end_of_proxy());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = totals.changed.notified() => self.review(),
                now = ticks.tick(), if !self.links.is_empty() => {
                    for link in &mut self.links {
                        link.on_tick(now, &mut self.connections);
                    }
                }
                // What a connection brought comes before its end.
                _ = self.connections.messages.recv_many(&mut batch, BATCH) => {
                    for (number, message) in batch.drain(..) {
                        if let Some(link) = self.link(number) {
                            link.on_message(&message);
                        }
                    }
                }
                Some(ended) = self.connections.tasks.join_next() => self.on_end(ended),
            }
            self.links.retain(|link| !link.is_empty());
            let links = &self.hub.0.links;
            links.store(self.links.len(), Ordering::Relaxed);
        }
        self.connections.tasks.shutdown().await;
    }

    fn link(&mut self, number: u64) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.number == number)
    }

    /// A connection has ended.
    fn on_end(&mut self, ended: Result<(u64, Result<(), UpstreamError>), JoinError>) {
        // The end of this task is noticed.
        let panicked = |error: JoinError| panic::resume_unwind(error.into_panic());
        let (number, carried) = ended.unwrap_or_else(panicked);
        if let (Some(link), Err(error)) = (self.link(number), carried) {
            link.on_break(&error.to_string());
        }
    }

    /// Ends the feeds without a reader, and asks for those that are on no connection. A feed has its place until the
    /// node has ended it, so that clients that come and go take no more places than others.
    fn review(&mut self) {
        let feeds = self.hub.0.board.lock().clone();
        for feed in feeds {
            let is_read = feed.readers() > 0;
            if !is_read {
                self.links
                    .iter_mut()
                    .for_each(|link| link.unsubscribe(&feed));
            }
            let is_here = self.links.iter().any(|link| link.carries(&feed));
            match (is_read, is_here) {
                (true, false) => self.subscribe(feed),
                (false, false) => self.hub.forget(&feed),
                (_, true) => {}
            }
        }
    }

    fn subscribe(&mut self, feed: Arc<Feed>) {
        let mut links = self.links.iter_mut();
        if let Some(link) = links.find(|link| link.has_room(&feed)) {
            return link.subscribe(feed);
        }
        let used = self.links.iter().filter(|link| link.home == feed.node);
        let most = self.hub.0.most_links;
        if used.count() >= most {
            let error = internal_error(&too_many_subscribers(most));
            return self.hub.end(&feed, FeedEnd::Refused(error.into()));
        }
        let mut link = Link::new(self.hub.clone(), feed.node, &mut self.connections);
        link.subscribe(feed);
        self.links.push(link);
    }
}

/// The node's own error, which it has for connections.
fn too_many_subscribers(most: usize) -> String {
    format!("max_subscription_clients {most} reached")
}

/// A client may be behind by at most this part of all bytes: a block of transactions, whose events come at
/// once, is in it many times.
const EVENT_SHARE: usize = 8;
/// Retry-After of a refusal because all places are taken.
const CROWDED_PAUSE: Duration = Duration::from_secs(5);
/// How often deadlines are looked at, which are all much longer.
const TICK: Duration = Duration::from_millis(50);
/// Messages that are handed out before anything else is looked at.
const BATCH: usize = 16;
