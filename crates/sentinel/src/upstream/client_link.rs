//! What one client's WebSocket has behind it: the read lane for its questions, and its subscriptions,
//! which it shares with all other clients. It has no connection to a node of its own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fairq::ClientKey;
use tokio_util::sync::WaitForCancellationFutureOwned;
use wire::calls::SubscriptionCall;
use wire::json;
use wire::json::write::{Int, Text, filled, internal_error};
use wire::jsonrpc::{Request, RequestFault};

use super::body::charged;
use super::hub::{self, ALREADY, FeedEnd, FeedNews, Hub, Reader, canonical, event_head};
use super::node_state::NodeIndex;
use super::questions::Questions;
use super::reads::Reads;
use crate::budget::{Ledger, Reservation};
use crate::refusal::{Reason, Refusal};
use crate::respond::KeptId;

/// The way of one client's WebSocket to a node. Dropping it ends what the client has there.
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

/// A message of a client that the node answers, as it was classified.
#[derive(Debug)]
pub struct RelayMessage {
    /// The message, byte for byte.
    pub text: Bytes,
    /// The id of its answer; none if the node answers without one.
    pub id: Option<KeptId>,
    /// The method it calls; none if it is no call.
    pub method: Option<Box<str>>,
}

/// What comes to a client's WebSocket.
#[derive(Debug)]
pub enum RelayEvent {
    /// A message in the node's dialect: a subscription has ended.
    Text(Bytes),
    /// An event of a shared subscription.
    Event {
        /// With the client's id and query.
        head: Bytes,
        /// What comes behind the query.
        rest: Bytes,
    },
    /// The answer to a message that was sent with this tag.
    Answer {
        /// The tag.
        tag: u64,
        /// The node's answer as it came, or one in its words.
        text: Bytes,
    },
    /// A message will not be answered by the node.
    Failed {
        /// The tag it was sent with.
        tag: u64,
        /// The id to answer with, as the node would write it.
        id: KeptId,
        /// Why.
        refusal: Refusal,
    },
    /// The proxy is going down.
    Closed,
}

/// The way of one client's WebSocket to a node, for all but plain broadcasts. Calls about subscriptions are
/// answered as the node would answer them, and none of them goes there as the client wrote it.
pub struct ClientLink {
    questions: Questions,
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
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// One subscription of a client.
struct Subscription {
    /// The tag of the request, and its id, which events carry.
    tag: u64,
    id: KeptId,
    /// As the client wrote it; events carry it.
    query: String,
    canonical: String,
    reader: Reader,
    charge: Reservation,
}

impl ClientLink {
    /// A way for one WebSocket of a client that may have `most` subscriptions.
    pub fn new(
        (reads, hub): (&Reads, &Hub),
        ledger: &Ledger,
        (client, node): (ClientKey, NodeIndex),
        most: usize,
    ) -> Self {
        let ledger = ledger.of(client);
        Self {
            questions: Questions::new(reads, (client, node), &ledger),
            hub: hub.clone(),
            client,
            ledger,
            node,
            most,
            subscriptions: Vec::new(),
            ready: VecDeque::new(),
            turn: 0,
            end: Box::pin(hub.end_of_proxy().cancelled_owned()),
        }
    }

    /// Carries out a call about subscriptions.
    fn call(&mut self, call: SubscriptionCall, (tag, id): (u64, KeptId)) -> Result<(), Refusal> {
        let ended: Vec<Subscription> = match call {
            SubscriptionCall::Subscribe(query) => return self.subscribe(query, (tag, id)),
            SubscriptionCall::Unsubscribe(query) => {
                let query = canonical(&query);
                let leaves = |known: &mut Subscription| known.canonical == query;
                self.subscriptions.extract_if(.., leaves).collect()
            }
            SubscriptionCall::UnsubscribeAll => std::mem::take(&mut self.subscriptions),
        };
        let text = if ended.is_empty() {
            answer(&id, &internal_error("subscription not found"))
        } else {
            answer(&id, DONE)
        };
        // Requests to subscribe that the node has not answered yet are answered first.
        let unanswered = |known: &Subscription| !known.reader.is_confirmed();
        let unanswered = ended.into_iter().filter(unanswered);
        self.ready
            .extend(unanswered.map(Subscription::into_confirmation));
        self.questions.answered(text, tag)
    }

    fn subscribe(&mut self, query: String, (tag, id): (u64, KeptId)) -> Result<(), Refusal> {
        let canonical = canonical(&query);
        let mut known = self.subscriptions.iter();
        // All in the node's order and words (`rpc/core/events.go`, `libs/pubsub`).
        let fault = if self.subscriptions.len() >= self.most {
            Some(format!(
                "max_subscriptions_per_client {} reached",
                self.most
            ))
        } else if query.len() > MOST_QUERY_BYTES {
            // A request that the node cannot read would end the connection, and what others have there.
            Some("maximum query length exceeded".to_owned())
        } else if known.any(|known| known.canonical == canonical) {
            Some(ALREADY.to_owned())
        } else {
            None
        };
        if let Some(fault) = fault {
            let text = answer(&id, &internal_error(&fault));
            return self.questions.answered(text, tag);
        }
        let held = size_of::<Subscription>() + query.len() + canonical.len() + id.len();
        let charge = self.ledger.reserve(held);
        let charge = charge.ok_or_else(Refusal::buffers_full)?;
        let whose = (self.client, &self.ledger);
        let reader = self.hub.join(whose, self.node, &canonical)?;
        self.subscriptions.push(Subscription {
            tag,
            id,
            query,
            canonical,
            reader,
            charge,
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
}

impl RelayLink for ClientLink {
    fn has_room(&self) -> bool {
        self.questions.has_room()
    }

    fn send(&mut self, message: &RelayMessage, tag: u64) -> Result<(), Refusal> {
        // The node reads the first value of a message, and ignores the rest.
        let first = json::first(&message.text).map_err(RequestFault::Json);
        let read = first.and_then(|call| Ok((call, Request::decode(call)?)));
        let (call, request) = match read {
            Ok(read) => read,
            Err(fault) => return self.questions.answered(unreadable(&fault), tag),
        };
        let Some(id) = request.id.as_ref().map(|id| KeptId::from(id.as_str())) else {
            return Err(Refusal::new(
                Reason::Parse,
                "a notification is not answered",
            ));
        };
        match SubscriptionCall::of(&request) {
            Some(Ok(call)) => self.call(call, (tag, id)),
            Some(Err(fault)) => {
                // Without parameters its handler panics, and so answers with another id.
                let id = request.params.map_or("-1", |_| id.as_str());
                let text = answer_to(Some(id), &internal_error(&fault));
                self.questions.answered(text, tag)
            }
            None => {
                let call = message.text.slice_ref(call);
                self.questions
                    .ask((message.method.clone(), call), (tag, id))
            }
        }
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<RelayEvent> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(RelayEvent::Closed);
        }
        if let Some(event) = self.ready.pop_front() {
            return Poll::Ready(event);
        }
        let sources = self.subscriptions.len() + 1;
        for step in 0..sources {
            let place = (self.turn + step) % sources;
            let event = match place.checked_sub(1) {
                None => self.questions.poll_event(context),
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
            text: answer(&self.id, member).into(),
        }
    }

    /// The answer to its request, when its client has ended it already.
    fn into_confirmation(self) -> RelayEvent {
        RelayEvent::Answer {
            tag: self.tag,
            text: charged(answer(&self.id, DONE), self.charge),
        }
    }

    /// An event up to and with the query.
    fn head(&self, is_marked: bool) -> Vec<u8> {
        let id = self.id.as_str();
        if is_marked {
            event_head(&format!("\"{}#event\"", id.trim_matches('"')), &self.query)
        } else {
            event_head(id, &self.query)
        }
    }

    /// What its client gets at its end. The node refuses or leaves unanswered only what it has not confirmed.
    fn ended(self, end: FeedEnd, was_confirmed: bool) -> RelayEvent {
        match end {
            FeedEnd::Refused(member) => self.answered(&member),
            FeedEnd::Failed(refusal) => RelayEvent::Failed {
                tag: self.tag,
                id: self.id,
                refusal,
            },
            FeedEnd::Cancelled(reason) if was_confirmed => {
                RelayEvent::Text(hub::cancelled(self.id.as_str(), &reason).into())
            }
            FeedEnd::Cancelled(reason) => self.answered(&internal_error(&reason)),
        }
    }
}

fn answer(id: &KeptId, member: &[u8]) -> Vec<u8> {
    answer_to(Some(id.as_str()), member)
}

fn answer_to(id: Option<&str>, member: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    crate::respond::write_answer(&mut text, id, member);
    text
}

/// What the node says to what is no request (`readRoutine` in `rpc/jsonrpc/server/ws_handler.go`).
fn unreadable(fault: &RequestFault) -> Vec<u8> {
    let template = r#""error":{"code":?,"message":"Parse error. Invalid JSON","data":?}"#;
    let data = format!("error unmarshaling request: {fault}");
    answer_to(None, &filled(template, &[&Int(PARSE_ERROR), &Text(&data)]))
}

/// The node's answer to what was done.
const DONE: &[u8] = br#""result":{}"#;
const PARSE_ERROR: i64 = -32_700;
/// A query may be so long (`maxQueryLength` in `rpc/core/events.go`).
const MOST_QUERY_BYTES: usize = 512;
