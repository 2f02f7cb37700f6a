//! The body of a call to one of these listeners, and the deadline that a client gives it (`grpc-timeout`; gRPC over
//! HTTP/2, "Requests").

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::BodyDataStream;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::{Instant, timeout};
use wire::doors::{grpc_timeout, read_grpc_timeout};

use super::STREAM_BYTES;

/// The body of a call: what is here of it, and what is still to come.
pub(crate) struct CallBody {
    ahead: Bytes,
    rest: Option<Incoming>,
    /// Something was asked of it.
    has_begun: bool,
}

impl CallBody {
    /// One that is here whole.
    pub(crate) const fn whole(ahead: Bytes) -> Self {
        Self {
            ahead,
            rest: None,
            has_begun: false,
        }
    }

    /// Reads the first message of a call of gRPC, and so all of nearly every call. What has no whole message within a
    /// second, or a long one, is passed on as it comes.
    ///
    /// # Errors
    /// The client broke off.
    pub(crate) async fn begun(mut body: Incoming) -> Result<Self, hyper::Error> {
        let mut bytes = Vec::new();
        let reading = async {
            let mut pieces = BodyDataStream::new(&mut body);
            while bytes.len() < STREAM_BYTES as usize
                && first_message(&bytes).is_none()
                && let Some(piece) = pieces.next().await
            {
                bytes.extend_from_slice(&piece?);
            }
            Ok::<(), hyper::Error>(())
        };
        if let Ok(read) = timeout(FIRST_MESSAGE_TIME, reading).await {
            read?;
        }
        Ok(Self {
            ahead: bytes.into(),
            rest: (!body.is_end_stream()).then_some(body),
            has_begun: false,
        })
    }

    /// Whether it is here whole, and may go out more than once.
    pub(super) const fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// The only message of a call that is here whole.
    pub(in crate::upstream) fn message(&self) -> Option<&[u8]> {
        self.rest.is_none().then(|| only_message(&self.ahead))?
    }

    /// The first message, if it is here.
    pub(crate) fn first_message(&self) -> Option<&[u8]> {
        first_message(&self.ahead)
    }

    /// The bytes that are here.
    pub(crate) const fn ahead(&self) -> &Bytes {
        &self.ahead
    }

    /// What goes out to a node: once, unless it is here whole.
    pub(super) fn send(&mut self) -> Self {
        Self {
            ahead: self.ahead.clone(),
            rest: self.rest.take(),
            has_begun: false,
        }
    }
}

/// The message of a body that is nothing else.
pub(in crate::upstream) fn only_message(body: &[u8]) -> Option<&[u8]> {
    first_message(body).filter(|message| message.len() + PREFIX_BYTES == body.len())
}

/// The first message of a call, which is not compressed, if it is here.
fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX_BYTES)?;
    let len = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    let message = rest.get(..usize::try_from(len).ok()?)?;
    (prefix[0] == 0).then_some(message)
}

/// What stands before a message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// How long the first message of a call is awaited before it is passed on as a stream.
const FIRST_MESSAGE_TIME: Duration = Duration::from_secs(1);

impl Body for CallBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.has_begun = true;
        if !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead);
            return Poll::Ready(Some(Ok(Frame::data(ahead))));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    /// A call without messages ends with an empty frame of data, not with its head: a server of grpc-go would wait for ever
    /// (gRPC over HTTP/2, "EOS").
    fn is_end_stream(&self) -> bool {
        self.has_begun
            && self.ahead.is_empty()
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }
}

/// When a client gives its call up. Nodes hear of what is left of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// That of a call with these headers, which has just come.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let left = read_grpc_timeout(headers.get(GRPC_TIMEOUT)?.as_bytes())?;
        Instant::now().checked_add(left).map(Self)
    }

    pub(crate) const fn at(self) -> Instant {
        self.0
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Writes what is left of the time.
    pub(super) fn write(self, headers: &mut HeaderMap) {
        let left = grpc_timeout(self.0.saturating_duration_since(Instant::now()));
        let left = HeaderValue::try_from(left).expect("digits and a letter");
        headers.insert(GRPC_TIMEOUT, left);
    }
}

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
