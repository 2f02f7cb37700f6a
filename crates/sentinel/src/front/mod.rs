//! The clients' side: connections are let in, their requests read within bounds and deadlines,
//! classified, handed to the lane they belong to, and answered as the node would.
//!
//! One task serves one connection. An answer of the write lane is put into the connection's outbox
//! and written by that task, so nothing is spawned and no channel is crossed for a request.
//!
//! [`Front`] is made once and serves any number of listeners. Inside, `listener` lets
//! connections in, `socket` keeps their deadlines and what they hold in memory, `http` and
//! `websocket` speak the two protocols, `backend` is what the lanes look like from here.

mod backend;
mod buffer;
mod doors;
mod encrypted;
mod http;
mod http2;
mod listener;
mod socket;
mod streams;
#[cfg(test)]
mod testing;
mod websocket;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fairq::ClientKey;
use tokio::net::TcpListener;
use wire::calls::JsonLimits;
use wire::http::HeadLimits;

pub use self::backend::Lanes;
use crate::access::{Ended, Seen};
use crate::identity::{Identities, Identity, Peer};
use crate::metrics::OutcomeLabel;
use crate::refusal::Refusal;
use crate::sampled::RefusalLog;
use crate::shared_context::SharedContext;
use crate::upstream::DoorNodes;

/// The clients' side. Clones share it.
#[derive(Clone)]
pub struct Front(Arc<Shared<Lanes>>);

/// What all connections share.
pub(crate) struct Shared<B> {
    backend: B,
    context: SharedContext,
    head_limits: HeadLimits,
    refusals: RefusalLog,
    connections: AtomicU64,
    /// Listeners that may have clients yet.
    listeners: AtomicUsize,
}

impl<B> Deref for Shared<B> {
    type Target = SharedContext;

    fn deref(&self) -> &SharedContext {
        &self.context
    }
}

impl Front {
    /// A front without connections.
    ///
    /// # Errors
    /// `[trust]` lists more networks than the table can distinguish.
    pub fn new(lanes: Lanes, shared_context: SharedContext) -> Result<Self, fairq::Error> {
        let shared = Shared::new(lanes, shared_context)?;
        Ok(Self(Arc::new(shared)))
    }

    /// Serves a listener until `stop` is cancelled and then until the last connection has ended,
    /// at most for `shutdown.drain`. Returns how many connections were cut off.
    ///
    /// # Cancel safety
    /// Dropping the future cuts all connections off.
    pub async fn serve(&self, listener: TcpListener) -> usize {
        listener::prepare(&listener);
        listener::serve(Arc::clone(&self.0), listener).await
    }

    /// Serves a listener in front of another one of the node's, as [`serve`](Self::serve) does, while that runs.
    pub(crate) async fn serve_door(&self, listener: TcpListener, nodes: DoorNodes) -> usize {
        listener::prepare(&listener);
        doors::serve(Arc::clone(&self.0), listener, nodes).await
    }
}

/// A call that is served. If it is dropped before it ended, its client has gone away.
struct OpenCall<'a, B> {
    front: &'a Shared<B>,
    /// None once it has ended.
    call: Option<Ended<'a>>,
}

impl<B> OpenCall<'_, B> {
    /// It has ended, which is counted elsewhere.
    fn close(mut self) {
        self.call = None;
    }
}

impl<B> Drop for OpenCall<'_, B> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.front.abandoned(call);
        }
    }
}

impl<B> Shared<B> {
    /// A call that is served from now on.
    fn open<'a>(&'a self, call: Ended<'a>) -> OpenCall<'a, B> {
        OpenCall {
            front: self,
            call: Some(call),
        }
    }

    fn new(backend: B, context: SharedContext) -> Result<Self, fairq::Error> {
        let current = context.config.current();
        let fixed = &current.fixed;
        context.identities.follow(Identities::new(&current.trust)?);
        Ok(Self {
            backend,
            head_limits: HeadLimits {
                bytes: fixed.header_bytes,
                fields: fixed.headers,
                target: fixed.uri_bytes,
            },
            refusals: RefusalLog::new(context.clock),
            connections: AtomicU64::new(0),
            listeners: AtomicUsize::new(0),
            context,
        })
    }

    /// What JSON may be.
    fn json_limits(&self) -> JsonLimits {
        JsonLimits {
            depth: self.config.fixed().depth,
            batch: self.config.load().limits.batch,
        }
    }

    /// Whether connections from this address begin with the name of their client.
    fn names_clients(&self, address: IpAddr) -> bool {
        let config = self.config.load();
        let mut proxies = config.trust.proxies.iter();
        proxies.any(|proxy| proxy.by_connection && proxy.network.contains(address))
    }

    /// Whose a request on a connection is. `lines` are those of its `X-Forwarded-For`, which a trusted proxy's alone are
    /// read. Its network may have been forbidden since the connection came.
    fn identity<'a>(&self, peer: &Peer, lines: impl FnOnce() -> Vec<&'a [u8]>) -> Identity {
        let identities = self.identities.load();
        if peer.is_proxy {
            return identities.of_request(peer.identity.address, lines().into_iter());
        }
        Identity {
            allowed: identities.allows(peer.identity.address),
            ..peer.identity
        }
    }

    /// What is noted of a request that begins, with the fields of its head, where requests are written down.
    fn see<T: AsRef<[u8]>>(&self, field: impl Fn(&'static str) -> Option<T>) -> Option<Seen> {
        self.access.as_ref().map(|_| Seen::new(field))
    }

    /// Counts the end of a call, and writes it down; refusals are [`refused`](Self::refused) as well, which writes those
    /// down.
    fn ended(&self, ended: Ended<'_>, outcome: OutcomeLabel) {
        if let Some((transport, class)) = ended.call {
            self.metrics.request(transport, class, outcome);
        }
        if matches!(outcome, OutcomeLabel::Forwarded | OutcomeLabel::Cancelled) {
            self.write_down(ended, outcome, None);
        }
    }

    /// Counts a call that ends because its client has gone away, or the program ends, and writes it down.
    fn abandoned(&self, call: Ended<'_>) {
        if self.stop.is_cancelled() {
            self.ended(call, OutcomeLabel::Lost);
            self.write_down(call, OutcomeLabel::Lost, None);
        } else {
            self.ended(call, OutcomeLabel::Cancelled);
        }
    }

    /// Writes the end of a request down, where requests are.
    fn write_down(&self, ended: Ended<'_>, outcome: OutcomeLabel, refusal: Option<&Refusal>) {
        if let Some(access) = &self.access {
            access.tell(ended, outcome.name(), refusal);
        }
    }

    /// Counts a refusal of something that is no call, tells the operator of one now and then, and writes it down.
    fn refused(&self, client: ClientKey, refusal: &Refusal) {
        self.refused_call(Ended::of(client), refusal);
    }

    /// The same of a call.
    fn refused_call(&self, ended: Ended<'_>, refusal: &Refusal) {
        self.metrics.refused(refusal.reason);
        self.refusals.tell(ended.client, refusal);
        let outcome = OutcomeLabel::of_write(refusal.reason);
        self.write_down(ended, outcome, Some(refusal));
    }

    /// A number that no other connection of this process has.
    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}
