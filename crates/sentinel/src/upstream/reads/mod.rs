//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.
//!
//! A stack of tower layers: [`admission`] has those that decide which reads may go, in the order methods,
//! answering, client concurrency, client rate, concurrency; below them a read is sent over [`http`](super::http),
//! whose own layers are minimum progress, timeout, retry and pool. What a read was admitted with is
//! held by its answer's body, until that is dropped.

mod admission;
mod headers;
mod methods;
mod request;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::{Method, header};
use tokio::sync::Semaphore;
use tower::layer::layer_fn;
use tower::util::BoxCloneSyncService;
use tower::{Service as _, ServiceBuilder, service_fn};

use self::admission::{
    Admitted, Read, admit, answering, client_concurrency, client_rate, concurrency, methods,
};
pub(super) use self::headers::content_length;
use self::methods::MethodList;
pub use self::request::{ReadAnswer, ReadRequest};
use super::body::Pieces;
use super::http::{NodeBody, Outgoing, Repeat};
use super::nodes::{NodeIndex, Nodes};
use super::step::Step;
use super::version::Version;
use super::{UpstreamError, target};
use crate::budget::Budget;
use crate::config::Config;
use crate::ledger::Reservation;
use crate::refusal::{Reason, Refusal};

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Reads {
    node_access: NodeAccess,
    methods: Arc<MethodList>,
    clients: Budget,
    stack: BoxCloneSyncService<Read, ReadAnswer<ReadBody>, Refusal>,
}

/// Sends requests to the nodes, with what is read ahead of an answer charged to the ledger.
#[derive(Clone)]
struct NodeAccess {
    nodes: Nodes,
    window_bytes: usize,
}

/// An answer's body, read as it is taken. Holds its place in the read lane, and the bytes reserved
/// for what is read ahead, until dropped. An error means that the node broke off or fell silent: the
/// answer's head has gone out by then, so all that is left is to break off as well.
#[derive(Debug)]
pub struct ReadBody {
    body: NodeBody,
    announced: Announced,
    _window: Reservation,
    /// Writes have limits of their own.
    admitted: Option<Admitted>,
}

/// Bytes that are still to come of those that the client was told of, if it was told a number. The next answer
/// on its connection begins behind them.
#[derive(Debug)]
struct Announced(Option<u64>);

impl Announced {
    /// Takes in the length of the next piece, or the end: whether they keep to the number.
    fn holds(&mut self, piece: Option<usize>) -> bool {
        let Some(left) = &mut self.0 else {
            return true;
        };
        let bytes = piece.map(|bytes| bytes as u64);
        let holds = bytes.map_or(*left == 0, |bytes| bytes <= *left);
        *left = left.saturating_sub(bytes.unwrap_or(0));
        holds
    }
}

impl Pieces for ReadBody {
    type Error = Refusal;

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        let piece = match ready!(self.body.poll_next(context)).transpose() {
            Ok(piece) => piece,
            Err(error) => return Poll::Ready(Some(Err(error.refusal()))),
        };
        if !self.announced.holds(piece.as_ref().map(Bytes::len)) {
            let text = "the length of the answer is not what the node announced";
            return Poll::Ready(Some(Err(Refusal::new(Reason::Upstream, text))));
        }
        Poll::Ready(piece.map(Ok))
    }

    fn is_wanted(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::is_wanted)
    }
}

impl Reads {
    /// The read lane to these nodes.
    pub fn new(config: &Config, nodes: &Nodes) -> Self {
        let reads = &config.reads;
        let node_access = NodeAccess {
            nodes: nodes.clone(),
            window_bytes: reads.window_bytes,
        };
        let method_list = MethodList::new(&reads.allow_methods, &reads.refuse_methods);
        let method_list = Arc::new(method_list);
        let clients = nodes.surroundings().budget.clone();
        let places = Arc::new(Semaphore::new(reads.concurrency));
        Self {
            stack: BoxCloneSyncService::new(stack(&method_list, &clients, places, &node_access)),
            node_access,
            methods: method_list,
            clients,
        }
    }

    /// Whether this method may be called at all: for calls that do not come through
    /// [`forward`](Self::forward) by themselves.
    ///
    /// # Errors
    /// A refusal with [`Reason::Method`].
    pub fn check_method(&self, method: &str) -> Result<(), Refusal> {
        self.methods.check(method)
    }

    /// Whether a node serves every route under `/v1` too; true until it has told its version.
    pub fn has_v1_routes(&self, node: NodeIndex) -> bool {
        let version = self.node_access.nodes.version(node);
        version.is_none_or(Version::has_v1_routes)
    }

    /// Takes `calls` from the client's rate: for calls that do not come through
    /// [`forward`](Self::forward), such as those on a WebSocket.
    ///
    /// # Errors
    /// A refusal with [`Reason::Rate`] that says when to try again;
    /// then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.clients.admit(client, calls)
    }

    /// Passes a read on and gives back the answer as soon as its head is there.
    ///
    /// Goes to `node`, or to another one while that is down or silent; while all are silent it is refused at
    /// once. A read whose kept-alive connection
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
            admitted: Admitted::default(),
        };
        self.stack.clone().call(read).await
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
        client: ClientKey,
        node: NodeIndex,
        request: ReadRequest,
    ) -> Result<ReadAnswer<ReadBody>, Refusal> {
        let access = &self.node_access;
        let asking = access.ask((client, node), request, Repeat::IfUnwritten, None);
        asking.await.map_err(|error| match error.is_ambiguous() {
            true => error.refusal().maybe_forwarded(),
            false => error.refusal(),
        })
    }

    /// The limits that reads and subscriptions of a client share.
    pub(super) fn clients(&self) -> &Budget {
        &self.clients
    }
}

/// The layers of the read lane, the first one outermost.
fn stack(
    method_list: &Arc<MethodList>,
    limits: &Budget,
    places: Arc<Semaphore>,
    node_access: &NodeAccess,
) -> impl Step<Read, Response = ReadAnswer<ReadBody>, Error = Refusal> + use<> {
    let (list, node_access) = (Arc::clone(method_list), node_access.clone());
    let methods = methods(Arc::clone(method_list));
    let answering = answering(node_access.nodes.clone());
    let slots = client_concurrency(limits.clone(), Arc::clone(&places));
    let rates = client_rate(limits.clone());
    ServiceBuilder::new()
        .layer(layer_fn(move |below| admit(methods.clone(), below)))
        .layer(layer_fn(move |below| admit(answering.clone(), below)))
        .layer(layer_fn(move |below| admit(slots.clone(), below)))
        .layer(layer_fn(move |below| admit(rates.clone(), below)))
        .layer(layer_fn(move |below| {
            concurrency(Arc::clone(&places), below)
        }))
        .service(service_fn(move |read: Read| {
            let access = node_access.clone();
            let repeat = list.repeat(read.request.method.as_deref());
            async move {
                let (from, admitted) = ((read.client, read.node), Some(read.admitted));
                let asking = access.ask(from, read.request, repeat, admitted);
                asking.await.map_err(|error| error.refusal())
            }
        }))
}

impl NodeAccess {
    /// Asks a node, and waits for the head of its answer. What is read ahead of the answer is
    /// charged to the client.
    async fn ask(
        &self,
        (client, node): (ClientKey, NodeIndex),
        request: ReadRequest,
        repeat: Repeat,
        admitted: Option<Admitted>,
    ) -> Result<ReadAnswer<ReadBody>, UpstreamError> {
        let node = self.nodes.node(node);
        let mut headers = request.headers;
        if node.endpoint.is_tls() || !node.base.is_empty() {
            // A gateway chooses by the host. A node does not; its list of methods links to the
            // host that the client asked.
            headers.remove(header::HOST);
        }
        let is_head = request.http_method == Method::HEAD;
        let outgoing = Outgoing {
            method: request.http_method,
            uri: target::uri(&node.base, &request.target)?,
            headers,
            body: request.body,
            repeat,
        };
        let first = HEAD_BYTES.min(self.window_bytes);
        let ledger = self.nodes.ledger().of(client);
        let mut window = ledger.reserve(first).ok_or(UpstreamError::Memory)?;
        let started = Instant::now();
        let (head, body) = node.http.send(outgoing).await?.into_parts();
        let took = started.elapsed().into();
        // What is framed otherwise than announced is framed anew, so that nothing of it can become the next
        // answer on the client's connection (RFC 9112, section 6.3).
        let length = match is_head {
            true => content_length(&head.headers),
            false => body.inner().framed_length(),
        };
        let wanted = usize::try_from(length.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        if !window.grow(wanted.min(self.window_bytes).saturating_sub(first)) {
            return Err(UpstreamError::Memory);
        }
        Ok(ReadAnswer {
            status: head.status.as_u16(),
            length,
            headers: headers::end_to_end(&head.headers),
            took,
            body: ReadBody {
                body,
                announced: Announced(length.filter(|_| !is_head)),
                _window: window,
                admitted,
            },
        })
    }
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
const HEAD_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_90_a_body_is_as_long_as_its_client_was_told_or_breaks_off() {
        let outcome = |announced: Option<u64>, pieces: &[usize]| {
            let mut announced = Announced(announced);
            let pieces = pieces.iter().copied().map(Some).chain([None]);
            pieces
                .map(|piece| announced.holds(piece))
                .collect::<Vec<_>>()
        };
        assert_eq!(outcome(Some(5), &[2, 3]), [true, true, true]);
        assert_eq!(outcome(Some(5), &[2, 4])[..2], [true, false]);
        assert_eq!(outcome(Some(5), &[2, 2]), [true, true, false]);
        assert!(!outcome(Some(0), &[1])[0]);
        assert_eq!(outcome(None, &[7, 9]), [true, true, true]);
    }
}
