//! What one client's WebSocket has behind it: a relay for its questions, and its subscriptions,
//! which it shares with all other clients.

use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fairq::ClientKey;
use wire::json::write::internal_error;

use super::hub::{FeedEnd, FeedNews, Hub, Reader};
use super::nodes::NodeIndex;
use super::relay::node_message::{cancelled, event_head};
use super::relay::subscriptions::{is_readable, normal_form, query_of};
use super::relay::{Relay, RelayEvent, RelayMessage, Relays};
use crate::jsonrpc::KeptId;
use crate::ledger::{Ledger, Reservation};
use crate::refusal::{Reason, Refusal};

/// One client's own WebSocket to a node. Dropping it closes it.
pub trait RelayLink: Send + Unpin {
    /// Whether another message would be taken; room comes while events are polled.
    fn has_room(&self) -> bool;

    /// Takes a message as it came; its answer carries `tag`.
    ///
    /// # Errors
    /// A refusal, and nothing was taken.
    fn send(&mut self, message: &RelayMessage, tag: u64) -> Result<(), Refusal>;

    /// What comes next.
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent>;
}

/// The way of one client's WebSocket to a node, for all but broadcasts. Subscriptions are answered
/// as the node would answer them.
pub struct ClientLink {
    relay: Relay,
    hub: Hub,
    client: ClientKey,
    ledger: Ledger,
    node: NodeIndex,
    /// Subscriptions it may have.
    most: usize,
    subscriptions: Vec<Subscription>,
    /// What comes out next.
    ready: VecDeque<RelayEvent>,
    /// The source that is asked first for news.
    turn: usize,
}

/// One subscription of a client.
struct Subscription {
    /// The tag of the request, and its id, which events carry.
    tag: u64,
    id: KeptId,
    /// As the client wrote it; events carry it.
    query: String,
    normal: String,
    reader: Reader,
    _charge: Reservation,
}

impl ClientLink {
    /// A way for one WebSocket of a client that may have `most` subscriptions.
    pub fn new(
        (relays, hub): (&Relays, &Hub),
        ledger: &Ledger,
        (client, node): (ClientKey, NodeIndex),
        most: usize,
    ) -> Self {
        Self {
            relay: relays.relay(client, node),
            hub: hub.clone(),
            client,
            ledger: ledger.of(client),
            node,
            most,
            subscriptions: Vec::new(),
            ready: VecDeque::new(),
            turn: 0,
        }
    }

    fn subscribe(&mut self, message: &RelayMessage, tag: u64) -> Result<(), Refusal> {
        let Some(query) = query_of(&message.text) else {
            if is_readable(&message.text) {
                // No query, or several: the node refuses it in its own words.
                return self.relay.send(message, Some(tag));
            }
            // The node may read more than we do, and would have a subscription of this client's alone.
            let text = "the query of the subscription cannot be read";
            return Err(Refusal::new(Reason::Parse, text));
        };
        let normal = normal_form(&query);
        // Both in the node's order and words (`rpc/core/events.go`, `libs/pubsub`).
        if self.subscriptions.len() >= self.most {
            let text = format!("max_subscriptions_per_client {} reached", self.most);
            self.answer(message, tag, &internal_error(&text));
            return Ok(());
        }
        if self
            .subscriptions
            .iter()
            .any(|known| known.normal == normal)
        {
            self.answer(message, tag, &internal_error("already subscribed"));
            return Ok(());
        }
        let id = message.id.clone().unwrap_or_else(|| KeptId::new("-1"));
        let held = size_of::<Subscription>() + query.len() + normal.len() + id.heap_bytes();
        let charge = self
            .ledger
            .reserve(held)
            .ok_or_else(Refusal::buffers_full)?;
        let reader = self.hub.join(self.client, self.node, &query)?;
        self.subscriptions.push(Subscription {
            tag,
            id,
            query,
            normal,
            reader,
            _charge: charge,
        });
        Ok(())
    }

    fn poll_subscription(&mut self, place: usize, context: &mut Context<'_>) -> Poll<RelayEvent> {
        let known = &mut self.subscriptions[place];
        let was_confirmed = known.reader.is_confirmed();
        let news = ready!(known.reader.poll_news(context));
        Poll::Ready(match news {
            FeedNews::Confirmed => known.answered(DONE),
            FeedNews::Event(event) => RelayEvent::Event {
                head: known.head(event.is_marked).into(),
                rest: event.rest,
            },
            FeedNews::Ended(end) => self.subscriptions.remove(place).ended(end, was_confirmed),
        })
    }

    fn place_of(&self, request: &[u8]) -> Option<usize> {
        let normal = normal_form(&query_of(request)?);
        let mut known = self.subscriptions.iter();
        known.position(|known| known.normal == normal)
    }

    fn answer(&mut self, message: &RelayMessage, tag: u64, member: &[u8]) {
        let text = answer(message.id.as_ref(), member);
        self.ready.push_back(RelayEvent::Answer { tag, text });
    }
}

impl RelayLink for ClientLink {
    fn has_room(&self) -> bool {
        self.relay.has_room()
    }

    fn send(&mut self, message: &RelayMessage, tag: u64) -> Result<(), Refusal> {
        let ended = match message.method.as_deref() {
            Some("subscribe") => return self.subscribe(message, tag),
            Some("unsubscribe") => {
                let place = self.place_of(&message.text);
                place
                    .map(|place| self.subscriptions.remove(place))
                    .into_iter()
                    .collect()
            }
            Some("unsubscribe_all") => std::mem::take(&mut self.subscriptions),
            _ => Vec::new(),
        };
        if ended.is_empty() {
            // That there is no such subscription is the node's to say, and its relay has none.
            return self.relay.send(message, Some(tag));
        }
        // Requests to subscribe that the node has not answered yet are answered first.
        let unanswered = ended.iter().filter(|known| !known.reader.is_confirmed());
        self.ready
            .extend(unanswered.map(|known| known.answered(DONE)));
        self.answer(message, tag, DONE);
        Ok(())
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        if let Some(event) = self.ready.pop_front() {
            return Poll::Ready(event);
        }
        let sources = self.subscriptions.len() + 1;
        for step in 0..sources {
            let place = (self.turn + step) % sources;
            let event = match place.checked_sub(1) {
                None => self.relay.poll_recv(context),
                Some(place) => self.poll_subscription(place, context),
            };
            if event.is_ready() {
                self.turn = place + 1;
                return event;
            }
        }
        Poll::Pending
    }
}

impl Subscription {
    /// The answer to its request.
    fn answered(&self, member: &[u8]) -> RelayEvent {
        RelayEvent::Answer {
            tag: self.tag,
            text: answer(Some(&self.id), member),
        }
    }

    /// An event up to and with the query.
    fn head(&self, is_marked: bool) -> Vec<u8> {
        let id = self.id.as_str();
        match is_marked {
            true => event_head(&format!("\"{}#event\"", id.trim_matches('"')), &self.query),
            false => event_head(id, &self.query),
        }
    }

    /// What its client is told at its end.
    fn ended(self, end: FeedEnd, was_confirmed: bool) -> RelayEvent {
        match end {
            FeedEnd::Refused(member) if !was_confirmed => self.answered(&member),
            FeedEnd::Failed(refusal) if !was_confirmed => RelayEvent::Failed {
                tag: Some(self.tag),
                id: Some(self.id),
                refusal,
            },
            FeedEnd::Cancelled(reason) if !was_confirmed => self.answered(&internal_error(&reason)),
            FeedEnd::Cancelled(reason) => self.told(&reason),
            FeedEnd::Failed(refusal) => self.told(&refusal.detail),
            FeedEnd::Refused(_) => self.told("the node refused it"),
        }
    }

    fn told(&self, reason: &str) -> RelayEvent {
        RelayEvent::Text(cancelled(self.id.as_str(), reason).into())
    }
}

fn answer(id: Option<&KeptId>, member: &[u8]) -> Bytes {
    let mut text = Vec::new();
    crate::respond::write_answer(&mut text, id.map(KeptId::as_str), member);
    text.into()
}

/// The node's answer to what was done.
const DONE: &[u8] = br#""result":{}"#;
