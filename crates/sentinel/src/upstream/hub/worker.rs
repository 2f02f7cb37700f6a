//! The task that asks nodes for what clients subscribe to, and hands their events out.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use tracing::debug;

use super::feed::{Feed, FeedEnd, FeedEvent};
use super::{Hub, QUERIES_PER_LINK};
use crate::jsonrpc::KeptId;
use crate::upstream::nodes::NodeIndex;
use crate::upstream::relay::message::about;
use crate::upstream::relay::node_message::{NodeMessage, compact_event, error_member};
use crate::upstream::relay::{Relay, RelayEvent, RelayMessage, Relays};

/// Serves a hub: run it.
pub struct HubWorker {
    hub: Hub,
    relays: Relays,
    links: Vec<Link>,
    /// The id of the last request.
    last_id: u64,
    /// Queries of one connection: fewer once a node has refused more.
    per_link: usize,
    /// The link that is asked first for news.
    turn: usize,
}

/// One connection to a node, and the queries on it by the ids of their requests.
struct Link {
    node: NodeIndex,
    relay: Relay,
    feeds: Vec<(u64, Arc<Feed>)>,
}

impl HubWorker {
    pub(super) const fn new(hub: Hub, relays: Relays) -> Self {
        Self {
            hub,
            relays,
            links: Vec::new(),
            last_id: 0,
            per_link: QUERIES_PER_LINK,
            turn: 0,
        }
    }

    /// Serves until shutdown.
    ///
    /// # Cancel safety
    /// Dropping the future ends all subscriptions.
    pub async fn run(mut self) {
        let changed = Arc::clone(&self.hub.0.changed);
        let shutdown = self.relays.end();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = changed.notified() => self.review(),
                (link, event) = poll_fn(|context| self.poll_links(context)) => {
                    self.on_event(link, event);
                }
            }
            self.drop_unused();
        }
    }

    fn poll_links(&mut self, context: &mut Context<'_>) -> Poll<(usize, RelayEvent)> {
        for step in 0..self.links.len() {
            let place = (self.turn + step) % self.links.len();
            if let Poll::Ready(event) = self.links[place].relay.poll_recv(context) {
                self.turn = place + 1;
                return Poll::Ready((place, event));
            }
        }
        Poll::Pending
    }

    /// Ends what nobody reads, and asks for what is new.
    fn review(&mut self) {
        let (mut deserted, mut wanted) = (Vec::new(), Vec::new());
        self.hub.0.board.lock().retain(|_, feed| {
            if feed.is_deserted() {
                deserted.push(Arc::clone(feed));
                return false;
            }
            if feed.ask() {
                wanted.push(Arc::clone(feed));
            }
            true
        });
        for feed in deserted {
            self.unsubscribe(&feed);
        }
        for feed in wanted {
            self.subscribe(feed);
        }
    }

    fn subscribe(&mut self, feed: Arc<Feed>) {
        self.last_id += 1;
        let (id, node, most) = (self.last_id, feed.key.0, self.per_link);
        let message = request(id, "subscribe", &feed.query);
        let has_room = |link: &Link| link.node == node && link.feeds.len() < most;
        let link = match self.links.iter().position(has_room) {
            Some(place) => &mut self.links[place],
            None => {
                let relay = self.relays.subscriber(node);
                let feeds = Vec::new();
                self.links.push(Link { node, relay, feeds });
                self.links.last_mut().expect("one was just added")
            }
        };
        match link.relay.send(&message, Some(id)) {
            Ok(()) => link.feeds.push((id, feed)),
            Err(refusal) => {
                self.hub.remove(&feed);
                feed.end(FeedEnd::Failed(refusal));
            }
        }
    }

    fn unsubscribe(&mut self, feed: &Arc<Feed>) {
        self.last_id += 1;
        let message = request(self.last_id, "unsubscribe", &feed.query);
        for link in &mut self.links {
            let before = link.feeds.len();
            link.feeds.retain(|(_, known)| !Arc::ptr_eq(known, feed));
            // A link without queries is closed, which ends all of its own.
            if link.feeds.len() < before && !link.feeds.is_empty() {
                let sent = link.relay.send(&message, None);
                if let Err(refusal) = sent {
                    debug!(
                        reason = refusal.detail,
                        "a subscription was not ended at the node"
                    );
                }
            }
        }
    }

    fn on_event(&mut self, place: usize, event: RelayEvent) {
        match event {
            RelayEvent::Answer { tag, text } => self.on_answer(place, tag, &text),
            RelayEvent::Failed {
                tag: Some(tag),
                refusal,
                ..
            } => {
                self.end(place, tag, FeedEnd::Failed(refusal));
            }
            RelayEvent::Text(text) => self.on_text(place, &text),
            RelayEvent::Failed { tag: None, .. }
            | RelayEvent::Event { .. }
            | RelayEvent::Closed => {}
        }
    }

    /// The node's answer to a request to subscribe.
    fn on_answer(&mut self, place: usize, id: u64, text: &Bytes) {
        let NodeMessage::Answer {
            error: Some(error), ..
        } = NodeMessage::read(text)
        else {
            if let Some(feed) = self.links[place].feed(id) {
                feed.confirm();
            }
            return;
        };
        let feeds = &mut self.links[place].feeds;
        let others = feeds.len().saturating_sub(1);
        if error.starts_with(TOO_MANY) && others > 0 {
            // This node takes fewer queries of one connection: another one is used.
            self.per_link = others;
            feeds.retain(|(known, feed)| {
                if *known == id {
                    feed.ask_again();
                }
                *known != id
            });
            self.hub.0.changed.notify_one();
        } else {
            self.end(place, id, FeedEnd::Refused(error_member(text)));
        }
    }

    /// An event, or the end of a subscription.
    fn on_text(&mut self, place: usize, text: &Bytes) {
        match NodeMessage::read(text) {
            NodeMessage::Event { id, rest, .. } => {
                if let Some(feed) = id.parse().ok().and_then(|id| self.links[place].feed(id)) {
                    let (rest, is_marked) = (text.slice_ref(rest.as_bytes()), false);
                    feed.publish(FeedEvent { rest, is_marked });
                }
            }
            NodeMessage::Cancelled { id, reason } => {
                if let Ok(id) = id.parse() {
                    self.end(place, id, FeedEnd::Cancelled(reason));
                }
            }
            // Up to Tendermint 0.33 events are indented.
            NodeMessage::Answer {
                id: Some(_),
                error: None,
            } => {
                if let Some((id, rest)) = compact_event(text)
                    && let Some(feed) = self.links[place].feed(id)
                {
                    feed.publish(FeedEvent {
                        rest,
                        is_marked: true,
                    });
                }
            }
            NodeMessage::Answer { .. } | NodeMessage::Garbage => {}
        }
    }

    /// A feed has ended at the node.
    fn end(&mut self, place: usize, id: u64, end: FeedEnd) {
        let feeds = &mut self.links[place].feeds;
        if let Some(at) = feeds.iter().position(|(known, _)| *known == id) {
            let (_, feed) = feeds.remove(at);
            self.hub.remove(&feed);
            feed.end(end);
        }
    }

    fn drop_unused(&mut self) {
        self.links.retain(|link| !link.feeds.is_empty());
        let links = &self.hub.0.links;
        links.store(self.links.len(), Ordering::Relaxed);
    }
}

impl Link {
    fn feed(&self, id: u64) -> Option<&Arc<Feed>> {
        let found = self.feeds.iter().find(|(known, _)| *known == id);
        found.map(|(_, feed)| feed)
    }
}

fn request(id: u64, method: &str, query: &str) -> RelayMessage {
    let id = id.to_string();
    RelayMessage {
        text: about(&id, method, query).into(),
        id: Some(KeptId::new(&id)),
        method: Some(method.into()),
        is_write: false,
    }
}

/// The node's words for a connection that has as many queries as it may have.
const TOO_MANY: &str = "max_subscriptions_per_client";
