//! The body of an answer at one of these listeners.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Deadline, STREAM_BYTES};
use crate::budget::Reservation;
use crate::respond::GrpcStatus;
use crate::upstream::Admitted;
use crate::upstream::body::{Pieces as _, charged};
use crate::upstream::http::NodeBody;

/// The body of an answer at one of these listeners.
pub(crate) enum DoorBody {
    /// Here.
    Own {
        data: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    /// The node's.
    Node(Box<Passed>),
}

/// An answer of the node's, and what it was admitted with.
pub(crate) struct Passed {
    /// Read already.
    ahead: Option<Bytes>,
    node: FromNode,
    _admitted: Admitted,
    _window: Reservation,
}

/// What is still at the node.
pub(super) enum FromNode {
    /// A stream of gRPC, how long it may be silent, and when its client gives it up.
    Grpc {
        body: Incoming,
        silence: Pin<Box<Sleep>>,
        limit: Duration,
        deadline: Option<Deadline>,
    },
    Rest(NodeBody),
}

/// An answer that was read whole.
pub(in crate::upstream) type WholeAnswer = (Vec<u8>, Option<HeaderMap>, Reservation);

impl DoorBody {
    /// The node's, and what it was admitted with.
    pub(super) fn of_node(node: FromNode, (admitted, window): (Admitted, Reservation)) -> Self {
        Self::Node(Box::new(Passed {
            ahead: None,
            node,
            _admitted: admitted,
            _window: window,
        }))
    }

    /// Bytes that are set aside for what waits of a stream, in both directions.
    pub(crate) const WINDOW_BYTES: usize = 2 * STREAM_BYTES as usize;

    /// An empty one.
    pub(crate) const NOTHING: Self = Self::Own {
        data: None,
        trailers: None,
    };

    /// One that is here.
    pub(crate) const fn whole(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self::Own {
            data: Some(data),
            trailers,
        }
    }

    /// Reads all of a node's answer; none, and it is as it was, if it has more than `most` bytes, or the account has no
    /// room.
    ///
    /// # Errors
    /// Those of the node.
    pub(in crate::upstream) async fn read(
        &mut self,
        mut charge: Reservation,
        most: usize,
    ) -> Result<Option<WholeAnswer>, BodyError> {
        let Self::Node(passed) = self else {
            return Ok(None);
        };
        let (mut whole, mut trailers) = (Vec::new(), None);
        while let Some(frame) = poll_fn(|context| passed.node.poll_frame(context)).await {
            let piece = match frame?.into_data() {
                Ok(piece) => piece,
                Err(frame) => {
                    trailers = frame.into_trailers().ok();
                    continue;
                }
            };
            whole.extend_from_slice(&piece);
            if whole.len() > most || !charge.grow(piece.len()) {
                passed.ahead = Some(charged(whole, charge));
                return Ok(None);
            }
        }
        whole.shrink_to_fit();
        Ok(Some((whole, trailers, charge)))
    }
}

/// What ends a body before its time.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

type PolledFrame = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

impl FromNode {
    pub(super) fn stream(body: Incoming, (limit, deadline): (Duration, Option<Deadline>)) -> Self {
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

    fn poll_frame(&mut self, context: &mut Context<'_>) -> PolledFrame {
        match self {
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
                    Poll::Ready(Some(Err("the stream was silent for too long".into())))
                }
            },
            Self::Rest(body) => {
                let piece = ready!(body.poll_next(context));
                Poll::Ready(piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
            }
        }
    }
}

/// When a stream ends from which nothing comes.
fn end_of(silence: Duration, deadline: Option<Deadline>) -> Instant {
    let end = Instant::now() + silence;
    deadline.map_or(end, |deadline| end.min(deadline.at()))
}

impl Body for DoorBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> PolledFrame {
        match &mut *self {
            Self::Own { data, trailers } => {
                let frame = data.take().map(Frame::data);
                let frame = frame.or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Self::Node(passed) => {
                if let Some(ahead) = passed.ahead.take() {
                    return Poll::Ready(Some(Ok(Frame::data(ahead))));
                }
                let frame = ready!(passed.node.poll_frame(context));
                if !matches!(frame, Some(Err(_))) || !passed.node.is_late() {
                    return Poll::Ready(frame);
                }
                let mut trailers = HeaderMap::new();
                GrpcStatus::deadline_exceeded().write(&mut trailers);
                *self = Self::Own {
                    data: None,
                    trailers: Some(trailers),
                };
                self.poll_frame(context)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Node(passed) => match &passed.node {
                FromNode::Grpc { body, .. } => passed.ahead.is_none() && body.is_end_stream(),
                FromNode::Rest(_) => false,
            },
        }
    }
}
