//! The body of an answer: a node's, at any of its listeners, or one that is here.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Instant, Sleep, sleep_until};

use super::UpstreamError;
use super::body::{Pieces, charged};
use super::doors::Deadline;
use super::http::NodeBody;
use super::node_state::NodeIndex;
use super::query::garbage;
use super::reads::Admitted;
use crate::budget::Reservation;
use crate::refusal::{Reason, Refusal};
use crate::respond::GrpcStatus;

/// An answer's body, read as it is taken. Holds its place in the read lane, and the bytes reserved
/// for what is read ahead, until dropped. An error means that the node broke off or fell silent: the
/// answer's head has gone out by then, so all that is left is to break off as well.
#[derive(Debug, Default)]
pub struct AnswerBody {
    /// What is here already.
    ahead: VecDeque<Bytes>,
    /// Bytes of one piece of that, at most.
    piece: usize,
    node: Option<FromNode>,
    /// What comes behind the pieces, over gRPC.
    trailers: Option<HeaderMap>,
    /// For what is read ahead.
    _window: Option<Reservation>,
}

/// What is still at the node.
#[derive(Debug)]
struct FromNode {
    node: NodeIndex,
    source: Source,
    admitted: Admitted,
}

/// An answer on its way from a node.
#[derive(Debug)]
pub(super) enum Source {
    Http(NodeBody, Announced),
    /// A stream of gRPC, how long it may be silent, and when its client gives it up.
    Grpc {
        body: Incoming,
        silence: Pin<Box<Sleep>>,
        limit: Duration,
        deadline: Option<Deadline>,
    },
}

/// What ends a body before its time.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The node broke off, or fell silent.
    #[error(transparent)]
    Node(#[from] UpstreamError),
    /// A stream of gRPC was reset; its client's is reset for the same reason.
    #[error(transparent)]
    Stream(#[from] hyper::Error),
    /// A stream of gRPC fell silent.
    #[error("the stream was silent for too long")]
    Silent,
}

impl AnswerBody {
    /// A node's, and what it was admitted with.
    pub(super) fn of_node(
        (node, source): (NodeIndex, Source),
        (admitted, window): (Admitted, Reservation),
    ) -> Self {
        Self {
            node: Some(FromNode {
                node,
                source,
                admitted,
            }),
            _window: Some(window),
            ..Self::default()
        }
    }

    /// One that is here, given out in pieces of so many bytes.
    pub(super) fn of_cache(ahead: [Bytes; 3], piece: usize, window: Reservation) -> Self {
        Self {
            ahead: ahead.into(),
            piece,
            _window: Some(window),
            ..Self::default()
        }
    }

    /// One that is here.
    pub(crate) fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self {
            ahead: [data].into(),
            piece: usize::MAX,
            trailers,
            ..Self::default()
        }
    }

    /// Whether it is this node's, and not here yet.
    pub(super) fn is_of(&self, node: NodeIndex) -> bool {
        let from = self.node.as_ref();
        from.is_some_and(|from| from.node == node)
    }

    /// What comes behind it, as far as it is here.
    pub(super) const fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }

    /// Reads all of it, and gives the place in the lane back; none if it has more than `most` bytes, or the account has
    /// no room. Then it is as it was, what was read in pieces of at most `piece` bytes.
    ///
    /// # Errors
    /// Those of the node.
    pub(super) async fn read_all(
        &mut self,
        mut charge: Reservation,
        (most, piece_bytes): (usize, usize),
    ) -> Result<Option<(Vec<u8>, Reservation)>, BodyError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            let len = whole.len() + piece.len();
            if len > most || !charge.grow(len - charge.bytes()) {
                self.put_back([charged(whole, charge), piece, Bytes::new()], piece_bytes);
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        whole.shrink_to_fit();
        Ok(Some((whole, charge)))
    }

    /// What was read is read once more.
    pub(super) fn put_back(&mut self, ahead: [Bytes; 3], piece: usize) {
        self.ahead = ahead.into();
        self.piece = piece;
    }
}

impl Pieces for AnswerBody {
    type Error = BodyError;

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        while let Some(ahead) = self.ahead.front_mut() {
            let piece = ahead.split_to(ahead.len().min(self.piece));
            if ahead.is_empty() {
                self.ahead.pop_front();
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece)));
            }
        }
        while let Some(FromNode { source, .. }) = &mut self.node {
            match ready!(source.poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) if piece.is_empty() => {}
                    Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
                Some(Err(_)) if source.is_late() => {
                    let mut trailers = HeaderMap::new();
                    GrpcStatus::deadline_exceeded().write(&mut trailers);
                    (self.node, self.trailers) = (None, Some(trailers));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.node = None,
            }
        }
        Poll::Ready(None)
    }

    fn is_wanted(&self) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.admitted.is_wanted())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let piece = ready!(self.poll_next(context));
        let piece = piece.map(|piece| piece.map(Frame::data));
        Poll::Ready(piece.or_else(|| self.trailers.take().map(Frame::trailers).map(Ok)))
    }

    fn is_end_stream(&self) -> bool {
        let is_here = match &self.node {
            Some(FromNode { source, .. }) => {
                matches!(source, Source::Grpc { body, .. } if body.is_end_stream())
            }
            None => true,
        };
        is_here && self.ahead.is_empty() && self.trailers.is_none()
    }
}

impl Source {
    /// An answer of this many bytes, if its head gave the client a number.
    pub(super) const fn http(body: NodeBody, announced: Option<u64>) -> Self {
        Self::Http(body, Announced(announced))
    }

    pub(super) fn grpc(body: Incoming, (limit, deadline): (Duration, Option<Deadline>)) -> Self {
        Self::Grpc {
            body,
            silence: Box::pin(sleep_until(end_of(limit, deadline))),
            limit,
            deadline,
        }
    }

    fn is_late(&self) -> bool {
        matches!(self, Self::Grpc { deadline: Some(deadline), .. } if deadline.is_over())
    }

    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self {
            Self::Http(body, announced) => {
                let piece = ready!(body.poll_next(context)).transpose()?;
                if !announced.holds(piece.as_ref().map(Bytes::len)) {
                    let error = garbage(&"the length of the answer is not what was announced");
                    return Poll::Ready(Some(Err(error.into())));
                }
                Poll::Ready(piece.map(Frame::data).map(Ok))
            }
            Self::Grpc {
                body,
                silence,
                limit,
                deadline,
            } => match Pin::new(body).poll_frame(context) {
                Poll::Ready(frame) => {
                    silence.as_mut().reset(end_of(*limit, *deadline));
                    Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
                }
                Poll::Pending => {
                    ready!(silence.as_mut().poll(context));
                    Poll::Ready(Some(Err(BodyError::Silent)))
                }
            },
        }
    }
}

/// When a stream ends from which nothing comes.
fn end_of(silence: Duration, deadline: Option<Deadline>) -> Instant {
    let end = Instant::now() + silence;
    deadline.map_or(end, |deadline| end.min(deadline.at()))
}

/// Bytes of the answer that are still to come, if its head gave the client a number. The next answer
/// on its connection begins behind them.
#[derive(Debug)]
pub(super) struct Announced(Option<u64>);

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

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Node(error) => error.into(),
            BodyError::Stream(_) | BodyError::Silent => {
                Self::new(Reason::Upstream, "the node broke the connection off")
            }
        }
    }
}

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
