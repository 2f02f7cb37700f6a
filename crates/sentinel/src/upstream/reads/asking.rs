//! A read on its way: asked of a node, and of another one if that is gone.

use std::time::Duration;

use hyper::{Method, Response, header};

use super::admission::{Admission, Admitted, Read};
use super::body::ReadBody;
use super::headers::{content_length, end_to_end};
use super::request::ReadAnswer;
use crate::upstream::first_answer::{Asked, first_answer};
use crate::upstream::http::{NodeBody, Outgoing, Repeat};
use crate::upstream::node_state::NodeIndex;
use crate::upstream::nodes::Nodes;
use crate::upstream::{UpstreamError, target};

/// Asks a node, and waits for the head of its answer. What is read ahead of the answer is charged to the client.
pub(super) async fn ask(
    admission: &Admission,
    read: Read,
    (repeat, admitted): (Repeat, Admitted),
) -> Result<ReadAnswer<ReadBody>, UpstreamError> {
    let nodes = &admission.nodes;
    let client = read.client;
    let window_bytes = nodes.shared_context().config.load().fixed.window_bytes;
    let first = HEAD_BYTES.min(window_bytes);
    let ledger = nodes.ledger().of(client);
    let mut window = ledger.reserve(first).ok_or(UpstreamError::Memory)?;
    let is_head = read.request.http_method == Method::HEAD;
    let (node, took, answer) = answered(nodes, read, repeat).await?;
    admission.note_read(client, node);
    let (head, body) = answer.into_parts();
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
        headers: end_to_end(&head.headers),
        took: Some(took.into()),
        is_counted: true,
        body: ReadBody::of_node(
            (node, body),
            length.filter(|_| !is_head),
            (window, admitted),
        ),
    })
}

/// The answer, the node that gave it, and how long it took that.
async fn answered(
    nodes: &Nodes,
    read: Read,
    repeat: Repeat,
) -> Result<(NodeIndex, Duration, Response<NodeBody>), UpstreamError> {
    let request = read.request;
    let asked = Asked {
        may_repeat: repeat == Repeat::Always,
        counts: !request.has_writes,
    };
    let ask = |index: NodeIndex| {
        let node = nodes.node(index);
        let mut outgoing = Outgoing {
            method: request.http_method.clone(),
            uri: target::uri(&node.http.base, &request.target)?,
            headers: request.headers.clone(),
            body: request.body.clone(),
            repeat,
        };
        if node.dialer.endpoint().is_tls() || !node.http.base.is_empty() {
            // A gateway chooses by the host. A node does not; its list of methods links to the
            // host that the client asked.
            outgoing.headers.remove(header::HOST);
        }
        Ok(async move { node.http.send(&outgoing).await })
    };
    first_answer(nodes, (read.node, read.wanted), asked, ask).await
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
pub(super) const HEAD_BYTES: usize = 16 << 10;
