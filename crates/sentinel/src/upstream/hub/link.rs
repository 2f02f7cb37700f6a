//! One connection to a node that carries subscriptions of the hub.
//!
//! A subscription that was live when the connection broke has ended: events may have been missed. A request
//! to subscribe that the node has not answered is made again over the next connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use rpc::Backoff;
use tokio::time::Instant;
use tracing::debug;
use wire::json::write::{Int, Raw, Text, filled};

use super::Hub;
use super::feed::{Feed, FeedEnd, FeedEvent};
use super::node_message::{EXITING, NodeMessage, compact_event, error_member};
use super::open::open;
use super::query::without_spaces;
use super::socket::NodeSocket;
use crate::refusal::{Reason, Refusal};
use crate::timer::Timer;
use crate::upstream::UpstreamError;
use crate::upstream::nodes::NodeIndex;

/// One connection to a node, and the subscriptions on it.
pub(super) struct Link {
    hub: Hub,
    /// The node that its clients are assigned to.
    home: NodeIndex,
    state: LinkState,
    backoff: Backoff,
    subscriptions: Vec<Subscription>,
    /// Requests to unsubscribe that the node has not answered. Until it has, events of these may come.
    leaving: Vec<Request>,
    /// Queries that the node takes over this connection, as far as it has told.
    most: usize,
    /// Requests to subscribe over this connection.
    asked: usize,
    last_id: u64,
    timer: Timer,
}

/// A query on this connection.
struct Subscription {
    feed: Arc<Feed>,
    /// The request to subscribe; events carry its id.
    request: Request,
    /// Whether the node has confirmed.
    is_live: bool,
}

/// A request to the node.
#[derive(Clone, Copy)]
struct Request {
    id: u64,
    since: Instant,
}

/// Where the connection is.
enum LinkState {
    /// To be tried at this instant.
    Waiting(Instant),
    Connecting(Pin<Box<dyn Future<Output = Result<Box<NodeSocket>, UpstreamError>> + Send>>),
    Open(Box<NodeSocket>),
}

/// What happened to the connection.
enum LinkEvent {
    Opened(Result<Box<NodeSocket>, UpstreamError>),
    Broken(String),
    Message(Bytes),
}

impl Link {
    /// A link that connects when it is polled.
    pub(super) fn new(hub: Hub, home: NodeIndex) -> Self {
        Self {
            hub,
            home,
            state: LinkState::Waiting(Instant::now()),
            backoff: Backoff::new(LONGEST_PAUSE),
            subscriptions: Vec::new(),
            leaving: Vec::new(),
            most: QUERIES_PER_LINK,
            asked: 0,
            last_id: 0,
            timer: Timer::default(),
        }
    }

    /// The node that its clients are assigned to.
    pub(super) const fn home(&self) -> NodeIndex {
        self.home
    }

    /// Whether it has no subscriptions, and so no use.
    pub(super) const fn is_empty(&self) -> bool {
        self.subscriptions.is_empty()
    }

    /// Whether a query can be put here: not beside one that this node may take for the same, of which a
    /// connection can have one.
    pub(super) fn has_room(&self, home: NodeIndex, query: &str) -> bool {
        let query = without_spaces(query);
        let mut known = self.subscriptions.iter();
        self.home == home
            && self.subscriptions.len() < self.most
            && known.all(|known| without_spaces(known.feed.query()) != query)
    }

    /// Subscribes for a feed.
    pub(super) fn subscribe(&mut self, feed: Arc<Feed>) {
        let request = self.ask("subscribe", feed.query());
        self.subscriptions.push(Subscription {
            feed,
            request,
            is_live: false,
        });
    }

    /// Ends the subscription of a feed, if it is here. The connection is given up if the node does not
    /// answer that, so none stays behind.
    pub(super) fn unsubscribe(&mut self, feed: &Arc<Feed>) {
        let mut known = self.subscriptions.iter();
        let Some(place) = known.position(|known| Arc::ptr_eq(&known.feed, feed)) else {
            return;
        };
        self.subscriptions.remove(place);
        if matches!(self.state, LinkState::Open(_)) {
            let request = self.ask("unsubscribe", feed.query());
            self.leaving.push(request);
        }
    }

    /// Writes a request, if the connection is open; else it is written when it is.
    fn ask(&mut self, method: &str, query: &str) -> Request {
        self.last_id += 1;
        let request = Request {
            id: self.last_id,
            since: Instant::now(),
        };
        if let LinkState::Open(socket) = &mut self.state {
            self.asked += usize::from(method == "subscribe");
            socket.write_text(&about(request.id, method, query));
        }
        request
    }

    /// Ready when something has happened. All of the link's work is done in here.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(event) = self.state.poll(context) {
            self.on_event(event);
            return Poll::Ready(());
        }
        if let Some(due) = self.due() {
            ready!(self.timer.poll_until(due, context));
            self.on_due(Instant::now());
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn on_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Opened(Ok(socket)) => self.on_open(socket),
            LinkEvent::Opened(Err(error)) => {
                debug!(node = self.home, %error, "no connection for subscriptions");
                self.state = LinkState::Waiting(Instant::now() + self.backoff.pause());
            }
            LinkEvent::Broken(reason) => self.on_break(&reason),
            LinkEvent::Message(text) => {
                self.backoff.reset();
                self.on_message(&text);
            }
        }
    }

    /// Waiting => Connecting
    fn connect(&mut self) {
        let nodes = &self.hub.0.nodes;
        let dialer = nodes.node(nodes.nearest_up(self.home)).dialer.clone();
        self.state = LinkState::Connecting(Box::pin(open(dialer, nodes.ledger().clone())));
    }

    /// Connecting => Open
    fn on_open(&mut self, mut socket: Box<NodeSocket>) {
        for known in &self.subscriptions {
            let request = about(known.request.id, "subscribe", known.feed.query());
            socket.write_text(&request);
        }
        self.asked = self.subscriptions.len();
        // What the last connection's node took says nothing of this one's.
        self.most = QUERIES_PER_LINK;
        self.state = LinkState::Open(socket);
    }

    /// Open => Waiting
    fn on_break(&mut self, reason: &str) {
        debug!(
            node = self.home,
            reason, "a connection of subscriptions broke"
        );
        self.state = LinkState::Waiting(Instant::now() + self.backoff.pause());
        self.leaving.clear();
        for known in self.subscriptions.extract_if(.., |known| known.is_live) {
            self.hub
                .end(&known.feed, FeedEnd::Cancelled(LOST.to_owned()));
        }
    }

    /// The next deadline.
    fn due(&self) -> Option<Instant> {
        let oldest = self.unanswered().map(|request| request.since).min();
        let unanswered = oldest.map(|since| since + self.hub.0.answer_limit);
        let state = match &self.state {
            LinkState::Waiting(until) => Some(*until),
            LinkState::Connecting(_) => None,
            LinkState::Open(socket) => Some(socket.last_read() + SILENCE_LIMIT),
        };
        [unanswered, state].into_iter().flatten().min()
    }

    /// A deadline has passed.
    fn on_due(&mut self, now: Instant) {
        let limit = self.hub.0.answer_limit;
        let is_late = |request: &Request| now >= request.since + limit;
        match &self.state {
            LinkState::Waiting(until) if now >= *until => self.connect(),
            LinkState::Open(_) if self.unanswered().any(|request| is_late(&request)) => {
                self.on_break("no answer in time");
            }
            LinkState::Open(socket) if now >= socket.last_read() + SILENCE_LIMIT => {
                self.on_break("the node fell silent");
            }
            _ => {}
        }
        let late = |known: &mut Subscription| !known.is_live && is_late(&known.request);
        for known in self.subscriptions.extract_if(.., late) {
            let refusal = Refusal::new(Reason::Upstream, "no node can be reached");
            let refusal = refusal.retry_after(LONGEST_PAUSE);
            self.hub.end(&known.feed, FeedEnd::Failed(refusal));
        }
    }

    /// Requests that the node has not answered.
    fn unanswered(&self) -> impl Iterator<Item = Request> {
        let asked = self.subscriptions.iter().filter(|known| !known.is_live);
        let asked = asked.map(|known| known.request);
        asked.chain(self.leaving.iter().copied())
    }

    fn on_message(&mut self, text: &Bytes) {
        match NodeMessage::read(text) {
            NodeMessage::Event { id, rest } => {
                self.publish(id.parse().ok(), text.slice_ref(rest.as_bytes()), false);
            }
            NodeMessage::Cancelled { id, reason } => {
                if let Some(place) = id.parse().ok().and_then(|id| self.place_of(id)) {
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
        if let Some(place) = id.and_then(|id| self.place_of(id)) {
            let event = FeedEvent { rest, is_marked };
            self.subscriptions[place].feed.publish(event);
        }
    }

    fn place_of(&self, id: u64) -> Option<usize> {
        let mut known = self.subscriptions.iter();
        known.position(|known| known.request.id == id)
    }

    fn on_answer(&mut self, id: Option<&str>, error: Option<&str>, text: &Bytes) {
        let id = match id {
            // What the node cannot carry out, which it does in order.
            None | Some("-1") => self.unanswered().map(|request| request.id).min(),
            Some(id) => id.parse().ok(),
        };
        let Some(id) = id else {
            return;
        };
        let Some(place) = self.place_of(id) else {
            return self.leaving.retain(|request| request.id != id);
        };
        let Some(error) = error else {
            self.subscriptions[place].is_live = true;
            return self.subscriptions[place].feed.confirm();
        };
        if error == EXITING {
            return self.on_break("the node stops");
        }
        let feed = self.subscriptions.remove(place).feed;
        // It takes fewer queries of one connection, or counts one that it has ended: another is used. Of a
        // fresh connection it is the node's last word.
        if self.asked > 1 && (error.starts_with(TOO_MANY) || error == ALREADY) {
            self.most = self.subscriptions.len();
            feed.ask_again();
            self.hub.0.changed.notify_one();
        } else {
            self.hub.end(&feed, FeedEnd::Refused(error_member(text)));
        }
    }
}

impl LinkState {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<LinkEvent> {
        match self {
            Self::Waiting(_) => Poll::Pending,
            Self::Connecting(attempt) => attempt.as_mut().poll(context).map(LinkEvent::Opened),
            Self::Open(socket) => {
                let broken = |error: String| Poll::Ready(LinkEvent::Broken(error));
                if let Poll::Ready(Err(error)) = socket.poll_flush(context) {
                    return broken(error.to_string());
                }
                if let Poll::Ready(message) = socket.poll_message(context) {
                    return match message {
                        Ok(text) => Poll::Ready(LinkEvent::Message(text)),
                        Err(error) => broken(error.to_string()),
                    };
                }
                // Pings may have been answered.
                match socket.poll_flush(context) {
                    Poll::Ready(Err(error)) => broken(error.to_string()),
                    Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

/// A request about the subscription to a query.
fn about(id: u64, method: &str, query: &str) -> Vec<u8> {
    let template = r#"{"jsonrpc":"2.0","id":?,"method":"?","params":{"query":?}}"#;
    filled(template, &[&Int(id), &Raw(method), &Text(query)])
}

/// Queries of one connection to a node: its `rpc.max_subscriptions_per_client`, by default.
pub(super) const QUERIES_PER_LINK: usize = 5;
/// The node pings every 27 s: after a longer silence the connection is taken for broken.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// The longest pause between attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Why a subscription ends whose events may have been missed.
const LOST: &str = "the connection to the node was lost";
/// The node's words for a connection that has as many queries as it may have.
const TOO_MANY: &str = "max_subscriptions_per_client";
/// And for one that has this query.
pub(in crate::upstream) const ALREADY: &str = "already subscribed";
