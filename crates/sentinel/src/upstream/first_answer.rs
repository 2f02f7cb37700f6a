//! A question to the nodes: asked of one, and of another one where that is gone, silent or late.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pacing::Nanos;

use super::choice::Wanted;
use super::node_state::{NodeDoor, NodeIndex};
use super::nodes::Nodes;
use super::{SILENT, UpstreamError};

/// How a question may be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// It may be carried out twice.
    pub(super) may_repeat: bool,
    /// What becomes of it says something of the node.
    pub(super) counts: bool,
}

/// The first answer that a node gives, which one did, and how long it took. Each node is asked once: another one while
/// the one before may still answer, if that is late or silent, and instead of it, where it cannot have been slow
/// because of the question.
pub(super) async fn first_answer<T, F: Future<Output = Result<T, UpstreamError>>>(
    nodes: &Nodes,
    (first, mut wanted): (NodeIndex, Wanted),
    asked: Asked,
    ask: impl Fn(NodeIndex) -> Result<F, UpstreamError>,
) -> Result<(NodeIndex, Duration, T), UpstreamError> {
    let (door, may_move) = (wanted.door, asked.may_repeat && nodes.count() > 1);
    let mut under_way = FuturesUnordered::new();
    let mut last = (first, Nanos::ZERO);
    let mut next = Some((first, None));
    loop {
        if let Some((node, second)) = next.take() {
            let sent = nodes.note_sent(node, door, asked.counts);
            wanted.tried.push(node);
            last = (node, sent);
            let asking = ask(node)?;
            under_way.push(async move {
                let answer = asking.await;
                drop(second);
                (node, sent, answer)
            });
        }
        tokio::select! {
            biased;
            Some((node, sent, answer)) = under_way.next() => match answer {
                Ok(answer) => {
                    let took = nodes.note_answered((node, wanted.door), sent, wanted.is_light);
                    return Ok((node, took.into(), answer));
                }
                Err(error) => {
                    let is_unsent = error.is_unsent();
                    if is_unsent && door == NodeDoor::Rpc {
                        nodes.note_unreachable(node);
                    }
                    let was_quick = nodes.now().saturating_sub(sent) < SILENT;
                    let broke = matches!(error, UpstreamError::Broken(..));
                    if is_unsent || may_move && broke && was_quick {
                        next = nodes.reading(&wanted).map(|node| (node, None));
                    }
                    if next.is_none() && under_way.is_empty() {
                        return Err(error);
                    }
                }
            },
            another = nodes.another(last, &wanted), if may_move => next = Some(another),
        }
    }
}
