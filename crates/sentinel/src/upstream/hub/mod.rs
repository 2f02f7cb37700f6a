//! Subscriptions of clients, shared: one at a node for each distinct query, whoever has it.
//!
//! A node takes 100 subscribers with 5 queries each, in all. So the clients' subscriptions are
//! sentinel's: [`Hub`] is what clients join, [`HubWorker`] keeps the few connections to the nodes
//! that carry the queries, and a [`Feed`] is a query with those who read it.

mod feed;
mod link;
mod node_message;
mod open;
mod query;
mod socket;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairq::ClientKey;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::feed::{Feed, FeedKey, FeedTotals};
pub(super) use self::feed::{FeedEnd, FeedNews, Reader};
pub(super) use self::link::ALREADY;
use self::link::QUERIES_PER_LINK;
pub(super) use self::node_message::{cancelled, event_head};
pub(super) use self::query::canonical;
pub use self::worker::HubWorker;
use super::nodes::{NodeIndex, Nodes};
use super::reads::Reads;
use crate::budget::Budget;
use crate::config::Config;
use crate::ledger::Ledger;
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
    board: Mutex<HashMap<FeedKey, Arc<Feed>>>,
    /// A feed is to be looked at.
    changed: Arc<Notify>,
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
            most_links: config.ws.subscribers,
            answer_limit: config.upstream.read_timeout,
            board: Mutex::default(),
            changed: Arc::default(),
            totals: FeedTotals::new(nodes.ledger().capacity() / EVENT_SHARE),
            links: AtomicUsize::new(0),
        }));
        let worker = HubWorker::new(hub.clone());
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
        let mut slot = inner.clients.subscribe(client)?;
        let key = (node, query.to_owned());
        let mut board = self.0.board.lock();
        if let Some(feed) = board.get(&key) {
            match feed.join(slot, ledger, &inner.changed) {
                Ok(reader) => return Ok(reader),
                Err(unused) => slot = unused,
            }
        }
        let most = inner.most_links * QUERIES_PER_LINK;
        let used = board.keys().filter(|(other, _)| *other == node).count();
        let free = most.saturating_sub(used);
        let place = inner.clients.open_query(client, (free, most))?;
        if free == 0 {
            // The node's words, which it would say of connections.
            let text = format!("max_subscription_clients {most} reached");
            return Err(Refusal::new(Reason::Connections, text).retry_after(CROWDED_PAUSE));
        }
        let feed = Arc::new(Feed::new(key.clone(), &inner.totals, place));
        let reader = feed.join(slot, ledger, &inner.changed);
        board.insert(key, feed);
        inner.changed.notify_one();
        reader.map_err(|_| Refusal::new(Reason::Shutdown, "the subscription ended at once"))
    }

    /// Cancelled when the proxy ends.
    pub(super) fn end_of_proxy(&self) -> CancellationToken {
        self.0.nodes.surroundings().end.clone()
    }

    /// What the hub has and has done.
    pub fn counters(&self) -> HubCounters {
        let inner = &*self.0;
        HubCounters {
            subscriptions: inner.totals.readers.load(Ordering::Relaxed),
            queries: self.0.board.lock().len(),
            links: inner.links.load(Ordering::Relaxed),
            slow: inner.totals.slow.load(Ordering::Relaxed),
            ended: inner.totals.ended.load(Ordering::Relaxed),
        }
    }

    /// Ends a feed, and takes it off the board, unless another has its place.
    fn end(&self, feed: &Arc<Feed>, end: FeedEnd) {
        let mut board = self.0.board.lock();
        let known = board.get(feed.key());
        if known.is_some_and(|known| Arc::ptr_eq(known, feed)) {
            board.remove(feed.key());
        }
        drop(board);
        feed.end(end);
    }
}

/// A client may be behind by at most this part of all bytes: a block of transactions, whose events come at
/// once, is in it many times.
const EVENT_SHARE: usize = 8;
/// Retry-After of a refusal because all places are taken.
const CROWDED_PAUSE: Duration = Duration::from_secs(5);
