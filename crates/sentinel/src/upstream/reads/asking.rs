//! A read on its way: asked of a node, and of another one if that is gone.

use std::time::{Duration, Instant};

use hyper::{Method, Response, Uri, header};
use pacing::Nanos;

use super::admission::{Admission, Admitted, Read};
use super::body::ReadBody;
use super::headers::{content_length, end_to_end};
use super::request::ReadAnswer;
use crate::upstream::http::{NodeBody, Outgoing, Repeat};
use crate::upstream::nodes::{NodeIndex, Nodes};
use crate::upstream::{SILENT, UpstreamError, target};

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
        body: ReadBody::of_node(
            (node, body),
            length.filter(|_| !is_head),
            (window, admitted),
        ),
    })
}

/// The answer, the node that gave it, and how long it took that. Each node is asked once, and another one only where
/// the one before cannot have been slow because of the request.
async fn answered(
    nodes: &Nodes,
    read: Read,
    repeat: Repeat,
) -> Result<(NodeIndex, Duration, Response<NodeBody>), UpstreamError> {
    let (request, mut wanted, mut index) = (read.request, read.wanted, read.node);
    let mut outgoing = Outgoing {
        method: request.http_method,
        uri: Uri::default(),
        headers: request.headers,
        body: request.body,
        repeat,
    };
    loop {
        let node = nodes.node(index);
        outgoing.uri = target::uri(&node.http.base, &request.target)?;
        if node.dialer.endpoint().is_tls() || !node.http.base.is_empty() {
            // A gateway chooses by the host. A node does not; its list of methods links to the
            // host that the client asked.
            outgoing.headers.remove(header::HOST);
        }
        node.state().reads += 1;
        if !request.has_writes {
            nodes.note_sent(index);
        }
        let started = Instant::now();
        let may_move = repeat == Repeat::Always && nodes.count() > 1;
        let (error, may_ask_another) = tokio::select! {
            biased;
            answer = node.http.send(&outgoing) => match answer {
                Ok(answer) => {
                    let took = started.elapsed();
                    nodes.note_answered(index, took);
                    return Ok((index, took, answer));
                }
                Err(error) => {
                    let is_unsent = matches!(error, UpstreamError::Connect(..) | UpstreamError::ConnectTimeout(_));
                    let broke = matches!(error, UpstreamError::Broken(..));
                    if is_unsent {
                        nodes.note_unreachable(index);
                    }
                    let was_quick = Nanos::from(started.elapsed()) < SILENT;
                    (error, is_unsent || may_move && broke && was_quick)
                }
            },
            () = nodes.forsaken(index, &wanted), if may_move => (node.dialer.timeout(), true),
        };
        wanted.tried.push(index);
        index = match nodes.reading(&wanted) {
            Some(another) if may_ask_another => another,
            _ => return Err(error),
        };
    }
}

/// Set aside before anything is asked: the head of an answer and its first bytes.
pub(super) const HEAD_BYTES: usize = 16 << 10;
