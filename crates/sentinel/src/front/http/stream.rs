//! Reads over HTTP: forwarded, and their answers passed on as they come.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::answer::Tail;
use super::plan::{Forward, To};
use super::{Connection, Next, full};
use crate::front::backend::Backend;
use crate::front::socket::{Ended, Stream};
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::refusal::Reason;
use crate::upstream::{Pieces as _, ReadAnswer};
use wire::http::{
    BodyLength, LAST_CHUNK, ResponseHead, Version, write_chunk_end, write_chunk_start,
};

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// Serves a read.
    pub(super) async fn read(&mut self, forward: Forward, tail: Tail) -> Result<Next, Ended> {
        let Forward {
            client,
            to,
            request,
        } = forward;
        let held = self.socket.take_reserved(request.body.len());
        let Some(_held) = held else {
            self.count(&to, LaneLabel::Read, OutcomeLabel::Rejected);
            return Ok(self.refuse(&to, &full(), tail));
        };
        let backend = self.front.backend.clone();
        let answer = match self.unless_gone(backend.forward(client, request)).await {
            Ok(answer) => answer,
            Err(ended) => {
                self.count(&to, LaneLabel::Read, OutcomeLabel::Cancelled);
                return Err(ended);
            }
        };
        match answer {
            Ok(answer) => {
                self.count(&to, LaneLabel::Read, OutcomeLabel::Forwarded);
                self.front.metrics.upstream_request(to.class, answer.took);
                self.rest.served();
                self.stream(&to, answer, tail).await
            }
            Err(refusal) => {
                self.count(&to, LaneLabel::Read, read_outcome(refusal.reason));
                Ok(self.refuse(&to, &refusal, tail))
            }
        }
    }

    /// Awaits something unless the client hangs up before.
    pub(super) async fn unless_gone<T>(
        &mut self,
        what: impl Future<Output = T>,
    ) -> Result<T, Ended> {
        let mut what = pin!(what);
        poll_fn(|context| {
            if let Poll::Ready(done) = what.as_mut().poll(context) {
                return Poll::Ready(Ok(done));
            }
            self.socket.poll_gone(context).map(Err)
        })
        .await
    }

    /// Passes an answer on, piece by piece: the next is taken when the last was.
    pub(super) async fn stream(
        &mut self,
        to: &To,
        mut answer: ReadAnswer<B::Body>,
        tail: Tail,
    ) -> Result<Next, Ended> {
        let length = body_length(&answer, tail);
        let keep_alive = tail.keep_alive && length != BodyLength::UntilClose;
        let has_body =
            !tail.is_head && !matches!(length, BodyLength::Nothing | BodyLength::Known(0));
        // As long as nothing of the answer went out, the client can still be told what went wrong.
        let mut piece = None;
        if has_body {
            piece = match answer.body.next().await.transpose() {
                Ok(piece) => piece,
                Err(refusal) => return Ok(self.refuse(to, &refusal, tail)),
            };
        }
        let mut head = ResponseHead::start(self.socket.output.tail(), tail.version, answer.status);
        for (name, value) in &answer.headers {
            head = head.field(name, value);
        }
        head.finish(length, keep_alive);
        let patience = self.front.config.limits.write_timeout;
        while let Some(bytes) = piece {
            let out = self.socket.output.tail();
            if length == BodyLength::Chunked {
                write_chunk_start(out, bytes.len());
                out.extend_from_slice(&bytes);
                write_chunk_end(out);
            } else {
                out.extend_from_slice(&bytes);
            }
            self.socket.flush(patience).await?;
            // Half an answer cannot be taken back: the connection ends, and the client sees that.
            let next = answer.body.next().await.transpose();
            piece = next.map_err(|_| Ended::Closed)?;
        }
        if has_body && length == BodyLength::Chunked {
            self.socket.output.tail().extend_from_slice(LAST_CHUNK);
        }
        Ok(if keep_alive {
            Next::Request
        } else {
            Next::Close
        })
    }
}

/// How the length of an answer's body is told to this client.
fn body_length<T>(answer: &ReadAnswer<T>, tail: Tail) -> BodyLength {
    match (answer.status, answer.length) {
        (100..200 | 204 | 304, _) => BodyLength::Nothing,
        (_, Some(length)) => BodyLength::Known(length),
        (_, None) if tail.version == Version::Http11 => BodyLength::Chunked,
        (_, None) => BodyLength::UntilClose,
    }
}

/// How a read ended that was refused.
pub(super) const fn read_outcome(reason: Reason) -> OutcomeLabel {
    match reason {
        Reason::Upstream | Reason::Shutdown => OutcomeLabel::Lost,
        _ => OutcomeLabel::Rejected,
    }
}
