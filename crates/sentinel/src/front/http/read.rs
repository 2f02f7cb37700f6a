//! Reads over HTTP: forwarded, and their answers passed on as they come.

use wire::http::{BodyLength, LAST_CHUNK, Version, write_chunk_end, write_chunk_start};

use super::exchange::{Exchange, Room};
use super::work::{CallInfo, Forward, Next};
use crate::front::backend::Backend;
use crate::front::outcome;
use crate::front::socket::{Ended, Stream};
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::respond::Asked;
use crate::upstream::{Pieces as _, ReadAnswer};

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Serves a read.
    pub(super) async fn read(&mut self, read: Forward, asked: Asked) -> Result<Next, Ended> {
        let Forward { call, request } = read;
        let lane = LaneLabel::Read;
        let _held = match self.reserve(&Room::Request(request.body.len())) {
            Ok(held) => held,
            Err(refusal) => {
                self.count(&call, lane, OutcomeLabel::Rejected);
                return Ok(self.refuse(&call, &refusal, asked));
            }
        };
        match self.forward(lane, call.class, request).await {
            Ok(Ok(answer)) => {
                self.count(&call, lane, OutcomeLabel::Forwarded);
                self.served();
                self.stream(&call, answer, asked).await
            }
            Ok(Err(refusal)) => {
                self.count(&call, lane, outcome::of_read(refusal.reason));
                Ok(self.refuse(&call, &refusal, asked))
            }
            Err(ended) => {
                self.count(&call, lane, OutcomeLabel::Cancelled);
                Err(ended)
            }
        }
    }

    /// Passes an answer on, piece by piece: the next is taken when the last was.
    pub(super) async fn stream(
        &mut self,
        call: &CallInfo,
        mut answer: ReadAnswer<B::Body>,
        mut asked: Asked,
    ) -> Result<Next, Ended> {
        let length = body_length(&answer, asked);
        asked.keep_alive &= length != BodyLength::UntilClose;
        let has_body =
            asked.with_body && !matches!(length, BodyLength::Nothing | BodyLength::Known(0));
        // As long as nothing of the answer went out, the client can still be told what went wrong.
        let mut piece = None;
        if has_body {
            piece = match answer.body.next().await.transpose() {
                Ok(piece) => piece,
                Err(refusal) => return Ok(self.refuse(call, &refusal, asked)),
            };
        }
        self.head(answer.status, &answer.headers, length, asked);
        while let Some(bytes) = piece {
            let out = self.socket().output.tail();
            if length == BodyLength::Chunked {
                write_chunk_start(out, bytes.len());
                out.extend_from_slice(&bytes);
                write_chunk_end(out);
            } else {
                out.extend_from_slice(&bytes);
            }
            self.flush().await?;
            // Half an answer cannot be taken back: the connection ends, and the client sees that.
            let next = answer.body.next().await.transpose();
            piece = next.map_err(|_| Ended::Closed)?;
        }
        if has_body && length == BodyLength::Chunked {
            self.socket().output.tail().extend_from_slice(LAST_CHUNK);
        }
        Ok(Next::after(asked.keep_alive))
    }
}

/// How the length of an answer's body is told to this client.
fn body_length<T>(answer: &ReadAnswer<T>, asked: Asked) -> BodyLength {
    match (answer.status, answer.length) {
        (100..200 | 204 | 304, _) => BodyLength::Nothing,
        (_, Some(length)) => BodyLength::Known(length),
        (_, None) if asked.version == Version::Http11 => BodyLength::Chunked,
        (_, None) => BodyLength::UntilClose,
    }
}
