//! Asks a node: the innermost service of the read lane.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header;
use tower::{Service, ServiceExt as _};

use super::headers;
use super::request::{Answering, Read, ReadAnswer, ReadRequest};
use crate::ledger::Reservation;
use crate::refusal::Refusal;
use crate::upstream::http::{Connection, NodeBody, Outgoing, Repeat};
use crate::upstream::nodes::{NodeIndex, Nodes};
use crate::upstream::{UpstreamError, target};

/// Asks the node of a read, or another one while that is down, over pooled connections. What is read ahead of an answer is charged to
/// the ledger.
#[derive(Clone, Debug)]
pub(super) struct Forward {
    nodes: Nodes,
    window_bytes: usize,
}

/// The body of a node's answer, with the bytes set aside for what is read ahead of it.
#[derive(Debug)]
pub struct ForwardedBody {
    body: NodeBody,
    _window: Reservation,
}

impl Forward {
    pub(super) const fn new(nodes: Nodes, window_bytes: usize) -> Self {
        Self {
            nodes,
            window_bytes,
        }
    }

    /// Asks a node, and waits for the head of its answer.
    pub(super) async fn ask(
        self,
        node: NodeIndex,
        request: ReadRequest,
        repeat: Repeat,
    ) -> Result<ReadAnswer<ForwardedBody>, UpstreamError> {
        let nodes = &self.nodes;
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
            repeat,
            connection: Connection::Kept,
        };
        let first = HEAD_BYTES.min(self.window_bytes);
        let mut window = nodes.ledger().reserve(first).ok_or(UpstreamError::Memory)?;
        let started = Instant::now();
        let (head, body) = nodes.http(node).oneshot(outgoing).await?.into_parts();
        let took = started.elapsed().into();
        let length = body.size_hint().exact().unwrap_or(u64::MAX);
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        if !window.grow(wanted.min(self.window_bytes).saturating_sub(first)) {
            return Err(UpstreamError::Memory);
        }
        Ok(ReadAnswer {
            status: head.status.as_u16(),
            length: headers::content_length(&head.headers),
            headers: headers::end_to_end(&head.headers),
            took,
            body: ForwardedBody {
                body,
                _window: window,
            },
        })
    }
}

impl Service<Read> for Forward {
    type Response = ReadAnswer<ForwardedBody>;
    type Error = Refusal;
    type Future = Answering<ForwardedBody>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, read: Read) -> Self::Future {
        let node = self.nodes.nearest_up(read.node);
        let asking = self.clone().ask(node, read.request, Repeat::Always);
        Box::pin(async move { asking.await.map_err(|error| error.refusal()) })
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = Refusal;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Refusal>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        frame.map(|frame| Some(frame?.map_err(|error| error.refusal())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
const HEAD_BYTES: usize = 16 << 10;
