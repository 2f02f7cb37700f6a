//! The read lane: everything that is not a broadcast, passed on as it is and never behind writes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{self, HeaderName};
use hyper::{HeaderMap, Method};
use pacing::Nanos;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::limits::{ClientLimits, ClientSlot};
use super::methods::MethodList;
use super::nodes::{NodeIndex, Nodes, Surroundings};
use super::pool::{Answer, AnswerBody, Attempts, Outgoing};
use super::{UpstreamError, target};
use crate::config::Config;
use crate::ledger::Reservation;
use crate::refusal::{Reason, Refusal};

/// The read lane. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Reads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    methods: MethodList,
    clients: Arc<ClientLimits>,
    /// Reads under way in all.
    slots: Arc<Semaphore>,
    window_bytes: usize,
}

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
    /// How many calls are in it: each takes one from the client's rate. 1 but for batches.
    pub calls: u32,
}

/// The node's answer.
#[derive(Debug)]
pub struct ReadAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers as a Go server spells them, without those of connection and framing.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer.
    pub took: Nanos,
    /// The body.
    pub body: ReadBody,
}

/// An answer's body, read as it is taken. Holds its place in the read lane until dropped.
#[derive(Debug)]
pub struct ReadBody {
    body: AnswerBody,
    _window: Reservation,
    _places: Option<(ClientSlot, OwnedSemaphorePermit)>,
}

impl Reads {
    /// The read lane to these nodes.
    ///
    /// # Errors
    /// `fair.clients_max` is out of its range.
    pub fn new(config: &Config, nodes: &Nodes) -> Result<Self, fairq::Error> {
        let reads = &config.reads;
        let Surroundings { clock, seed, .. } = *nodes.surroundings();
        Ok(Self(Arc::new(Inner {
            nodes: nodes.clone(),
            methods: MethodList::new(&reads.allow_methods, &reads.refuse_methods),
            clients: Arc::new(ClientLimits::new(config, clock, seed)?),
            slots: Arc::new(Semaphore::new(reads.concurrency)),
            window_bytes: reads.window_bytes,
        })))
    }

    /// Whether this method may be called at all.
    ///
    /// # Errors
    /// A refusal with [`Reason::Method`].
    pub fn check_method(&self, method: &str) -> Result<(), Refusal> {
        if self.0.methods.allows(method) {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::Method,
            "this method is not served here",
        ))
    }

    /// Takes `calls` from the client's rate: for calls that do not come through
    /// [`forward`](Self::forward), such as those on a WebSocket.
    ///
    /// # Errors
    /// A refusal with [`Reason::Rate`] that says when to try again; then nothing was taken.
    pub fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        self.0.clients.admit(client, calls)
    }

    /// Passes a read on and gives back the answer as soon as its head is there. The caller has
    /// checked the methods in it.
    ///
    /// Goes to `node`, or to another one while that is down. A read whose kept-alive connection
    /// turns out to be dead is sent once more.
    ///
    /// # Errors
    /// A refusal: over the client's rate or concurrency, no room, or no answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives the read up; the node may have carried it out.
    pub async fn forward(
        &self,
        client: ClientKey,
        node: NodeIndex,
        request: ReadRequest,
    ) -> Result<ReadAnswer, Refusal> {
        let slot = self.0.clients.enter(client, request.calls)?;
        let slots = Arc::clone(&self.0.slots);
        // Whoever waits here is counted against the client's own concurrency.
        let place = match timeout(PLACE_LIMIT, slots.acquire_owned()).await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(Refusal::new(Reason::Shutdown, "the proxy is going down")),
            Err(_) => {
                let busy = Refusal::new(Reason::Rate, "too many reads are under way");
                return Err(busy.retry_after(PLACE_LIMIT));
            }
        };
        let node = self.0.nodes.nearest_up(node);
        let answer = self.ask(node, request, Attempts::Idempotent).await;
        let asked = answer.map_err(|error| error.refusal())?;
        Ok(asked.into_read(Some((slot, place))))
    }

    /// Passes on a write whose turn has come, outside the read lane's limits and never twice.
    ///
    /// # Errors
    /// A refusal that says whether the node may have seen it.
    ///
    /// # Cancel safety
    /// Dropping the future gives the answer up; the node may have carried the request out.
    pub async fn pass(&self, node: NodeIndex, request: ReadRequest) -> Result<ReadAnswer, Refusal> {
        let answer = self.ask(node, request, Attempts::Once).await;
        let asked = answer.map_err(|error| {
            let refusal = error.refusal();
            match error.is_ambiguous() {
                true => refusal.maybe_forwarded(),
                false => refusal,
            }
        })?;
        Ok(asked.into_read(None))
    }

    /// Reads under way now.
    pub fn under_way(&self) -> usize {
        self.0.clients.under_way()
    }

    /// The limits that reads and relays of a client share.
    pub(super) fn clients(&self) -> &Arc<ClientLimits> {
        &self.0.clients
    }

    async fn ask(
        &self,
        node: NodeIndex,
        request: ReadRequest,
        attempts: Attempts,
    ) -> Result<Asked, UpstreamError> {
        let nodes = &self.0.nodes;
        let mut headers = request.headers;
        if nodes.endpoint(node).is_tls() || !nodes.base(node).is_empty() {
            // A gateway chooses by the host. A node does not; its list of methods links to the
            // host that the client asked.
            headers.remove(header::HOST);
        }
        let outgoing = Outgoing {
            method: request.http_method,
            uri: target::uri(nodes.base(node), &request.target)?,
            headers,
            body: request.body,
            attempts,
        };
        let first = HEAD_BYTES.min(self.0.window_bytes);
        let mut window = nodes.ledger().reserve(first).ok_or(UpstreamError::Memory)?;
        let started = Instant::now();
        let answer = nodes.pool(node).send(outgoing).await?;
        let took = started.elapsed().into();
        let wanted = match answer.body.remaining() {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let more = wanted.min(self.0.window_bytes).saturating_sub(first);
        if !window.grow(more) {
            return Err(UpstreamError::Memory);
        }
        Ok(Asked {
            answer,
            took,
            window,
        })
    }
}

impl ReadBody {
    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// A refusal when the node broke off or fell silent: the answer's head has gone out by then,
    /// so all that is left is to break off as well.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, Refusal>> {
        let piece = self.body.next().await?;
        Some(piece.map_err(|error| error.refusal()))
    }
}

/// A node's answer, and what was set aside for its body.
struct Asked {
    answer: Answer,
    took: Nanos,
    window: Reservation,
}

impl Asked {
    fn into_read(self, places: Option<(ClientSlot, OwnedSemaphorePermit)>) -> ReadAnswer {
        let answer = self.answer;
        let length = answer.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let travels = |(name, _): &(&HeaderName, _)| !is_hop_header(name, &answer.headers);
        let headers = answer.headers.iter().filter(travels);
        let headers = headers
            .map(|(name, value)| (go_name(name), Bytes::copy_from_slice(value.as_bytes())))
            .collect();
        ReadAnswer {
            status: answer.status.as_u16(),
            headers,
            length,
            took: self.took,
            body: ReadBody {
                body: answer.body,
                _window: self.window,
                _places: places,
            },
        }
    }
}

/// Whether a header concerns the connection to the node or the framing on it (RFC 9110, section
/// 7.6.1).
fn is_hop_header(name: &HeaderName, headers: &HeaderMap) -> bool {
    let named = || {
        let mut values = headers.get_all(header::CONNECTION).iter();
        values.any(|value| {
            let tokens = value.as_bytes().split(|byte| *byte == b',');
            let mut tokens = tokens.map(<[u8]>::trim_ascii);
            tokens.any(|token| token.eq_ignore_ascii_case(name.as_str().as_bytes()))
        })
    };
    matches!(
        *name,
        header::CONNECTION
            | header::CONTENT_LENGTH
            | header::PROXY_AUTHENTICATE
            | header::PROXY_AUTHORIZATION
            | header::TE
            | header::TRAILER
            | header::TRANSFER_ENCODING
            | header::UPGRADE
    ) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
        || named()
}

/// A name as Go's servers spell it: the library keeps names in lower case.
fn go_name(name: &HeaderName) -> Cow<'static, str> {
    match *name {
        header::CONTENT_TYPE => "Content-Type".into(),
        header::DATE => "Date".into(),
        header::CACHE_CONTROL => "Cache-Control".into(),
        header::VARY => "Vary".into(),
        _ => {
            let mut text = name.as_str().to_owned();
            let mut start = true;
            // Names are ASCII, so this changes no length.
            let upper: String = text
                .chars()
                .map(|letter| {
                    let first = std::mem::replace(&mut start, letter == '-');
                    match first {
                        true => letter.to_ascii_uppercase(),
                        false => letter,
                    }
                })
                .collect();
            text.replace_range(.., &upper);
            text.into()
        }
    }
}

/// How long a read waits for one of the places that all share.
const PLACE_LIMIT: Duration = Duration::from_secs(1);
/// Set aside before anything is asked: the head of an answer and its first bytes.
const HEAD_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelt_as_the_node_does() {
        for (name, expected) in [
            ("x-server-time", "X-Server-Time"),
            ("content-type", "Content-Type"),
            ("access-control-allow-origin", "Access-Control-Allow-Origin"),
            ("etag", "Etag"),
        ] {
            assert_eq!(go_name(&HeaderName::from_static(name)), expected);
        }
    }

    #[test]
    fn headers_of_the_connection_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("x-secret", "1"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("x-server-time", "1"),
        ] {
            let name = HeaderName::from_static(name);
            headers.insert(name, value.parse().unwrap());
        }
        let left: Vec<_> = headers
            .keys()
            .filter(|name| !is_hop_header(name, &headers))
            .collect();
        assert_eq!(left, ["x-server-time"]);
    }
}
