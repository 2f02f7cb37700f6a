//! The other listeners of a Cosmos SDK's node, gRPC and REST, and what is passed on to them.

mod call;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::header;
use hyper::http::request::Parts;
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rpc::Endpoint;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout};

pub(super) use self::call::only_message;
pub(crate) use self::call::{CallBody, Deadline};
use super::UpstreamError;
use super::answer::{AnswerBody, Source};
use super::choice::{QuestionKind, Wanted, first_answer};
use super::dial::Dialer;
use super::http::{NodeBody, NodeHttp, Outgoing, PoolOptions, Repeat, end_to_end, uri};
use super::node_state::{NodeDoor, NodeIndex};
use super::nodes::Nodes;
use super::reads::Admitted;
use crate::budget::Reservation;

/// One listener of each node beside its RPC: of the first ones, in their order.
pub(crate) struct DoorNodes {
    door: NodeDoor,
    nodes: Nodes,
    listeners: Vec<Listener>,
    /// A stream of gRPC that is silent for longer is reset.
    silence: Duration,
}

struct Listener {
    http: NodeHttp,
    /// The one connection over which all new streams of gRPC go.
    link: AsyncMutex<Option<Arc<Link>>>,
    /// A connection that answers no call for longer gets no new one.
    link_silence: Duration,
    options: PoolOptions,
}

/// A connection. Its task ends when its last stream does, once no new one can come.
struct Link {
    sender: http2::SendRequest<CallBody>,
    /// When the first call was sent that no answer has followed.
    unanswered_since: Mutex<Option<Instant>>,
}

/// Bytes of one stream of gRPC that may wait in either direction: HTTP/2's own default (RFC 9113, 6.9.2).
const STREAM_BYTES: u32 = 64 << 10;
/// Bytes that are set aside for what waits of a stream, in both directions.
pub(crate) const STREAM_WINDOW_BYTES: usize = 2 * STREAM_BYTES as usize;
/// Bytes of all streams to the node that may wait.
const LINK_BYTES: u32 = 16 << 20;

impl DoorNodes {
    /// The listeners at `endpoints`, not yet connected: each the node's at the same place.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when an address cannot be used.
    pub(crate) fn new(
        door: NodeDoor,
        endpoints: &[Endpoint],
        nodes: &Nodes,
    ) -> Result<Self, UpstreamError> {
        let context = nodes.shared_context();
        let config = context.config.load();
        let patience = config.upstream.timeout;
        let listeners = endpoints.iter().map(|endpoint| {
            let limit = config.fixed.connect_timeout;
            let dialer = Dialer::new(endpoint, &context.trust, limit)?;
            Ok(Listener {
                http: NodeHttp::new(dialer, nodes.pool_options().clone(), patience)?,
                link: AsyncMutex::default(),
                link_silence: config.fixed.link_silence,
                options: nodes.pool_options().clone(),
            })
        });
        Ok(Self {
            door,
            nodes: nodes.clone(),
            listeners: listeners.collect::<Result<_, UpstreamError>>()?,
            silence: config.fixed.idle_timeout,
        })
    }

    /// The nodes without such a listener.
    pub(super) fn lacking(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        self.listeners.len()..self.nodes.count()
    }

    pub(crate) const fn door(&self) -> NodeDoor {
        self.door
    }

    /// Passes a request on to this node, or to another one where that is gone: a stream of gRPC, of any kind, as long as not a byte of
    /// it can have been read by the first.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future resets the stream, or closes the connection; the node may have seen the request.
    pub(super) async fn ask(
        &self,
        to: (NodeIndex, Wanted),
        is_read: bool,
        (head, body): (&Parts, CallBody),
        held: (Admitted, Reservation),
    ) -> Result<(NodeIndex, Response<AnswerBody>), UpstreamError> {
        let is_safe = self.door == NodeDoor::Grpc || head.method.is_safe();
        let is_whole = body.is_whole();
        let kind = QuestionKind {
            may_repeat: is_read && is_safe && is_whole,
            counts: is_read && is_whole,
        };
        let body = Mutex::new(body);
        let deadline = head.extensions.get::<Deadline>().copied();
        let (node, _, answer) = first_answer(&self.nodes, to, kind, |node| {
            let listener = &self.listeners[node];
            let body = &body;
            Ok(async move {
                Ok(match self.door {
                    NodeDoor::Grpc => {
                        let answer = listener.stream((head, deadline), body).await?;
                        answer.map(|body| Source::grpc(body, (self.silence, deadline)))
                    }
                    _ => {
                        let answer = listener.ask((head, deadline), body).await?;
                        answer.map(|body| Source::http(body, None))
                    }
                })
            })
        })
        .await?;
        let whole = |source| AnswerBody::of_node((node, source), held);
        Ok((node, answer.map(whole)))
    }
}

impl Listener {
    /// Passes a call of gRPC on.
    async fn stream(
        &self,
        (head, deadline): (&Parts, Option<Deadline>),
        body: &Mutex<CallBody>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let uri = grpc_uri(self.http.dialer.endpoint(), &head.uri)?;
        let answer = async {
            let link = self.link().await?;
            let mut request = Request::new(body.lock().send());
            *request.method_mut() = head.method.clone();
            *request.uri_mut() = uri;
            *request.headers_mut() = head.headers.clone();
            request.headers_mut().remove(header::HOST);
            if let Some(deadline) = deadline {
                deadline.write(request.headers_mut());
            }
            *request.version_mut() = hyper::Version::HTTP_2;
            let answer = link.send(request).await;
            answer.map_err(|error| self.http.dialer.broken(&error))
        };
        match timeout(self.http.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.http.dialer.timeout()),
        }
    }

    /// The connection, or another one where that has ended or answers nothing: what drops its packets ends no connection.
    async fn link(&self) -> Result<Arc<Link>, UpstreamError> {
        // Held while it connects: whoever comes meanwhile uses the same connection.
        let mut link = self.link.lock().await;
        let is_usable = |link: &&Arc<Link>| link.is_usable(self.link_silence);
        if let Some(link) = link.as_ref().filter(is_usable) {
            return Ok(Arc::clone(link));
        }
        let stream = TokioIo::new(self.http.dialer.connect().await?);
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(LINK_BYTES)
            .handshake(stream);
        let (sender, connection) = handshake
            .await
            .map_err(|error| self.http.dialer.broken(&error))?;
        let end = self.options.shutdown.clone();
        self.options.tracker.spawn(async move {
            tokio::select! {
                // Its streams fail with it, and say why.
                _ = connection => {}
                () = end.cancelled() => {}
            }
        });
        let opened = Arc::new(Link {
            sender,
            unanswered_since: Mutex::default(),
        });
        *link = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Passes a whole request of REST on.
    async fn ask(
        &self,
        (head, deadline): (&Parts, Option<Deadline>),
        body: &Mutex<CallBody>,
    ) -> Result<Response<NodeBody>, UpstreamError> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = Bytes::copy_from_slice(path.as_bytes());
        let mut headers = end_to_end(&head.headers);
        headers.remove(header::HOST);
        if let Some(deadline) = deadline {
            deadline.write(&mut headers);
        }
        let outgoing = Outgoing {
            uri: uri(&self.http.base, &target)?,
            repeat: if head.method.is_safe() {
                Repeat::Always
            } else {
                Repeat::IfUnwritten
            },
            method: head.method.clone(),
            headers,
            body: body.lock().ahead().clone(),
        };
        let mut answer = self.http.send(&outgoing).await?;
        *answer.headers_mut() = end_to_end(answer.headers());
        *answer.version_mut() = hyper::Version::default();
        Ok(answer)
    }
}

impl Link {
    fn is_usable(&self, silence: Duration) -> bool {
        let since = *self.unanswered_since.lock();
        let is_silent = since.is_some_and(|since| since.elapsed() > silence);
        !self.sender.is_closed() && !is_silent
    }

    /// Sends a call, and waits for the head of its answer.
    async fn send(&self, call: Request<CallBody>) -> hyper::Result<Response<Incoming>> {
        let since = &self.unanswered_since;
        since.lock().get_or_insert_with(Instant::now);
        let answer = self.sender.clone().send_request(call).await?;
        *since.lock() = None;
        Ok(answer)
    }
}

/// Where a call of gRPC goes at this listener.
fn grpc_uri(listener: &Endpoint, called: &Uri) -> Result<Uri, UpstreamError> {
    let path = called.path_and_query();
    let uri = Uri::builder()
        .scheme(if listener.is_tls() { "https" } else { "http" })
        .authority(listener.authority())
        .path_and_query(path.map_or("/", |path| path.as_str()));
    let uri = uri.build();
    uri.map_err(|error| UpstreamError::Request(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At 8e7b6729 an IPv6 address had no brackets, and every call to it was refused as one that cannot be forwarded.
    #[test]
    fn a_call_of_grpc_goes_to_a_node_by_name_and_by_address() {
        for listener in [
            "http://127.0.0.1:9090",
            "http://[::1]:9090",
            "https://node.example:443",
        ] {
            let called = Uri::from_static("/cosmos.bank.v1beta1.Query/Balance");
            let uri = grpc_uri(&listener.parse().unwrap(), &called).unwrap();
            assert_eq!(uri.to_string(), format!("{listener}{called}"));
        }
    }
}
