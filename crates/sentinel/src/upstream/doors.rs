//! The other listeners of a Cosmos SDK's node, gRPC and REST: what is passed on to them, and their answers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2;
use hyper::header::{self, HeaderName};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rpc::Endpoint;
use tokio::sync::Mutex;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::body::{Pieces as _, charged};
use super::dial::Dialer;
use super::http::{NodeBody, NodeHttp, Outgoing, Repeat};
use super::nodes::Nodes;
use super::{Admitted, UpstreamError, target};
use crate::budget::Reservation;

/// One listener of the node beside its RPC.
pub(crate) struct DoorNode {
    dialer: Dialer,
    http: NodeHttp,
    /// The one connection over which all streams of gRPC go.
    link: Mutex<Option<Link>>,
    /// For the head of an answer.
    patience: Duration,
}

/// The body of a call: as it comes, or whole.
pub(crate) type DoorCall = Either<Incoming, Full<Bytes>>;

/// A connection, and the task that serves it.
struct Link {
    sender: http2::SendRequest<DoorCall>,
    _task: AbortOnDropHandle<()>,
}

/// Bytes of one stream of gRPC that may wait in either direction: HTTP/2's own default (RFC 9113, 6.9.2).
const STREAM_BYTES: u32 = 64 << 10;
/// Bytes of all streams to the node that may wait.
const LINK_BYTES: u32 = 16 << 20;

impl DoorNode {
    /// The listener at `endpoint`, not yet connected.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when the address cannot be used.
    pub(crate) fn new(endpoint: &Endpoint, nodes: &Nodes) -> Result<Self, UpstreamError> {
        let context = nodes.shared_context();
        let config = context.config.load();
        let limit = config.fixed.connect_timeout;
        let dialer = Dialer::new(endpoint, &context.trust, limit)?;
        let patience = config.upstream.timeout;
        Ok(Self {
            http: NodeHttp::new(&dialer, nodes.pool_options().clone(), patience)?,
            dialer,
            link: Mutex::default(),
            patience,
        })
    }

    /// Passes a call of gRPC on, of any kind of stream.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future resets the stream; the node may have seen it.
    pub(crate) async fn stream(
        &self,
        mut request: Request<DoorCall>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let endpoint = self.dialer.endpoint();
        let path = request.uri().path_and_query();
        let uri = Uri::builder()
            .scheme(if endpoint.is_tls() { "https" } else { "http" })
            .authority(format!("{}:{}", endpoint.host(), endpoint.port()))
            .path_and_query(path.map_or("/", |path| path.as_str()));
        let uri = uri.build();
        *request.uri_mut() = uri.map_err(|error| UpstreamError::Request(error.to_string()))?;
        request.headers_mut().remove(header::HOST);
        *request.version_mut() = hyper::Version::HTTP_2;
        let answer = async {
            let mut sender = self.sender().await?;
            let answer = sender.send_request(request).await;
            answer.map_err(|error| self.dialer.broken(&error))
        };
        match timeout(self.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(self.dialer.timeout()),
        }
    }

    async fn sender(&self) -> Result<http2::SendRequest<DoorCall>, UpstreamError> {
        // Held while it connects: whoever comes meanwhile uses the same connection.
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.sender.is_closed()) {
            return Ok(link.sender.clone());
        }
        let stream = TokioIo::new(self.dialer.connect().await?);
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(LINK_BYTES)
            .handshake(stream);
        let (sender, connection) = handshake
            .await
            .map_err(|error| self.dialer.broken(&error))?;
        let task = tokio::spawn(async move {
            // Its streams fail with it, and say why.
            let _ = connection.await;
        });
        *link = Some(Link {
            sender: sender.clone(),
            _task: AbortOnDropHandle::new(task),
        });
        Ok(sender)
    }

    /// Passes a whole request of REST on.
    ///
    /// # Errors
    /// [`UpstreamError`].
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection; the node may have seen the request.
    pub(crate) async fn ask(
        &self,
        head: Parts,
        body: Bytes,
        (admitted, window): (Admitted, Reservation),
    ) -> Result<Response<DoorBody>, UpstreamError> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let target = Bytes::copy_from_slice(path.as_bytes());
        let mut headers = end_to_end(&head.headers);
        headers.remove(header::HOST);
        let outgoing = Outgoing {
            uri: target::uri(&self.http.base, &target)?,
            repeat: if head.method.is_safe() {
                Repeat::Always
            } else {
                Repeat::IfUnwritten
            },
            method: head.method,
            headers,
            body,
        };
        let mut answer = self.http.send(&outgoing).await?;
        *answer.headers_mut() = end_to_end(answer.headers());
        *answer.version_mut() = hyper::Version::default();
        Ok(answer.map(|body| {
            DoorBody::Answer(Box::new(Answer {
                ahead: None,
                body,
                _admitted: admitted,
                _window: window,
            }))
        }))
    }
}

/// The headers that concern more than one connection (RFC 9110, section 7.6.1).
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let travels = |(name, _): &(&HeaderName, _)| !is_hop_header(name);
    let copied = headers.iter().filter(travels);
    copied
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Whether a header concerns one connection, or the framing on it.
fn is_hop_header(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TE,
        header::TRAILER,
        header::PROXY_AUTHORIZATION,
        header::PROXY_AUTHENTICATE,
    ]
    .contains(name)
        || matches!(
            name.as_str(),
            "keep-alive" | "proxy-connection" | "http2-settings"
        )
}

/// The body of an answer at one of these listeners.
pub(crate) enum DoorBody {
    /// Made here.
    Own {
        data: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    /// The node's, over gRPC.
    Stream(Box<Passed>),
    /// The node's, over REST.
    Answer(Box<Answer>),
}

/// An answer of the node's, and what it was admitted with.
pub(crate) struct Answer {
    /// Read already.
    ahead: Option<Bytes>,
    body: NodeBody,
    _admitted: Admitted,
    _window: Reservation,
}

/// A stream of the node, what it was admitted with, and how long it may be silent.
pub(crate) struct Passed {
    body: Incoming,
    _admitted: Admitted,
    _window: Reservation,
    silence: Pin<Box<Sleep>>,
    limit: Duration,
}

impl DoorBody {
    /// Bytes that are set aside for what waits of a stream, in both directions.
    pub(crate) const WINDOW_BYTES: usize = 2 * STREAM_BYTES as usize;

    /// The node's stream; it is reset after a silence of `limit`.
    pub(crate) fn stream(
        body: Incoming,
        (admitted, window): (Admitted, Reservation),
        limit: Duration,
    ) -> Self {
        Self::Stream(Box::new(Passed {
            body,
            _admitted: admitted,
            _window: window,
            silence: Box::pin(sleep(limit)),
            limit,
        }))
    }

    /// One that is here.
    pub(crate) const fn whole(data: Bytes) -> Self {
        Self::Own {
            data: Some(data),
            trailers: None,
        }
    }

    /// Reads all of an answer over REST; none, and it is as it was, if it has more than `most` bytes, or the account has
    /// no room.
    ///
    /// # Errors
    /// Those of the node.
    pub(super) async fn read(
        &mut self,
        mut charge: Reservation,
        most: usize,
    ) -> Result<Option<(Vec<u8>, Reservation)>, UpstreamError> {
        let Self::Answer(answer) = self else {
            return Ok(None);
        };
        let mut whole = Vec::new();
        while let Some(piece) = answer.body.next().await {
            let piece = piece?;
            whole.extend_from_slice(&piece);
            if whole.len() > most || !charge.grow(piece.len()) {
                answer.ahead = Some(charged(whole, charge));
                return Ok(None);
            }
        }
        whole.shrink_to_fit();
        Ok(Some((whole, charge)))
    }
}

/// What ends a body before its time.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

impl Body for DoorBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Own { data, trailers } => {
                let frame = data.take().map(Frame::data);
                let frame = frame.or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Self::Stream(passed) => match Pin::new(&mut passed.body).poll_frame(context) {
                Poll::Ready(frame) => {
                    let until = Instant::now() + passed.limit;
                    passed.silence.as_mut().reset(until);
                    Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
                }
                Poll::Pending => {
                    ready!(passed.silence.as_mut().poll(context));
                    Poll::Ready(Some(Err("the stream was silent for too long".into())))
                }
            },
            Self::Answer(answer) => {
                if let Some(ahead) = answer.ahead.take() {
                    return Poll::Ready(Some(Ok(Frame::data(ahead))));
                }
                let piece = ready!(answer.body.poll_next(context));
                Poll::Ready(piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Stream(passed) => passed.body.is_end_stream(),
            Self::Answer(..) => false,
        }
    }
}

/// The next piece of a request's body; none at its end.
///
/// # Errors
/// The client broke off.
pub(crate) async fn next_piece(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match body.frame().await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}
