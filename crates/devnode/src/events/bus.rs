//! Subscriptions to events with their limits, and calls that wait for a transaction.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use wire::encoding::hex_text;
use wire::json::write as json;
use wire::jsonrpc::RequestId;

use super::query::{Query, Tags};
use crate::chain::block::Outcome;
use crate::chain::merkle::Hash;
use crate::config::RpcConfig;
use crate::dialect::Dialect;
use crate::jsonrpc::{self, RpcError};

/// Longest query (`maxQueryLength` in `rpc/core/events.go`).
pub(crate) const MAX_QUERY_LEN: usize = 512;

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
pub(crate) struct Committed {
    pub(crate) height: u64,
    pub(crate) code: u32,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
struct Subscription {
    client: SocketAddr,
    normal_form: String,
    query: Query,
    /// The query as it was written, which events repeat.
    text: String,
    id: RequestId<'static>,
    outbox: Outbox,
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What each client is subscribed to, in normal form. A subscription that ended because its
    /// client was slow stays here, as in the original.
    clients: HashMap<SocketAddr, HashSet<String>>,
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
        if text.len() > MAX_QUERY_LEN {
            return Err("maximum query length exceeded".to_owned());
        }
        let query = parse(text)?;
        let normal_form = query.text();
        let known = inner.clients.entry(client).or_default();
        if !known.insert(normal_form.clone()) {
            return Err("already subscribed".to_owned());
        }
        inner.subscriptions.push(Subscription {
            client,
            normal_form,
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
        let normal_form = parse(query)?.text();
        if self.inner.lock().forget(client, &normal_form) {
            Ok(())
        } else {
            Err("subscription not found".to_owned())
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
        inner
            .clients
            .remove(&client)
            .map(|_| ())
            .ok_or_else(|| "subscription not found".to_owned())
    }

    /// Waits for a transaction on behalf of a client, which counts as a subscription.
    ///
    /// # Errors
    /// The wire's text.
    pub(crate) fn wait_for(&self, client: SocketAddr, hash: &Hash) -> Result<Wait, String> {
        let mut inner = self.inner.lock();
        self.admit(&inner, client)?;
        let normal_form = format!("tm.event = 'Tx' AND tx.hash = '{}'", hex_text(hash));
        let known = inner.clients.entry(client).or_default();
        if !known.insert(normal_form.clone()) {
            return Err("failed to subscribe to tx: already subscribed".to_owned());
        }
        Ok(self.wait(&mut inner, hash, Some((client, normal_form))))
    }

    /// Waits for a transaction on behalf of a part of the node itself, outside all limits: the
    /// caller has a bound of its own.
    pub(crate) fn wait_inside(&self, hash: &Hash) -> Wait {
        self.wait(&mut self.inner.lock(), hash, None)
    }

    fn wait(
        &self,
        inner: &mut Inner,
        hash: &Hash,
        subscription: Option<(SocketAddr, String)>,
    ) -> Wait {
        let (sender, committed) = oneshot::channel();
        inner.waiters.entry(*hash).or_default().push(sender);
        Wait {
            inner: Arc::clone(&self.inner),
            subscription,
            hash: *hash,
            committed,
        }
    }

    /// Wakes the calls that wait for a transaction.
    pub(crate) fn committed(&self, hash: &Hash, committed: impl Fn() -> Committed) {
        let waiters = self.inner.lock().waiters.remove(hash).unwrap_or_default();
        for waiter in waiters {
            // A call that has timed out meanwhile has dropped its receiver.
            let _ = waiter.send(committed());
        }
    }

    /// Whether any call waits for a transaction.
    pub(crate) fn has_waiters(&self) -> bool {
        !self.inner.lock().waiters.is_empty()
    }

    /// Whose shapes events have.
    pub(crate) fn dialect(&self) -> Dialect {
        self.limits.dialect
    }

    /// Whether any query could match an event of this kind; if not, it is not built.
    pub(crate) fn has_subscribers_to(&self, event: &str) -> bool {
        let tags = [("tm.event", vec![event])];
        self.inner.lock().subscriptions.iter().any(|subscription| {
            let mut named = subscription
                .query
                .conditions
                .iter()
                .filter(|condition| condition.tag == "tm.event");
            named.all(|condition| condition.accepts(tags[0].1[0]))
        })
    }

    /// Sends an event to all subscribers whose query matches. `content` makes its JSON, `"data":…,"events":…`.
    pub(crate) fn publish(&self, tags: &Tags<'_>, content: impl FnOnce() -> Vec<u8>) {
        let mut inner = self.inner.lock();
        let mut content = Some(content);
        let mut made = Vec::new();
        inner.subscriptions.retain(|subscription| {
            if !subscription.query.matches(tags) {
                return true;
            }
            if let Some(content) = content.take() {
                made = content();
            }
            subscription.send(&made, &self.limits)
        });
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

fn parse(query: &str) -> Result<Query, String> {
    Query::parse(query).map_err(|fault| format!("failed to parse query: {fault}"))
}

impl Inner {
    fn forget(&mut self, client: SocketAddr, normal_form: &str) -> bool {
        let Some(known) = self.clients.get_mut(&client) else {
            return false;
        };
        let found = known.remove(normal_form);
        if known.is_empty() {
            self.clients.remove(&client);
        }
        self.subscriptions
            .retain(|other| other.client != client || other.normal_form != normal_form);
        found
    }
}

impl Subscription {
    /// Sends an event; false if that ended the subscription.
    fn send(&self, content: &[u8], limits: &RpcConfig) -> bool {
        let limit = limits.subscription_buffer_size;
        let waits = self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut body = Vec::with_capacity(content.len() + self.text.len() + 64);
        if waits < limit {
            match limits.dialect {
                Dialect::Comet038 => jsonrpc::begin(&mut body, Some(&self.id)),
                Dialect::Tendermint031 => {
                    let id = json::Raw(self.id.as_str().trim_matches('"'));
                    json::fill(&mut body, r#"{"jsonrpc":"2.0","id":"?#event""#, &[&id]);
                }
            }
            json::raw(&mut body, r#","result":{"query":"#);
            json::string(&mut body, &self.text);
            body.push(b',');
            body.extend_from_slice(content);
            json::raw(&mut body, "}}");
        } else {
            let reason =
                "subscription was canceled (reason: client is not pulling messages fast enough)";
            jsonrpc::failure(
                &mut body,
                Some(&self.id),
                &RpcError::Server(reason.to_owned()),
            );
        }
        let sent = self.outbox.send(Outgoing {
            body: limits.dialect.formatted(body),
            waiting: Arc::clone(&self.waiting),
        });
        sent.is_ok() && waits < limit
    }
}

/// A call that waits for a transaction; dropping it gives up.
#[derive(Debug)]
pub(crate) struct Wait {
    inner: Arc<Mutex<Inner>>,
    /// What counts as a subscription, if anything does.
    subscription: Option<(SocketAddr, String)>,
    hash: Hash,
    committed: oneshot::Receiver<Committed>,
}

impl Wait {
    /// Where the transaction ended up; none if the node ends before it does.
    pub(crate) async fn committed(&mut self) -> Option<Committed> {
        (&mut self.committed).await.ok()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.committed.close();
        let mut inner = self.inner.lock();
        if let Some((client, normal_form)) = &self.subscription {
            inner.forget(*client, normal_form);
        }
        if let Some(waiters) = inner.waiters.get_mut(&self.hash) {
            waiters.retain(|waiter| !waiter.is_closed());
            if waiters.is_empty() {
                inner.waiters.remove(&self.hash);
            }
        }
    }
}

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
            bus.publish(&[("tm.event", vec!["Tx"])], || b"\"data\":1".to_vec());
        }
        let texts: Vec<String> = std::iter::from_fn(|| inbox.try_recv().ok())
            .map(|out| String::from_utf8(out.body).unwrap())
            .collect();
        assert_eq!(texts.len(), 3);
        assert_eq!(
            texts[0],
            r#"{"jsonrpc":"2.0","id":1,"result":{"query":"tm.event='Tx'","data":1}}"#
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
        assert!(bus.has_waiters());
        let committed = || Committed {
            height: 3,
            code: 0,
            outcome: Outcome::default(),
        };
        bus.committed(&[7; 32], committed);
        assert_eq!(wait.committed().await, Some(committed()));
        drop(wait);
        assert!(!bus.has_waiters());
    }
}
