//! What the node answers over HTTP: forwarded, and the answers passed on as they come.

use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::Duration;

use wire::http::{BodyLength, LAST_CHUNK, Version, write_chunk_end, write_chunk_start};

use super::exchange::{Exchange, Room};
use super::work::{CallInfo, Forward, Next, held_bytes};
use crate::budget::Piece;
use crate::front::backend::Backend;
use crate::front::socket::{Backlog, Ended, Stream};
use crate::metrics::OutcomeLabel;
use crate::respond::Asked;
use crate::upstream::{Pieces as _, ReadAnswer};
use tokio::time::Instant;

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Serves a request that the node answers.
    pub(super) async fn pass(&mut self, forward: Forward, asked: Asked) -> Result<Next, Ended> {
        let Forward { call, request } = forward;
        let _held = match self.reserve(&Room::Request(held_bytes(&request))) {
            Ok(held) => held,
            Err(refusal) => return Ok(self.reject(&call, &refusal, asked)),
        };
        match self.forward(&call, request).await? {
            Ok(answer) => {
                self.count(&call, OutcomeLabel::Forwarded);
                self.stream(&call, answer, asked).await
            }
            Err(refusal) => Ok(self.refuse(&call, &refusal, asked)),
        }
    }

    /// Passes an answer on. What the node has is taken as the client takes it and as far as the account
    /// allows, so that the answer of a slow client is soon complete here, and gives its place in the lane
    /// back. What its account has no room for keeps its place only while nobody else needs one.
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
        let mut first = None;
        if has_body {
            first = match answer.body.next().await.transpose() {
                Ok(piece) => piece,
                Err(refusal) => return Ok(self.refuse(call, &refusal, asked)),
            };
        }
        self.head(answer.status, &answer.headers, length, asked);
        let is_chunked = has_body && length == BodyLength::Chunked;
        if let Some(piece) = first {
            push(self.socket().output.tail(), &piece, is_chunked);
            // Half an answer cannot be taken back: the connection ends, and the client sees that.
            if !self.pass_on(&mut answer.body, is_chunked).await? {
                drop(answer.body);
                self.flush().await?;
                return Err(Ended::Closed);
            }
        }
        drop(answer.body);
        if is_chunked {
            self.socket().output.tail().extend_from_slice(LAST_CHUNK);
        }
        Ok(Next::after(asked.keep_alive))
    }

    /// Passes the pieces of a body on, in turns what is long: whether they came to its end.
    async fn pass_on(&mut self, body: &mut B::Body, is_chunked: bool) -> Result<bool, Ended> {
        let (patience, most) = self.stream_limits();
        let socket = self.socket();
        let mut backlog = Backlog::default();
        let mut held_back = None;
        // Taken since the last turn.
        let mut taken = 0;
        poll_fn(|context| {
            loop {
                let written = socket.poll_flush(&mut backlog, patience, context)?;
                if written.is_pending() && !socket.make_output_room(most) {
                    let since = *held_back.get_or_insert_with(Instant::now);
                    if since.elapsed() >= HELD_BACK && body.is_wanted() {
                        return Poll::Ready(Ok(false));
                    }
                    // The account's refusals wake nobody.
                    let again = Instant::now() + HELD_BACK;
                    let _ = socket.poll_late(again, context);
                    return Poll::Pending;
                }
                if taken > 0 {
                    ready!(socket.turn().poll_begin(Piece::of(taken), context));
                    socket.turn().finish();
                    taken = 0;
                }
                match ready!(body.poll_next(context)) {
                    Some(Ok(piece)) => {
                        taken = piece.len();
                        push(socket.output.tail(), &piece, is_chunked);
                    }
                    end => return Poll::Ready(Ok(end.is_none())),
                }
            }
        })
        .await
    }
}

/// How long an answer keeps its place in the lane in all while its client takes too little for its account, if
/// others wait for places. They wait twice as long.
const HELD_BACK: Duration = Duration::from_millis(500);

/// Appends a piece of an answer.
fn push(out: &mut Vec<u8>, piece: &[u8], is_chunked: bool) {
    if is_chunked {
        write_chunk_start(out, piece.len());
        out.extend_from_slice(piece);
        write_chunk_end(out);
    } else {
        out.extend_from_slice(piece);
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
