//! Messages of a client that wait to be written or answered, and what comes out of a relay.

use bytes::Bytes;
use tokio::time::Instant;
use wire::json::write::{Raw, Text, filled};

use super::link::LONGEST_PAUSE;
use super::subscriptions::query_of;
use crate::jsonrpc::KeptId;
use crate::ledger::Reservation;
use crate::refusal::{Forwarded, Reason, Refusal};

/// A message of a client that the node answers, as it was classified.
#[derive(Debug)]
pub struct RelayMessage {
    /// The message, byte for byte.
    pub text: Bytes,
    /// The id of its answer; none if the node answers without one.
    pub id: Option<KeptId>,
    /// The method it calls; none if it is no call, or a broadcast.
    pub method: Option<Box<str>>,
    /// Whether it is a broadcast.
    pub is_write: bool,
}

/// A request about the subscription to a query.
pub(in crate::upstream) fn about(id: &str, method: &str, query: &str) -> Vec<u8> {
    let template = r#"{"jsonrpc":"2.0","id":?,"method":"?","params":{"query":?}}"#;
    filled(template, &[&Raw(id), &Raw(method), &Text(query)])
}

/// What comes out of a relay.
#[derive(Debug)]
pub enum RelayEvent {
    /// A message of the node for the client, byte for byte, or one in its dialect: a subscription has ended.
    Text(Bytes),
    /// An event of a shared subscription.
    Event {
        /// With the client's id and query.
        head: Bytes,
        /// What comes behind the query.
        rest: Bytes,
    },
    /// The node's answer to a message that was sent with this tag.
    Answer {
        /// The tag.
        tag: u64,
        /// The answer, as it came.
        text: Bytes,
    },
    /// A message will not be answered by the node.
    Failed {
        /// The tag it was sent with.
        tag: Option<u64>,
        /// The id to answer with, as the node would write it; none if it has none.
        id: Option<KeptId>,
        /// Why.
        refusal: Refusal,
    },
    /// The proxy is going down.
    Closed,
}

/// A message that is not written yet.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) text: Bytes,
    /// The answer to expect.
    pub(super) pending: Pending,
}

/// An answer that is to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: Option<KeptId>,
    pub(super) tag: Option<u64>,
    pub(super) purpose: Purpose,
    /// Whether the node may have seen a transaction in it, if the answer never comes.
    pub(super) forwarded: Forwarded,
    pub(super) since: Instant,
    /// The bytes of the message, until it is answered: its id is kept so long, and more of one that
    /// subscribes. None for what the relay asks itself.
    pub(super) charge: Option<Reservation>,
}

/// What a request was for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Nothing that concerns the relay.
    Other,
    /// To subscribe to this query.
    Subscribe { query: String, request: Bytes },
    /// To end the subscription to this query.
    Unsubscribe { query: String },
    /// The relay has subscribed again.
    Resubscribe { key: u64 },
    /// The relay has ended a subscription.
    Leave { key: u64 },
}

impl Pending {
    /// The event that the node will not answer.
    pub(super) fn failed(self, detail: &str) -> RelayEvent {
        let mut refusal = Refusal::new(Reason::Upstream, detail).retry_after(LONGEST_PAUSE);
        refusal.forwarded = self.forwarded;
        RelayEvent::Failed {
            tag: self.tag,
            id: self.id,
            refusal,
        }
    }
}

impl Purpose {
    pub(super) fn of(message: &RelayMessage) -> Self {
        let query = || query_of(&message.text);
        let purpose = match message.method.as_deref() {
            Some("subscribe") => query().map(|query| Self::Subscribe {
                query,
                request: message.text.clone(),
            }),
            Some("unsubscribe") => query().map(|query| Self::Unsubscribe { query }),
            _ => None,
        };
        // What names no query the node refuses.
        purpose.unwrap_or(Self::Other)
    }
}
