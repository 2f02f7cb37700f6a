//! A relay's subscriptions, kept so that they can be repeated on another connection.

use bytes::Bytes;

use crate::ledger::Reservation;

/// One subscription that the node has confirmed.
#[derive(Debug)]
pub(super) struct Subscription {
    /// Tells it apart from all others of the relay.
    pub(super) key: u64,
    /// The id of its request, as the node writes it into events.
    pub(super) id: String,
    /// Its query as the client wrote it.
    pub(super) query: String,
    /// The request, for subscribing again.
    pub(super) request: Bytes,
    pub(super) kind: EventKind,
    /// The height of the event that comes next; none before the first.
    pub(super) next: Option<u64>,
    /// How many times chains had been replaced when its last event came.
    pub(super) chain: u64,
    /// The node's height when it was confirmed.
    pub(super) since: u64,
    pub(super) state: SubscriptionState,
    /// The bytes of its request, and so of its id and its query.
    pub(super) _charge: Option<Reservation>,
}

/// What a subscription is about, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum EventKind {
    /// One event a block, which can be made from the block.
    NewBlock,
    /// One event a block, which can be made from its header.
    NewBlockHeader,
    /// Anything else: missed events cannot be made from blocks.
    Other,
}

/// Where a subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// Events come.
    Live,
    /// The connection broke; it is to be subscribed again.
    Lost,
    /// The client was told that it has ended; the node has not confirmed yet.
    Leaving,
}

/// The subscriptions of one relay, as many as a node takes over one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    list: Vec<Subscription>,
    last_key: u64,
}

impl EventKind {
    /// What a query is about.
    pub(super) fn of(query: &str) -> Self {
        match normal_form(query).as_str() {
            "tm.event='NewBlock'" => Self::NewBlock,
            "tm.event='NewBlockHeader'" => Self::NewBlockHeader,
            _ => Self::Other,
        }
    }

    /// Whether every block has one event, at its height.
    pub(super) fn is_per_block(self) -> bool {
        self != Self::Other
    }
}

impl Subscription {
    /// One that begins now.
    pub(super) fn new(id: &str, query: String, request: Bytes) -> Self {
        Self {
            key: 0,
            id: id.to_owned(),
            kind: EventKind::of(&query),
            query,
            request,
            next: None,
            chain: 0,
            since: 0,
            state: SubscriptionState::Live,
            _charge: None,
        }
    }

    /// The height that must come next, counted from the confirmation if no event has come yet.
    pub(super) fn expected(&self) -> u64 {
        self.next.unwrap_or(self.since + 1)
    }
}

impl Subscriptions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The node has confirmed this subscription.
    pub(super) fn add(&mut self, subscription: Subscription) {
        self.last_key += 1;
        self.list.push(Subscription {
            key: self.last_key,
            ..subscription
        });
    }

    /// The subscription that an event belongs to.
    pub(super) fn of_event(&mut self, id: &str, query: &str) -> Option<&mut Subscription> {
        let mut list = self.list.iter_mut();
        list.find(|known| known.id == id && known.query == query)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Subscription> {
        self.list.iter_mut().find(|known| known.key == key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Subscription> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.list.iter_mut()
    }

    /// Forgets one.
    pub(super) fn remove(&mut self, key: u64) -> Option<Subscription> {
        let at = self.list.iter().position(|known| known.key == key)?;
        Some(self.list.remove(at))
    }

    /// What has this query, in whatever spelling, has ended.
    pub(super) fn end(&mut self, query: &str) {
        let normal = normal_form(query);
        self.list
            .retain(|known| normal_form(&known.query) != normal);
    }

    /// All have ended.
    pub(super) fn end_all(&mut self) {
        self.list.clear();
    }

    /// Removes those that have ended and marks the others as lost, with their connection.
    pub(super) fn lose(&mut self) {
        self.list
            .retain(|known| known.state != SubscriptionState::Leaving);
        for known in &mut self.list {
            known.state = SubscriptionState::Lost;
        }
    }
}

/// A query without white space outside its quotes: equal for all spellings that the node takes for
/// the same.
pub(in crate::upstream) fn normal_form(query: &str) -> String {
    let mut quoted = false;
    let keep = |letter: &char| {
        quoted ^= *letter == '\'';
        quoted || !letter.is_whitespace()
    };
    query.chars().filter(keep).collect()
}

/// Whether the first value of a request is JSON without texts that only Go reads, such as halves of
/// surrogate pairs.
pub(in crate::upstream) fn is_readable(request: &[u8]) -> bool {
    use serde::Deserialize;
    let mut values = serde_json::Deserializer::from_slice(request);
    serde_json::Value::deserialize(&mut values).is_ok()
}

/// The query in a request to subscribe or to unsubscribe; none if it has none, or several parameters.
pub(in crate::upstream) fn query_of(request: &[u8]) -> Option<String> {
    use serde::Deserialize;
    use serde_json::Value;
    let mut values = serde_json::Deserializer::from_slice(request);
    // Only the first value counts for the node, and keys match in whatever case.
    let Ok(Value::Object(members)) = Value::deserialize(&mut values) else {
        return None;
    };
    let params = members
        .into_iter()
        .rfind(|(name, _)| name.eq_ignore_ascii_case("params"));
    let query = match params?.1 {
        Value::Object(mut named) => named.remove("query")?,
        Value::Array(mut listed) if listed.len() == 1 => listed.swap_remove(0),
        _ => return None,
    };
    match query {
        Value::String(query) => Some(query),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_query_are_one() {
        for query in ["tm.event='NewBlock'", " tm.event  = 'NewBlock' "] {
            assert_eq!(EventKind::of(query), EventKind::NewBlock);
        }
        assert_eq!(
            EventKind::of("tm.event = 'NewBlockHeader'"),
            EventKind::NewBlockHeader
        );
        for query in [
            "tm.event='New Block'",
            "tm.event='NewBlock' AND block.height>5",
            "tm.event='Tx'",
            "",
        ] {
            assert_eq!(EventKind::of(query), EventKind::Other, "{query}");
        }
    }

    #[test]
    fn queries_are_found_in_either_form_of_parameters() {
        for request in [
            r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"a=1"}}"#,
            r#"{"params":["a=1"],"method":"subscribe"} trailing"#,
            r#"{"Params":{"query":"a\u003d1"}}"#,
        ] {
            assert_eq!(
                query_of(request.as_bytes()).as_deref(),
                Some("a=1"),
                "{request}"
            );
        }
        for request in ["", "[]", "{}", r#"{"params":{}}"#, r#"{"params":[5]}"#] {
            assert_eq!(query_of(request.as_bytes()), None, "{request}");
        }
    }

    #[test]
    fn an_unsubscribed_query_is_gone_in_any_spelling() {
        let mut subscriptions = Subscriptions::default();
        for (id, query) in [("1", "tm.event='NewBlock'"), ("1", "tm.event='Tx'")] {
            subscriptions.add(Subscription::new(id, query.to_owned(), Bytes::new()));
        }
        assert_eq!(subscriptions.of_event("1", "tm.event='Tx'").unwrap().key, 2);
        subscriptions.end("tm.event = 'NewBlock'");
        assert_eq!(subscriptions.len(), 1);
        assert!(subscriptions.of_event("1", "tm.event='NewBlock'").is_none());
        assert!(subscriptions.of_event("2", "tm.event='Tx'").is_none());
    }
}
