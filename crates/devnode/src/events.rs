//! Events of committed blocks: subscriptions with their limits, and calls that wait for a transaction.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use wire::encoding::hex_text;
use wire::json::write as json;
use wire::jsonrpc::RequestId;

use crate::app::{App, Hash, Outcome};
use crate::chain::{Block, render};
use crate::config::RpcConfig;
use crate::jsonrpc::{self, RpcError};
use crate::query::{Query, Tags};

/// A message for a subscriber, and the counter it is taken off once it is written.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) body: Vec<u8>,
    pub(crate) waiting: Arc<AtomicUsize>,
}

/// Where a subscriber's messages go. The queue has no bound of its own: each subscription counts
/// what it has in it and ends at its limit.
pub(crate) type Outbox = mpsc::UnboundedSender<Outgoing>;

/// How a transaction ended up in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The block's height.
    pub height: u64,
    /// The result code.
    pub code: u32,
    /// What its execution gave beside the code.
    pub outcome: Outcome,
}

/// What counts as a subscription of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Counted {
    Query(Query),
    /// A call that waits for this transaction.
    Wait(Hash),
}

#[derive(Debug)]
struct Subscription {
    client: SocketAddr,
    query: Query,
    /// The query as it was written, which events repeat.
    text: String,
    id: RequestId<'static>,
    outbox: Outbox,
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What each client is subscribed to. A subscription that ended because its client was slow stays here, as in
    /// the original.
    clients: HashMap<SocketAddr, HashSet<Counted>>,
    subscriptions: Vec<Subscription>,
    waiters: HashMap<Hash, Vec<oneshot::Sender<Committed>>>,
}

/// The event bus.
#[derive(Debug)]
pub(crate) struct Bus {
    limits: RpcConfig,
    inner: Arc<Mutex<Inner>>,
}

impl Bus {
    pub(crate) fn new(limits: RpcConfig) -> Self {
        Self {
            limits,
            inner: Arc::default(),
        }
    }

    /// Subscribes a client. `id` is the request's: events repeat it.
    ///
    /// # Errors
    /// The wire's text.
    pub(crate) fn subscribe(
        &self,
        client: SocketAddr,
        text: &str,
        id: &RequestId<'_>,
        outbox: &Outbox,
    ) -> Result<(), String> {
        let mut inner = self.inner.lock();
        self.admit(&inner, client)?;
        let query = Query::parse(text)?;
        let known = inner.clients.entry(client).or_default();
        if !known.insert(Counted::Query(query.clone())) {
            return Err("already subscribed".to_owned());
        }
        inner.subscriptions.push(Subscription {
            client,
            query,
            text: text.to_owned(),
            id: id.to_static(),
            outbox: outbox.clone(),
            waiting: Arc::default(),
        });
        Ok(())
    }

    /// Ends one subscription of a client.
    ///
    /// # Errors
    /// The wire's text.
    pub(crate) fn unsubscribe(&self, client: SocketAddr, query: &str) -> Result<(), String> {
        let query = Query::parse(query)?;
        let mut inner = self.inner.lock();
        inner
            .subscriptions
            .retain(|other| other.client != client || other.query != query);
        if inner.forget(client, &Counted::Query(query)) {
            Ok(())
        } else {
            Err(NOT_FOUND.to_owned())
        }
    }

    /// Ends all subscriptions of a client.
    ///
    /// # Errors
    /// The wire's text, if there are none.
    pub(crate) fn unsubscribe_all(&self, client: SocketAddr) -> Result<(), String> {
        let mut inner = self.inner.lock();
        inner
            .subscriptions
            .retain(|subscription| subscription.client != client);
        let known = inner.clients.remove(&client);
        known.map(drop).ok_or_else(|| NOT_FOUND.to_owned())
    }

    /// Waits for a transaction on behalf of a client, which counts as a subscription.
    ///
    /// # Errors
    /// The wire's text.
    pub(crate) fn wait_for(&self, client: SocketAddr, hash: &Hash) -> Result<Wait, String> {
        let mut inner = self.inner.lock();
        self.admit(&inner, client)?;
        let known = inner.clients.entry(client).or_default();
        if !known.insert(Counted::Wait(*hash)) {
            return Err("failed to subscribe to tx: already subscribed".to_owned());
        }
        Ok(self.wait(&mut inner, hash, Some(client)))
    }

    /// Waits for a transaction on behalf of a part of the node itself, outside all limits: the
    /// caller has a bound of its own.
    pub(crate) fn wait_inside(&self, hash: &Hash) -> Wait {
        self.wait(&mut self.inner.lock(), hash, None)
    }

    fn wait(&self, inner: &mut Inner, hash: &Hash, client: Option<SocketAddr>) -> Wait {
        let (sender, committed) = oneshot::channel();
        inner.waiters.entry(*hash).or_default().push(sender);
        Wait {
            inner: Arc::clone(&self.inner),
            client,
            hash: *hash,
            committed,
        }
    }

    /// Publishes a block to subscribers and waiting calls.
    pub(crate) async fn publish(&self, app: &dyn App, block: &Block) {
        self.send("NewBlock", &[], |out| {
            let results = |out: &mut Vec<u8>| render::tx_results(out, app, block);
            json::fill(
                out,
                r#""block":?,"block_id":?,"result_finalize_block":{"tx_results":?,"validator_updates":[],"app_hash":?}"#,
                &[
                    &json::With(render::block, block),
                    &json::With(render::block_id, &Some(block.hash)),
                    &results,
                    &json::Base64(&block.app_hash),
                ],
            );
        });
        self.send("NewBlockHeader", &[], |out| {
            let header = json::With(render::header, &block.header);
            json::fill(out, r#""header":?"#, &[&header]);
        });
        let (waits, wanted) = {
            let inner = self.inner.lock();
            (!inner.waiters.is_empty(), inner.wants("Tx"))
        };
        if !waits && !wanted {
            return;
        }
        for (index, tx) in block.txs.iter().enumerate() {
            if wanted {
                self.publish_tx(app, block, index);
                if index % EVENTS_AT_ONCE == EVENTS_AT_ONCE - 1 {
                    tokio::task::yield_now().await;
                }
            }
            if waits {
                self.committed(&tx.hash, || Committed {
                    height: block.header.height,
                    code: block.code(index),
                    outcome: block.outcome(index).clone(),
                });
            }
        }
    }

    fn publish_tx(&self, app: &dyn App, block: &Block, index: usize) {
        let tx = &block.txs[index];
        let hash = hex_text(&tx.hash);
        let height = block.header.height.to_string();
        let (code, outcome) = (block.code(index), block.outcome(index));
        let events = app.events(&tx.bytes, code);
        let mut tags = vec![
            ("tx.hash", vec![hash.as_str()]),
            ("tx.height", vec![height.as_str()]),
        ];
        for (name, value) in events.iter().flatten() {
            match tags.iter_mut().find(|(tag, _)| tag == name) {
                Some((_, values)) => values.push(value),
                None => tags.push((name, vec![value])),
            }
        }
        self.send("Tx", &tags, |out| {
            let result = |out: &mut Vec<u8>| render::result(out, (code, outcome), &events);
            json::fill(
                out,
                r#""TxResult":{"height":?,"index":?,"tx":?,"result":?}"#,
                &[
                    &json::IntText(block.header.height),
                    &json::Int(index),
                    &json::Base64(&tx.bytes),
                    &result,
                ],
            );
        });
    }

    /// Sends an event to all subscribers whose query matches. `members` appends the members of its value.
    fn send(&self, event: &str, tags: &Tags<'_>, members: impl Fn(&mut Vec<u8>)) {
        let mut inner = self.inner.lock();
        if !inner.wants(event) {
            return;
        }
        let mut all = vec![("tm.event", vec![event])];
        all.extend_from_slice(tags);
        let mut content = Vec::new();
        inner.subscriptions.retain(|subscription| {
            if !subscription.query.matches(&all) {
                return true;
            }
            if content.is_empty() {
                write_content(&mut content, event, &all, &members);
            }
            subscription.send(&content, self.limits.subscription_buffer_size)
        });
    }

    /// Wakes the calls that wait for a transaction.
    fn committed(&self, hash: &Hash, committed: impl Fn() -> Committed) {
        let waiters = self.inner.lock().waiters.remove(hash).unwrap_or_default();
        for waiter in waiters {
            // A call that has timed out meanwhile has dropped its receiver.
            let _ = waiter.send(committed());
        }
    }

    fn admit(&self, inner: &Inner, client: SocketAddr) -> Result<(), String> {
        let (clients, each) = (
            self.limits.max_subscription_clients,
            self.limits.max_subscriptions_per_client,
        );
        if inner.clients.len() >= clients {
            return Err(format!("max_subscription_clients {clients} reached"));
        }
        if inner.clients.get(&client).map_or(0, HashSet::len) >= each {
            return Err(format!("max_subscriptions_per_client {each} reached"));
        }
        Ok(())
    }
}

/// Appends the members of an event's `result` behind its query: the value and the tags.
fn write_content(out: &mut Vec<u8>, event: &str, tags: &Tags<'_>, members: &dyn Fn(&mut Vec<u8>)) {
    let tags = |out: &mut Vec<u8>| {
        for (position, (tag, values)) in tags.iter().enumerate() {
            json::raw(out, if position > 0 { "," } else { "" });
            let values = |out: &mut Vec<u8>| {
                json::array(out, values, |out, value| json::string(out, value));
            };
            json::fill(out, "?:?", &[&json::Text(tag), &values]);
        }
    };
    json::fill(
        out,
        r#""data":{"type":"tendermint/event/?","value":{?}},"events":{?}"#,
        &[&json::Raw(event), &members, &tags],
    );
}

impl Inner {
    fn wants(&self, event: &str) -> bool {
        let mut subscriptions = self.subscriptions.iter();
        subscriptions.any(|subscription| subscription.query.selects(event))
    }

    fn forget(&mut self, client: SocketAddr, counted: &Counted) -> bool {
        let Some(known) = self.clients.get_mut(&client) else {
            return false;
        };
        let found = known.remove(counted);
        if known.is_empty() {
            self.clients.remove(&client);
        }
        found
    }
}

impl Subscription {
    /// Sends an event; false if that ended the subscription.
    fn send(&self, content: &[u8], limit: usize) -> bool {
        let waits = self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut body = Vec::with_capacity(content.len() + self.text.len() + 64);
        if waits < limit {
            jsonrpc::begin(&mut body, Some(&self.id));
            json::raw(&mut body, r#","result":{"query":"#);
            json::string(&mut body, &self.text);
            body.push(b',');
            body.extend_from_slice(content);
            json::raw(&mut body, "}}");
        } else {
            let reason =
                "subscription was canceled (reason: client is not pulling messages fast enough)";
            let error = RpcError::Server(reason.to_owned());
            jsonrpc::failure(&mut body, Some(&self.id), &error);
        }
        let sent = self.outbox.send(Outgoing {
            body,
            waiting: Arc::clone(&self.waiting),
        });
        sent.is_ok() && waits < limit
    }
}

/// A call that waits for a transaction; dropping it gives up.
#[derive(Debug)]
pub struct Wait {
    inner: Arc<Mutex<Inner>>,
    /// The client of which it counts as a subscription, if of any.
    client: Option<SocketAddr>,
    hash: Hash,
    committed: oneshot::Receiver<Committed>,
}

impl Wait {
    /// Where the transaction ended up; none if the node ends before it does.
    pub async fn committed(&mut self) -> Option<Committed> {
        (&mut self.committed).await.ok()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.committed.close();
        let mut inner = self.inner.lock();
        if let Some(client) = self.client {
            inner.forget(client, &Counted::Wait(self.hash));
        }
        if let Some(waiters) = inner.waiters.get_mut(&self.hash) {
            waiters.retain(|waiter| !waiter.is_closed());
            if waiters.is_empty() {
                inner.waiters.remove(&self.hash);
            }
        }
    }
}

const NOT_FOUND: &str = "subscription not found";
/// Events of single transactions after which the publisher lets subscribers' connections write.
const EVENTS_AT_ONCE: usize = 100;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn subscribe(bus: &Bus, port: u16, query: &str, outbox: &Outbox) -> Result<(), String> {
        bus.subscribe(client(port), query, &RequestId::number(1), outbox)
    }

    #[test]
    fn limits_have_their_texts() {
        let limits = RpcConfig {
            max_subscription_clients: 2,
            max_subscriptions_per_client: 1,
            ..RpcConfig::default()
        };
        let bus = Bus::new(limits);
        let (outbox, _inbox) = mpsc::unbounded_channel();
        assert_eq!(subscribe(&bus, 1, "a=1", &outbox), Ok(()));
        assert_eq!(
            subscribe(&bus, 1, "a=2", &outbox).unwrap_err(),
            "max_subscriptions_per_client 1 reached"
        );
        assert_eq!(subscribe(&bus, 2, "a=1", &outbox), Ok(()));
        assert_eq!(
            subscribe(&bus, 3, "a=1", &outbox).unwrap_err(),
            "max_subscription_clients 2 reached"
        );
        assert_eq!(
            bus.wait_for(client(3), &[0; 32]).unwrap_err(),
            "max_subscription_clients 2 reached"
        );
        assert_eq!(bus.unsubscribe(client(1), "a = 1"), Ok(()));
        assert_eq!(
            bus.unsubscribe(client(1), "a = 1").unwrap_err(),
            "subscription not found"
        );
        assert_eq!(bus.unsubscribe_all(client(2)), Ok(()));
        assert!(bus.wait_for(client(3), &[0; 32]).is_ok());
        assert!(
            bus.inner.lock().clients.is_empty(),
            "a wait that is over counts no more"
        );
    }

    #[test]
    fn a_slow_subscriber_is_told_and_dropped() {
        let bus = Bus::new(RpcConfig {
            subscription_buffer_size: 2,
            ..RpcConfig::default()
        });
        let (outbox, mut inbox) = mpsc::unbounded_channel();
        subscribe(&bus, 1, "tm.event='Tx'", &outbox).unwrap();
        for _ in 0..5 {
            bus.send("Tx", &[], |out| out.extend_from_slice(b"\"a\":1"));
        }
        let texts: Vec<String> = std::iter::from_fn(|| inbox.try_recv().ok())
            .map(|out| String::from_utf8(out.body).unwrap())
            .collect();
        assert_eq!(texts.len(), 3);
        assert_eq!(
            texts[0],
            r#"{"jsonrpc":"2.0","id":1,"result":{"query":"tm.event='Tx'","data":{"type":"tendermint/event/Tx","value":{"a":1}},"events":{"tm.event":["Tx"]}}}"#
        );
        assert!(texts[2].contains("client is not pulling messages fast enough"));
        assert_eq!(
            subscribe(&bus, 1, "tm.event='Tx'", &outbox).unwrap_err(),
            "already subscribed"
        );
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_transaction() {
        let bus = Bus::new(RpcConfig::default());
        let mut wait = bus.wait_for(client(1), &[7; 32]).unwrap();
        let committed = || Committed {
            height: 3,
            code: 0,
            outcome: Outcome::default(),
        };
        bus.committed(&[7; 32], committed);
        assert_eq!(wait.committed().await, Some(committed()));
        drop(wait);
        assert!(bus.inner.lock().waiters.is_empty());
    }
}
