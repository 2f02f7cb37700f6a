//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.
//!
//! Two tower services, one behind the other: [`admission`] decides which reads may go, and those are sent over
//! [`http`](super::http). What a read was admitted with is held by its answer's body, until that is dropped.

mod admission;
mod asking;
mod cache;
mod doors;
mod params;
mod subject;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fairq::ClientKey;
use futures_util::future::BoxFuture;
use hyper::HeaderMap;
use pacing::Nanos;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt as _, service_fn};

pub(super) use self::admission::Admitted;
pub use self::admission::ReadRequest;
use self::admission::{Admission, Read};
use self::asking::HEAD_BYTES;
use self::cache::{Asking, Cache, Found, KeptHead};
pub(crate) use self::params::{changes, price, price_of_page};
use super::answer::AnswerBody;
use super::body::charged;
use super::choice::Wanted;
use super::node_state::{NodeIndex, Version};
use super::nodes::Nodes;
use crate::budget::{Budget, Reservation};
use crate::config::Config;
use crate::refusal::Refusal;
use crate::respond::KeptId;

/// Waits for the turn of a client's call, which is so long, among the writes.
pub(crate) type Turns =
    Arc<dyn Fn(ClientKey, Bytes) -> BoxFuture<'static, Result<(), Refusal>> + Send + Sync>;

/// The node's answer, its body still to be read.
#[derive(Debug)]
pub struct ReadAnswer<B> {
    /// The HTTP status.
    pub status: u16,
    /// The headers, without those of connection and framing.
    pub headers: HeaderMap,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer; none if no node was asked for it.
    pub took: Option<Nanos>,
    /// Whether it counts as a read of its client's, whose rate bounds the request then.
    pub is_counted: bool,
    /// The body.
    pub body: B,
}

/// A question that others wait for the answer of.
struct Shared<'a> {
    asking: Asking,
    /// The node that its answer is kept for.
    node: NodeIndex,
    id: Option<&'a KeptId>,
    /// How many seconds its answer may be kept if the node sets no limit.
    default_s: u64,
    /// What its answer is charged to.
    charge: Reservation,
}

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Reads {
    admission: Arc<Admission>,
    turns: Option<Turns>,
    cache: Cache,
    service: Arc<BoxCloneSyncService<Read, ReadAnswer<AnswerBody>, Refusal>>,
}

impl Reads {
    /// The read lane to these nodes, in which what changes something at the node waits for no turn.
    pub fn new(config: &Config, nodes: &Nodes) -> Self {
        let admission = Arc::new(Admission::new(config, nodes));
        let (admitting, of) = (Arc::clone(&admission), Arc::clone(&admission));
        let service = service_fn(move |read| Arc::clone(&admitting).admit(read)).and_then(
            move |(read, admitted): (Read, Admitted)| async move {
                Ok(asking::ask(&of, read, admitted).await?)
            },
        );
        let context = nodes.shared_context();
        Self {
            admission,
            turns: None,
            cache: Cache::new(&context.ledger, &context.metrics),
            service: Arc::new(BoxCloneSyncService::new(service)),
        }
    }

    /// The same, where calls that change something wait for their turn among the writes.
    pub(crate) fn in_turn(self, turns: Turns) -> Self {
        Self {
            turns: Some(turns),
            ..self
        }
    }

    /// Whether this method may be called at all: for calls that do not come through
    /// [`forward`](Self::forward) by themselves.
    ///
    /// # Errors
    /// A refusal with [`Reason::Method`](crate::refusal::Reason).
    pub fn check_method(&self, method: &str) -> Result<(), Refusal> {
        self.admission.check_method(method)
    }

    /// Whether a node serves every route under `/v1` too; true until it has reported its version.
    pub fn has_v1_routes(&self, node: NodeIndex) -> bool {
        let version = self.admission.nodes.version(node);
        version.is_none_or(Version::has_v1_routes)
    }

    /// Takes `calls` from the client's rate: for calls that do not come through
    /// [`forward`](Self::forward), such as those on a WebSocket.
    ///
    /// # Errors
    /// A refusal with [`Reason::Rate`](crate::refusal::Reason) with the time to try again;
    /// then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.admission.charge(client, calls)
    }

    /// Passes a read on and gives back the answer as soon as its head is there.
    ///
    /// `node` takes the writes. The read goes to it if the client writes, else to the client's own one of all, and to
    /// another one while that is down or silent or does not have what is asked for; while all are so it is refused
    /// at once. An answer that cannot change is kept, and is given to others without a place in the lane or a part of the
    /// client's rate; another one is given to clients that asked before for the same, without a place. A read whose kept
    /// connection turns out to be dead is sent once more.
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
    ) -> Result<ReadAnswer<AnswerBody>, Refusal> {
        if let Some(turns) = &self.turns
            && request.method.as_deref().is_some_and(changes)
        {
            turns(client, request.call()).await?;
        }
        let mut read = Read {
            client,
            wanted: self.wanted(client, node, &request),
            node,
            request,
        };
        let nodes = &self.admission.nodes;
        let near = nodes.reading(&read.wanted).unwrap_or(node);
        let Some((key, asked)) = asking::key(&read.request, (near, nodes.chain(near).0)) else {
            return self.ask(read).await;
        };
        self.admission.check(read.request.method.as_deref())?;
        read.node = near;
        let ledger = nodes.ledger().of(client);
        let asking = match self.cache.find(key, &ledger).await {
            Found::Answer(kept) => {
                if !kept.is_final() {
                    self.admission.charge(client, read.request.calls)?;
                }
                self.admission.note_read(client, near);
                let body = kept.body(read.request.id.as_ref());
                let length: usize = body.iter().map(Bytes::len).sum();
                let window = self.window_bytes().min(length) + HEAD_BYTES;
                let window = ledger.reserve(window).ok_or_else(Refusal::buffers_full)?;
                return Ok(ReadAnswer {
                    status: 200,
                    headers: kept.headers(),
                    length: Some(length as u64),
                    took: None,
                    is_counted: !kept.is_final(),
                    body: AnswerBody::of_cache(body, self.window_bytes(), window),
                });
            }
            Found::Ask(asking) => asking,
            Found::AskAlone => return self.ask(read).await,
        };
        let id = read.request.id.clone();
        let mut answer = self.ask(read).await?;
        let shared = Shared {
            asking,
            node: near,
            id: id.as_ref(),
            default_s: 0,
            charge: ledger.nothing(),
        };
        let head = (answer.status, &answer.headers);
        let read = |body: &[u8], _: Option<&HeaderMap>, height| {
            let (place, result) = asking::id_and_result(id.as_ref(), body)?;
            Some((place, asked.is_final(result, height)))
        };
        self.share(shared, head, &mut answer.body, read).await?;
        Ok(answer)
    }

    /// Asks a node once the read is admitted.
    async fn ask(&self, read: Read) -> Result<ReadAnswer<AnswerBody>, Refusal> {
        (*self.service).clone().oneshot(read).await
    }

    /// What a read needs of its node.
    fn wanted(&self, client: ClientKey, node: NodeIndex, request: &ReadRequest) -> Wanted {
        if self.admission.nodes.count() == 1 {
            return Wanted::of(node);
        }
        let reader = self.clients().reader(client);
        let (method, target, body) = (request.method.as_deref(), &request.target, &request.body);
        Wanted {
            spread: (!reader.stays).then_some(client),
            seen: reader.height,
            height: method.and_then(|method| params::height(method, target, body)),
            is_light: method.is_some_and(|method| price(method, target, body) == 1),
            ..Wanted::of(node)
        }
    }

    /// A client writes: where there are several nodes, it reads for a while from the one that takes its writes.
    pub(crate) fn note_write(&self, client: ClientKey) {
        if self.admission.nodes.count() > 1 {
            self.clients().note_write(client);
        }
    }

    /// Gives an answer to the clients that wait, and keeps it if it cannot change. `read` finds the id in its body, and
    /// whether that is final at a height; nothing if it is no answer for others.
    async fn share(
        &self,
        mut shared: Shared<'_>,
        (status, headers): (u16, &HeaderMap),
        body: &mut AnswerBody,
        read: impl FnOnce(&[u8], Option<&HeaderMap>, u64) -> Option<(Range<usize>, bool)> + Send,
    ) -> Result<(), Refusal> {
        let is_awaited = shared.asking.answered();
        let is_wanted = |fresh: &Duration| is_awaited || !fresh.is_zero();
        let fresh = asking::public_for(status, headers, shared.default_s).filter(is_wanted);
        // Another node's is kept under another key, and measured by another height.
        let Some(fresh) = fresh.filter(|_| body.is_of(shared.node)) else {
            return Ok(());
        };
        let window_bytes = self.window_bytes();
        let limits = (self.cache.most(), window_bytes);
        let Some((whole, charge)) = body.read_all(shared.charge, limits).await? else {
            return Ok(());
        };
        let (_, height) = self.admission.nodes.chain(shared.node);
        let found = read(&whole, body.trailers(), height)
            .map(|(place, is_final)| (place, if is_final { fresh } else { Duration::ZERO }));
        let kept = match found.filter(|(_, fresh)| is_wanted(fresh)) {
            None => Err((whole, charge)),
            Some((place, fresh)) => {
                let head = KeptHead {
                    headers: headers.clone(),
                    trailers: body.trailers().cloned(),
                    fresh,
                };
                shared.asking.keep(head, (whole, charge), place)
            }
        };
        let pieces = match kept {
            Ok(kept) => kept.body(shared.id),
            Err((whole, charge)) => [charged(whole, charge), Bytes::new(), Bytes::new()],
        };
        body.put_back(pieces, window_bytes);
        Ok(())
    }

    fn window_bytes(&self) -> usize {
        let context = self.admission.nodes.shared_context();
        context.config.load().fixed.window_bytes
    }

    /// The limits that reads and subscriptions of a client share.
    pub(super) fn clients(&self) -> &Budget {
        &self.admission.clients
    }
}
