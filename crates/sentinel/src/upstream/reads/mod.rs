//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.
//!
//! A stack of tower layers. From the outside in:
//!
//! - [`methods`] refuses methods that are not served,
//! - [`client_concurrency`] bounds the reads under way of one client,
//! - [`client_rate`] bounds the reads a second of one client,
//! - [`concurrency`] bounds the reads under way in all; a read waits a moment for its place,
//! - [`forward`] asks the node, through the stack of [`http`](super::http): minimum progress,
//!   timeout, retry, pool.
//!
//! A client's concurrency comes before its rate, so that a read that is refused because others are
//! under way costs nothing of the rate. Permits are held by the answer's body.

mod client_concurrency;
mod client_rate;
mod concurrency;
mod forward;
mod headers;
mod methods;
mod request;
#[cfg(test)]
mod testing;

use std::sync::Arc;

use fairq::ClientKey;
use tokio::sync::OwnedSemaphorePermit;
use tower::{ServiceBuilder, ServiceExt as _};

use self::client_concurrency::{ClientConcurrency, ClientConcurrencyLayer};
use self::client_rate::{ClientRate, ClientRateLayer};
use self::concurrency::{Concurrency, ConcurrencyLayer};
use self::forward::{Forward, ForwardedBody};
use self::methods::{MethodList, Methods, MethodsLayer};
use self::request::Read;
pub use self::request::{ReadAnswer, ReadRequest};
use super::body::Permitted;
use super::http::Repeat;
use super::limits::{ClientLimits, ClientSlot};
use super::nodes::{NodeIndex, Nodes, Surroundings};
use crate::config::Config;
use crate::refusal::Refusal;

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Reads {
    stack: Methods<ClientConcurrency<ClientRate<Concurrency<Forward>>>>,
    /// The innermost service by itself, for writes: they have limits of their own.
    forward: Forward,
    methods: Arc<MethodList>,
    clients: Arc<ClientLimits>,
}

/// An answer's body, read as it is taken. Holds its place in the read lane until dropped. An error
/// means that the node broke off or fell silent: the answer's head has gone out by then, so all that
/// is left is to break off as well.
pub type ReadBody = Permitted<Permitted<ForwardedBody, OwnedSemaphorePermit>, ClientSlot>;

impl Reads {
    /// The read lane to these nodes.
    ///
    /// # Errors
    /// `fair.clients_max` is out of its range.
    pub fn new(config: &Config, nodes: &Nodes) -> Result<Self, fairq::Error> {
        let reads = &config.reads;
        let Surroundings { clock, seed, .. } = *nodes.surroundings();
        let methods = MethodList::new(&reads.allow_methods, &reads.refuse_methods);
        let methods = Arc::new(methods);
        let clients = Arc::new(ClientLimits::new(config, clock, seed)?);
        let forward = Forward::new(nodes.clone(), reads.window_bytes);
        let stack = ServiceBuilder::new()
            .layer(MethodsLayer(Arc::clone(&methods)))
            .layer(ClientConcurrencyLayer(Arc::clone(&clients)))
            .layer(ClientRateLayer(Arc::clone(&clients)))
            .layer(ConcurrencyLayer::new(reads.concurrency))
            .service(forward.clone());
        Ok(Self {
            stack,
            forward,
            methods,
            clients,
        })
    }

    /// Whether this method may be called at all: for calls that do not come through
    /// [`forward`](Self::forward) by themselves.
    ///
    /// # Errors
    /// A refusal with [`Reason::Method`](crate::refusal::Reason::Method).
    pub fn check_method(&self, method: &str) -> Result<(), Refusal> {
        self.methods.check(method)
    }

    /// Takes `calls` from the client's rate: for calls that do not come through
    /// [`forward`](Self::forward), such as those on a WebSocket.
    ///
    /// # Errors
    /// A refusal with [`Reason::Rate`](crate::refusal::Reason::Rate) that says when to try again;
    /// then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.clients.admit(client, calls)
    }

    /// Passes a read on and gives back the answer as soon as its head is there.
    ///
    /// Goes to `node`, or to another one while that is down. A read whose kept-alive connection
    /// turns out to be dead is sent once more.
    ///
    /// # Errors
    /// A refusal: a method that is not served, over the client's rate or concurrency, no room, or no
    /// answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives the read up; the node may have carried it out.
    pub async fn forward(
        &self,
        client: ClientKey,
        node: NodeIndex,
        request: ReadRequest,
    ) -> Result<ReadAnswer<ReadBody>, Refusal> {
        let read = Read {
            client,
            node,
            request,
        };
        self.stack.clone().oneshot(read).await
    }

    /// Passes on a write whose turn has come, outside the read lane's limits and never twice.
    ///
    /// # Errors
    /// A refusal that says whether the node may have seen it.
    ///
    /// # Cancel safety
    /// Dropping the future gives the answer up; the node may have carried the request out.
    pub async fn pass(
        &self,
        node: NodeIndex,
        request: ReadRequest,
    ) -> Result<ReadAnswer<ReadBody>, Refusal> {
        let asking = self.forward.clone().ask(node, request, Repeat::IfUnwritten);
        match asking.await {
            Ok(answer) => Ok(answer.map(|body| Permitted::unlimited(Permitted::unlimited(body)))),
            Err(error) if error.is_ambiguous() => Err(error.refusal().maybe_forwarded()),
            Err(error) => Err(error.refusal()),
        }
    }

    /// Reads under way now.
    pub fn under_way(&self) -> usize {
        self.clients.under_way()
    }

    /// The limits that reads and relays of a client share.
    pub(super) fn clients(&self) -> &Arc<ClientLimits> {
        &self.clients
    }
}
