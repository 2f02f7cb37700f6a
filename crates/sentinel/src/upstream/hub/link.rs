//! One subscriber: a connection to a node and the subscriptions on it.
//!
//! A subscription that was live when the connection broke has ended: events may have been missed. A request
//! to subscribe that the node has not answered is made again over the next connection.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rpc::Backoff;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;
use wire::json::write::{Int, Raw, Text, filled};

use super::Hub;
use super::feed::{Feed, FeedEnd, FeedEvent};
use super::node_message::{EXITING, NodeMessage, compact_event, error_member, without_spaces};
use super::socket::carry;
use crate::refusal::{Reason, Refusal};
use crate::upstream::UpstreamError;
use crate::upstream::node_state::NodeIndex;

/// A subscriber at a node.
pub(super) struct Link {
    hub: Hub,
    /// The node that its clients are assigned to.
    pub(super) home: NodeIndex,
    /// The number of its connection, 0 while it has none. What another one brings is of the past.
    pub(super) number: u64,
    /// To its connection; none while it has none.
    requests: Option<mpsc::Sender<Vec<u8>>>,
    /// When it is to connect again.
    retry_at: Instant,
    backoff: Backoff,
    subscriptions: Vec<Subscription>,
    /// Requests to unsubscribe that the node has not answered.
    leaving: Vec<Leaving>,
    /// Queries that the node takes over this connection, according to its refusals.
    most: usize,
    /// Requests to subscribe over this connection.
    asked: usize,
    last_id: u64,
}

/// A query on this connection.
struct Subscription {
    feed: Arc<Feed>,
    /// The id of the request to subscribe; events carry it.
    id: u64,
    asked_at: Instant,
    /// Whether the node has confirmed.
    is_live: bool,
}

/// A query that the node is to end.
struct Leaving {
    feed: Arc<Feed>,
    /// The id of the request to unsubscribe.
    id: u64,
    asked_at: Instant,
}

/// The connections of all links, each in a task.
pub(super) struct Connections {
    pub(super) tasks: JoinSet<(u64, Result<(), UpstreamError>)>,
    /// What they bring, with their numbers.
    pub(super) messages: mpsc::Receiver<(u64, Bytes)>,
    to_hub: mpsc::Sender<(u64, Bytes)>,
    last: u64,
}

impl Connections {
    /// None yet.
    pub(super) fn new() -> Self {
        let (to_hub, messages) = mpsc::channel(MESSAGES);
        Self {
            tasks: JoinSet::new(),
            messages,
            to_hub,
            last: 0,
        }
    }
}

impl Link {
    /// A link that connects.
    pub(super) fn new(hub: Hub, home: NodeIndex, connections: &mut Connections) -> Self {
        let mut link = Self {
            hub,
            home,
            number: 0,
            requests: None,
            retry_at: Instant::now(),
            backoff: Backoff::new(LONGEST_PAUSE),
            subscriptions: Vec::new(),
            leaving: Vec::new(),
            most: QUERIES_PER_LINK,
            asked: 0,
            last_id: 0,
        };
        link.connect(connections);
        link
    }

    /// Whether it has no subscriptions, none that the node has still to end either, and so no use.
    pub(super) const fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.leaving.is_empty()
    }

    /// Whether a feed is on it, or its end is under way.
    pub(super) fn carries(&self, feed: &Arc<Feed>) -> bool {
        let known = self.subscriptions.iter().map(|known| &known.feed);
        let mut all = known.chain(self.leaving.iter().map(|leaving| &leaving.feed));
        all.any(|known| Arc::ptr_eq(known, feed))
    }

    /// Whether a feed can be put here: not beside one whose query this node may take for the same, of which a
    /// connection can have one. What leaves counts, so that its requests never fill the queue.
    pub(super) fn has_room(&self, feed: &Feed) -> bool {
        let query = without_spaces(&feed.query);
        let mut known = self.subscriptions.iter();
        self.home == feed.node
            && self.subscriptions.len() + self.leaving.len() < self.most
            && known.all(|known| without_spaces(&known.feed.query) != query)
    }

    /// Subscribes for a feed.
    pub(super) fn subscribe(&mut self, feed: Arc<Feed>) {
        self.last_id += 1;
        self.asked += 1;
        self.write(self.last_id, "subscribe", &feed.query);
        self.subscriptions.push(Subscription {
            feed,
            id: self.last_id,
            asked_at: Instant::now(),
            is_live: false,
        });
    }

    /// Ends the subscription of a feed, if it is here. The connection is given up if the node does not answer, so
    /// that none stays behind.
    pub(super) fn unsubscribe(&mut self, feed: &Arc<Feed>) {
        let is_it = |known: &mut Subscription| Arc::ptr_eq(&known.feed, feed);
        if self.subscriptions.extract_if(.., is_it).count() > 0 {
            self.last_id += 1;
            self.write(self.last_id, "unsubscribe", &feed.query);
            if self.requests.is_some() {
                self.leaving.push(Leaving {
                    feed: Arc::clone(feed),
                    id: self.last_id,
                    asked_at: Instant::now(),
                });
            }
        }
    }

    /// Passes a request to the connection. There is room, unless the connection has ended, which is an event of its own.
    fn write(&self, id: u64, method: &str, query: &str) {
        let template = r#"{"jsonrpc":"2.0","id":?,"method":"?","params":{"query":?}}"#;
        if let Some(requests) = &self.requests {
            let text = filled(template, &[&Int(id), &Raw(method), &Text(query)]);
            let _ = requests.try_send(text);
        }
    }

    fn connect(&mut self, connections: &mut Connections) {
        let nodes = &self.hub.0.nodes;
        let dialer = nodes.node(nodes.nearest_up(self.home)).http.dialer.clone();
        let ledger = nodes.ledger().clone();
        let (requests, receiver) = mpsc::channel(REQUESTS);
        connections.last += 1;
        let (number, messages) = (connections.last, connections.to_hub.clone());
        connections.tasks.spawn(async move {
            let carried = carry(dialer, ledger, receiver, (number, messages)).await;
            (number, carried)
        });
        (self.number, self.requests) = (number, Some(requests));
        // The number that the last connection's node took need not hold for this one's.
        (self.most, self.asked) = (QUERIES_PER_LINK, self.subscriptions.len());
        for known in &self.subscriptions {
            self.write(known.id, "subscribe", &known.feed.query);
        }
    }

    /// The connection has ended, or is given up.
    pub(super) fn on_break(&mut self, reason: &str) {
        let node = self.home;
        debug!(node, reason, "no connection for subscriptions");
        (self.number, self.requests) = (0, None);
        self.leaving.clear();
        self.hub.0.totals.changed.notify_one();
        self.retry_at = Instant::now() + self.backoff.pause();
        for known in self.subscriptions.extract_if(.., |known| known.is_live) {
            let end = FeedEnd::Cancelled(LOST.to_owned());
            self.hub.end(&known.feed, end);
        }
    }

    /// Some time has passed.
    pub(super) fn on_tick(&mut self, now: Instant, connections: &mut Connections) {
        let limit = self.hub.0.answer_limit;
        let is_late = |asked_at: Instant| now >= asked_at + limit;
        let late = |known: &mut Subscription| !known.is_live && is_late(known.asked_at);
        let late: Vec<_> = self.subscriptions.extract_if(.., late).collect();
        let stays = self.leaving.iter().any(|leaving| is_late(leaving.asked_at));
        if stays || (!late.is_empty() && self.requests.is_some()) {
            self.on_break("no answer in time");
        }
        for known in late {
            let refusal = Refusal::new(Reason::Upstream, "no node can be reached");
            let refusal = refusal.retry_after(LONGEST_PAUSE);
            self.hub.end(&known.feed, FeedEnd::Failed(refusal));
        }
        if self.requests.is_none() && now >= self.retry_at && !self.is_empty() {
            self.connect(connections);
        }
    }

    /// A message of the node.
    pub(super) fn on_message(&mut self, text: &Bytes) {
        self.backoff.reset();
        match NodeMessage::read(text) {
            NodeMessage::Event { id, rest } => {
                self.publish(id.parse().ok(), text.slice_ref(rest.as_bytes()), false);
            }
            NodeMessage::Cancelled { id, reason } => {
                if let Some(place) = self.place_of(id.parse().ok()) {
                    let known = self.subscriptions.remove(place);
                    self.hub.end(&known.feed, FeedEnd::Cancelled(reason));
                }
            }
            NodeMessage::Answer { id, error } => {
                // Up to Tendermint 0.33 events are indented.
                if error.is_none()
                    && let Some((id, rest)) = compact_event(text)
                {
                    return self.publish(Some(id), rest, true);
                }
                self.on_answer(id, error.as_deref(), text);
            }
            NodeMessage::Garbage => {}
        }
    }

    fn publish(&self, id: Option<u64>, rest: Bytes, is_marked: bool) {
        if let Some(place) = self.place_of(id) {
            let event = FeedEvent { rest, is_marked };
            self.subscriptions[place].feed.publish(event);
        }
    }

    fn place_of(&self, id: Option<u64>) -> Option<usize> {
        let mut known = self.subscriptions.iter();
        known.position(|known| Some(known.id) == id)
    }

    fn on_answer(&mut self, id: Option<&str>, error: Option<&str>, text: &Bytes) {
        let id = match id {
            // What the node cannot carry out, which it does in order.
            None | Some("-1") => {
                let asked = self.subscriptions.iter().filter(|known| !known.is_live);
                let leaving = self.leaving.iter().map(|leaving| leaving.id);
                asked.map(|known| known.id).chain(leaving).min()
            }
            Some(id) => id.parse().ok(),
        };
        let Some(place) = self.place_of(id) else {
            self.leaving.retain(|leaving| Some(leaving.id) != id);
            return self.hub.0.totals.changed.notify_one();
        };
        let Some(error) = error else {
            self.subscriptions[place].is_live = true;
            return self.subscriptions[place].feed.confirm();
        };
        if error == EXITING {
            return self.on_break("the node stops");
        }
        let known = self.subscriptions.remove(place);
        // It takes fewer queries of one connection, or counts one that it has ended: another is used. Of a
        // fresh connection it is the node's last word.
        let end = if known.is_live {
            FeedEnd::Cancelled(error.to_owned())
        } else if self.asked > 1 && (error.starts_with(TOO_MANY) || error == ALREADY) {
            self.most = self.subscriptions.len();
            return self.hub.0.totals.changed.notify_one();
        } else {
            FeedEnd::Refused(error_member(text))
        };
        self.hub.end(&known.feed, end);
    }
}

/// Queries of one connection to a node: its `rpc.max_subscriptions_per_client`, by default.
pub(super) const QUERIES_PER_LINK: usize = 5;
/// Messages of all connections that wait to be handed out. Each is charged; more would only hide a hub that is
/// stuck.
const MESSAGES: usize = 16;
/// Requests that wait for a connection, at most: one to subscribe and one to unsubscribe for each query.
const REQUESTS: usize = 2 * QUERIES_PER_LINK;
/// The longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Why a subscription ends whose events may have been missed.
const LOST: &str = "the connection to the node was lost";
/// The node's words for a connection that has as many queries as it may have.
const TOO_MANY: &str = "max_subscriptions_per_client";
/// And for one that has this query.
pub(in crate::upstream) const ALREADY: &str = "already subscribed";
