//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.
//!
//! Two tower services, one behind the other: [`admission`] decides which reads may go, and those are sent over
//! [`http`](super::http). What a read was admitted with is held by its answer's body, until that is dropped.

mod admission;
mod body;
mod cache;
mod headers;
mod methods;
mod places;
mod unchanging;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::future::BoxFuture;
use hyper::{HeaderMap, Method, header};
use pacing::Nanos;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt as _, service_fn};

pub(crate) use self::admission::Admitted;
use self::admission::{Admission, Read};
pub use self::body::ReadBody;
use self::cache::{Asking, Cache, Found};
pub(super) use self::headers::content_length;
pub(crate) use self::methods::changes;
use super::body::charged;
use super::http::{Outgoing, Repeat};
use super::nodes::{NodeIndex, Nodes};
use super::version::Version;
use super::{UpstreamError, target};
use crate::budget::{Budget, Ledger};
use crate::config::Config;
use crate::refusal::Refusal;
use crate::respond::KeptId;

/// A request to pass on.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// Its HTTP method.
    pub http_method: Method,
    /// The target as the client wrote it, a path with its query.
    pub target: Bytes,
    /// Its headers, without those that belong to the connection or to the framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// The JSON-RPC method it calls, if it is one call whose method is known.
    pub method: Option<Box<str>>,
    /// The id as the node echoes it, if its body is one call.
    pub id: Option<KeptId>,
    /// How many it takes from the client's rate: the calls in it, or 0 if that was done when they came.
    pub calls: u32,
}

impl ReadRequest {
    /// What it says to the node, in its body or its target.
    fn call(&self) -> Bytes {
        let call = if self.body.is_empty() {
            &self.target
        } else {
            &self.body
        };
        call.clone()
    }
}

/// Waits for the turn of a client's call, which is so long, among the writes.
pub(crate) type Turns =
    Arc<dyn Fn(ClientKey, Bytes) -> BoxFuture<'static, Result<(), Refusal>> + Send + Sync>;

/// The node's answer, its body still to be read.
#[derive(Debug)]
pub struct ReadAnswer<B> {
    /// The HTTP status.
    pub status: u16,
    /// The headers as a Go server spells them, without those of connection and framing.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer; none if no node was asked for it.
    pub took: Option<Nanos>,
    /// The body.
    pub body: B,
}

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Reads {
    admission: Arc<Admission>,
    turns: Option<Turns>,
    cache: Cache,
    service: BoxCloneSyncService<Read, ReadAnswer<ReadBody>, Refusal>,
}

impl Reads {
    /// The read lane to these nodes, in which what changes something at the node waits for no turn.
    pub fn new(config: &Config, nodes: &Nodes) -> Self {
        let admission = Arc::new(Admission::new(config, nodes));
        let (admitting, asking) = (Arc::clone(&admission), Arc::clone(&admission));
        let service = service_fn(move |read| Arc::clone(&admitting).admit(read)).and_then(
            move |(read, admitted): (Read, Admitted)| async move {
                let repeat = asking.methods.load().repeat(read.request.method.as_deref());
                let from = (read.client, read.node);
                Ok(ask(&asking.nodes, from, read.request, (repeat, admitted)).await?)
            },
        );
        let context = nodes.shared_context();
        Self {
            admission,
            turns: None,
            cache: Cache::new(&context.ledger, &context.metrics),
            service: BoxCloneSyncService::new(service),
        }
    }

    /// The same, where calls that change something wait for their turn among the writes.
    pub(crate) fn in_turn(self, turns: Turns) -> Self {
        Self {
            turns: Some(turns),
            ..self
        }
    }

    /// Goes by another configuration from now on.
    pub(crate) fn follow(&self, config: &Config) {
        self.admission.follow(config);
    }

    /// Whether this method may be called at all: for calls that do not come through
    /// [`forward`](Self::forward) by themselves.
    ///
    /// # Errors
    /// A refusal with [`Reason::Method`](crate::refusal::Reason).
    pub fn check_method(&self, method: &str) -> Result<(), Refusal> {
        self.admission.methods.load().check(method)
    }

    /// Whether a node serves every route under `/v1` too; true until it has told its version.
    pub fn has_v1_routes(&self, node: NodeIndex) -> bool {
        let version = self.admission.nodes.version(node);
        version.is_none_or(Version::has_v1_routes)
    }

    /// Takes `calls` from the client's rate: for calls that do not come through
    /// [`forward`](Self::forward), such as those on a WebSocket.
    ///
    /// # Errors
    /// A refusal with [`Reason::Rate`](crate::refusal::Reason) that says when to try again;
    /// then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.clients().admit(client, calls)
    }

    /// Passes a read on and gives back the answer as soon as its head is there.
    ///
    /// Goes to `node`, or to another one while that is down or silent; while all are silent it is refused at
    /// once. An answer that cannot change is kept, and is given to others without a place in the lane or a part of the
    /// client's rate. A read whose kept-alive connection turns out to be dead is sent once more.
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
        if let Some(turns) = &self.turns
            && request.method.as_deref().is_some_and(changes)
        {
            turns(client, request.call()).await?;
        }
        let mut read = Read {
            client,
            node,
            request,
        };
        let nodes = &self.admission.nodes;
        let near = nodes.nearest_up(node);
        let Some(key) = unchanging::key(&read.request, (near, nodes.chain(near).0)) else {
            return self.service.clone().oneshot(read).await;
        };
        self.check_method(read.request.method.as_deref().unwrap_or_default())?;
        read.node = near;
        let ledger = nodes.ledger().of(client);
        match self.cache.find(key, &ledger).await {
            Found::Answer(kept) => {
                let body = kept.body(read.request.id.as_ref());
                let length: usize = body.iter().map(Bytes::len).sum();
                let window = self.window_bytes().min(length) + HEAD_BYTES;
                let window = ledger.reserve(window).ok_or_else(Refusal::buffers_full)?;
                Ok(ReadAnswer {
                    status: 200,
                    headers: kept.headers(),
                    length: Some(length as u64),
                    took: None,
                    body: ReadBody::of_cache(body, self.window_bytes(), window),
                })
            }
            Found::Ask(asking) => self.ask_for_all(asking, read, &ledger).await,
            Found::AskAlone => self.service.clone().oneshot(read).await,
        }
    }

    /// Asks, and keeps the answer if it cannot change.
    async fn ask_for_all(
        &self,
        asking: Asking,
        read: Read,
        ledger: &Ledger,
    ) -> Result<ReadAnswer<ReadBody>, Refusal> {
        let (node, method, id) = (
            read.node,
            read.request.method.clone(),
            read.request.id.clone(),
        );
        let mut answer = self.service.clone().oneshot(read).await?;
        // Another node's is kept under another key, and measured by another height.
        if !unchanging::is_public(&answer) || !answer.body.is_of(node) {
            return Ok(answer);
        }
        let limits = (self.cache.most(), self.window_bytes());
        let Some((body, charge)) = answer.body.whole(ledger.nothing(), limits).await? else {
            return Ok(answer);
        };
        let call = (method.as_deref().unwrap_or_default(), id.as_ref());
        let height = self.admission.nodes.chain(node).1;
        let kept = match unchanging::id_in_final(call, &body, height) {
            None => Err((body, charge)),
            Some(place) => asking.keep(answer.headers.clone(), (body, charge), place),
        };
        let pieces = match kept {
            Ok(kept) => kept.body(id.as_ref()),
            Err((body, charge)) => [charged(body, charge), Bytes::new(), Bytes::new()],
        };
        answer.body.put_back(pieces, self.window_bytes());
        Ok(answer)
    }

    fn window_bytes(&self) -> usize {
        let context = self.admission.nodes.shared_context();
        context.config.load().fixed.window_bytes
    }

    /// What a read of so many calls is admitted with that goes to another listener of the node.
    ///
    /// # Errors
    /// A refusal: over the client's rate or concurrency, or too many are under way.
    pub(crate) async fn place(&self, client: ClientKey, calls: u32) -> Result<Admitted, Refusal> {
        self.admission.place(client, calls).await
    }

    /// The limits that reads and subscriptions of a client share.
    pub(super) fn clients(&self) -> &Budget {
        &self.admission.clients
    }
}

/// Asks a node, and waits for the head of its answer. What is read ahead of the answer is charged to the client.
async fn ask(
    nodes: &Nodes,
    (client, node): (ClientKey, NodeIndex),
    request: ReadRequest,
    (repeat, admitted): (Repeat, Admitted),
) -> Result<ReadAnswer<ReadBody>, UpstreamError> {
    let (index, node) = (node, nodes.node(node));
    let window_bytes = nodes.shared_context().config.load().fixed.window_bytes;
    let mut headers = request.headers;
    if node.dialer.endpoint().is_tls() || !node.http.base.is_empty() {
        // A gateway chooses by the host. A node does not; its list of methods links to the
        // host that the client asked.
        headers.remove(header::HOST);
    }
    let is_head = request.http_method == Method::HEAD;
    let outgoing = Outgoing {
        method: request.http_method,
        uri: target::uri(&node.http.base, &request.target)?,
        headers,
        body: request.body,
        repeat,
    };
    let first = HEAD_BYTES.min(window_bytes);
    let ledger = nodes.ledger().of(client);
    let mut window = ledger.reserve(first).ok_or(UpstreamError::Memory)?;
    let started = Instant::now();
    let (head, body) = node.http.send(&outgoing).await?.into_parts();
    let took = started.elapsed().into();
    // What is framed otherwise than announced is framed anew, so that nothing of it can become the next
    // answer on the client's connection (RFC 9112, section 6.3).
    let length = if is_head {
        content_length(&head.headers)
    } else {
        body.inner().framed_length()
    };
    let wanted = usize::try_from(length.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    if !window.grow(wanted.min(window_bytes).saturating_sub(first)) {
        return Err(UpstreamError::Memory);
    }
    Ok(ReadAnswer {
        status: head.status.as_u16(),
        length,
        headers: headers::end_to_end(&head.headers),
        took: Some(took),
        body: ReadBody::of_node(
            (index, body),
            length.filter(|_| !is_head),
            (window, admitted),
        ),
    })
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
const HEAD_BYTES: usize = 16 << 10;
