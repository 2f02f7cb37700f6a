//! The clients' side: connections are let in, their requests read within bounds and deadlines,
//! told apart, handed to the lane they belong to, and answered as the node would.
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
mod proxied;
mod queue;
mod refusals;
mod socket;
mod streams;
#[cfg(test)]
mod testing;
mod websocket;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairq::ClientKey;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::backend::Backend;
pub use self::backend::Lanes;
pub(crate) use self::doors::Door;
use self::refusals::RefusalLog;
use crate::budget::{Budget, Ledger};
use crate::config::Live;
use crate::identity::{Identities, LiveIdentities};
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::shared_context::SharedContext;
use crate::tls::LiveTls;
use crate::upstream::DoorNode;
use wire::calls::JsonLimits;
use wire::http::HeadLimits;

/// The clients' side. Clones share it.
#[derive(Clone)]
pub struct Front(Arc<Shared<Lanes>>);

/// What all connections share.
pub(crate) struct Shared<B> {
    backend: B,
    config: Live,
    identities: LiveIdentities,
    budget: Budget,
    ledger: Ledger,
    metrics: Arc<Metrics>,
    tls: LiveTls,
    stop: CancellationToken,
    leave: CancellationToken,
    head_limits: HeadLimits,
    refusals: RefusalLog,
    connections: AtomicU64,
}

impl Front {
    /// A front without connections.
    ///
    /// # Errors
    /// `[trust]` lists more networks than can be told apart.
    pub fn new(lanes: Lanes, shared_context: SharedContext) -> Result<Self, fairq::Error> {
        let shared = Shared::new(lanes, shared_context)?;
        Ok(Self(Arc::new(shared)))
    }

    /// How clients are identified.
    pub(crate) fn identities(&self) -> LiveIdentities {
        self.0.identities.clone()
    }

    /// Serves a listener until `stop` is cancelled and then until the last connection has ended,
    /// at most for `shutdown.drain`. Returns how many connections were cut off.
    ///
    /// # Cancel safety
    /// Dropping the future cuts all connections off.
    pub async fn serve(&self, listener: TcpListener) -> usize {
        if let Err(error) = listener::prepare(&listener) {
            tracing::warn!(%error, "the listener keeps the system's settings; answers may be slow");
        }
        listener::serve(Arc::clone(&self.0), listener).await
    }
}

impl Front {
    /// Serves a listener in front of another one of the node's, as [`serve`](Self::serve) does, while that runs.
    pub(crate) async fn serve_door(&self, listener: TcpListener, door: (Door, DoorNode)) -> usize {
        if let Err(error) = listener::prepare(&listener) {
            tracing::warn!(%error, "the listener keeps the system's settings; answers may be slow");
        }
        doors::serve(Arc::clone(&self.0), listener, door).await
    }
}

impl<B: Backend> Shared<B> {
    fn new(backend: B, shared_context: SharedContext) -> Result<Self, fairq::Error> {
        let SharedContext {
            config,
            budget,
            ledger,
            clock,
            metrics,
            tls,
            stop,
            leave,
            ..
        } = shared_context;
        let current = config.current();
        let fixed = &current.fixed;
        Ok(Self {
            backend,
            identities: LiveIdentities::new(Identities::new(&current.trust)?),
            budget,
            head_limits: HeadLimits {
                bytes: fixed.header_bytes,
                fields: fixed.headers,
                target: fixed.uri_bytes,
            },
            refusals: RefusalLog::new(clock),
            ledger,
            metrics,
            tls,
            stop,
            leave,
            connections: AtomicU64::new(0),
            config,
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
        let networks = &config.listen.proxy_protocol;
        networks.iter().any(|network| network.contains(address))
    }

    /// Counts a refusal, and tells the operator of one now and then.
    fn refused(&self, client: ClientKey, refusal: &Refusal) {
        self.metrics.refused(refusal.reason);
        self.refusals.tell(client, refusal);
    }

    /// A number that no other connection of this process has.
    fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }
}
