//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.
//!
//! Two tower services, one behind the other: [`admission`] decides which reads may go, and those are sent over
//! [`http`](super::http). What a read was admitted with is held by its answer's body, until that is dropped.

mod admission;
mod headers;
mod methods;
mod places;

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
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
pub(super) use self::headers::content_length;
pub(crate) use self::methods::changes;
use super::body::Pieces;
use super::http::{NodeBody, Outgoing, Repeat};
use super::nodes::{NodeIndex, Nodes};
use super::version::Version;
use super::{UpstreamError, target};
use crate::budget::{Budget, Reservation};
use crate::config::Config;
use crate::refusal::{Reason, Refusal};

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
    /// From the moment it was sent to the head of the answer.
    pub took: Nanos,
    /// The body.
    pub body: B,
}

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Reads {
    admission: Arc<Admission>,
    turns: Option<Turns>,
    service: BoxCloneSyncService<Read, ReadAnswer<ReadBody>, Refusal>,
}

/// An answer's body, read as it is taken. Holds its place in the read lane, and the bytes reserved
/// for what is read ahead, until dropped. An error means that the node broke off or fell silent: the
/// answer's head has gone out by then, so all that is left is to break off as well.
#[derive(Debug)]
pub struct ReadBody {
    body: NodeBody,
    announced: Announced,
    _window: Reservation,
    admitted: Admitted,
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
        self.admitted.is_wanted()
    }
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
        Self {
            admission,
            turns: None,
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
    /// A refusal with [`Reason::Method`].
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
    /// A refusal with [`Reason::Rate`] that says when to try again;
    /// then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.clients().admit(client, calls)
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
        if let Some(turns) = &self.turns
            && request.method.as_deref().is_some_and(changes)
        {
            turns(client, request.call()).await?;
        }
        let read = Read {
            client,
            node,
            request,
        };
        self.service.clone().oneshot(read).await
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
    let node = nodes.node(node);
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
        took,
        body: ReadBody {
            body,
            announced: Announced(length.filter(|_| !is_head)),
            _window: window,
            admitted,
        },
    })
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
