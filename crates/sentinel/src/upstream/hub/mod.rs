//! Subscriptions of clients, shared: one at a node for each distinct query, whoever has it.
//!
//! A node takes 100 subscribers with 5 queries each, in all. So the clients' subscriptions are
//! sentinel's: [`Hub`] is what clients join, [`HubWorker`] keeps the few connections to the nodes
//! that carry the queries, and a [`Feed`] is a query with those who read it.

mod feed;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairq::ClientKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::feed::{Feed, FeedKey, Stock};
pub(super) use self::feed::{FeedEnd, FeedNews, Reader};
pub use self::worker::HubWorker;
use super::nodes::NodeIndex;
use super::reads::Reads;
use super::relay::Relays;
use super::relay::subscriptions::normal_form;
use crate::budget::Budget;
use crate::config::Config;
use crate::ledger::Ledger;
use crate::refusal::{Reason, Refusal};

/// The queries of all clients at all nodes. Clones share them.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    clients: Budget,
    /// Queries at one node.
    most: usize,
    board: Mutex<HashMap<FeedKey, Arc<Feed>>>,
    /// A feed is to be looked at.
    changed: Arc<Notify>,
    stock: Arc<Stock>,
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
}

impl Hub {
    /// A hub over these relays, and the task that serves it. It shares the clients' limits with the
    /// read lane.
    pub fn new(
        config: &Config,
        relays: Relays,
        reads: &Reads,
        ledger: &Ledger,
    ) -> (Self, HubWorker) {
        let hub = Self(Arc::new(Inner {
            clients: reads.clients().clone(),
            most: config.ws.subscribers * QUERIES_PER_LINK,
            board: Mutex::default(),
            changed: Arc::default(),
            stock: Stock::new(ledger.capacity() / EVENT_SHARE),
            links: AtomicUsize::new(0),
        }));
        let worker = HubWorker::new(hub.clone(), relays);
        (hub, worker)
    }

    /// Joins the readers of a query at a node.
    ///
    /// # Errors
    /// The client has too many subscriptions, or there are too many queries.
    pub(super) fn join(
        &self,
        client: ClientKey,
        node: NodeIndex,
        query: &str,
    ) -> Result<Reader, Refusal> {
        let inner = &*self.0;
        let mut slot = inner.clients.subscribe(client)?;
        let key = (node, normal_form(query));
        let mut board = self.0.board.lock();
        if let Some(feed) = board.get(&key) {
            match feed.join(slot, &inner.changed) {
                Ok(reader) => return Ok(reader),
                Err(unused) => slot = unused,
            }
        }
        let used = board.keys().filter(|(other, _)| *other == node).count();
        let free = inner.most.saturating_sub(used);
        let place = inner.clients.open_query(client, (free, inner.most))?;
        if free == 0 {
            // The node's words, which it would say of connections.
            let text = format!("max_subscription_clients {} reached", inner.most);
            return Err(Refusal::new(Reason::Connections, text).retry_after(CROWDED_PAUSE));
        }
        let feed = Arc::new(Feed::new(key.clone(), query, &inner.stock, place));
        let reader = feed.join(slot, &inner.changed);
        board.insert(key, feed);
        inner.changed.notify_one();
        reader.map_err(|_| Refusal::new(Reason::Shutdown, "the subscription ended at once"))
    }

    /// What the hub has and has done.
    pub fn counters(&self) -> HubCounters {
        let inner = &*self.0;
        HubCounters {
            subscriptions: inner.stock.readers.load(Ordering::Relaxed),
            queries: self.0.board.lock().len(),
            links: inner.links.load(Ordering::Relaxed),
            slow: inner.stock.slow.load(Ordering::Relaxed),
        }
    }

    /// Takes a feed off the board, unless another has its place.
    fn remove(&self, feed: &Arc<Feed>) {
        let mut board = self.0.board.lock();
        if board
            .get(&feed.key)
            .is_some_and(|known| Arc::ptr_eq(known, feed))
        {
            board.remove(&feed.key);
        }
    }
}

/// Queries of one connection to a node: its `rpc.max_subscriptions_per_client`, by default.
const QUERIES_PER_LINK: usize = 5;
/// The events that wait for slow clients take at most this part of all bytes.
const EVENT_SHARE: usize = 8;
/// Retry-After of a refusal because all places are taken.
const CROWDED_PAUSE: Duration = Duration::from_secs(5);
