//! Answers over HTTP: what the node answers, passed on as it comes; the write lane's answer to a broadcast; and answers
//! that are made here.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use tokio::time::Instant;
use wire::http::{
    BodyLength, HttpError, LAST_CHUNK, ResponseHead, Version, write_chunk_end, write_chunk_start,
};

use super::exchange::Exchange;
use super::work::{Broadcast, CallInfo, Forward, Next, held_bytes};
use crate::budget::Piece;
use crate::front::backend::{Backend, WRITE_OVERHEAD};
use crate::front::socket::{Backlog, Ended, Stream};
use crate::lane::WriteAnswer;
use crate::metrics::OutcomeLabel;
use crate::refusal::{Reason, Refusal};
use crate::respond::{Asked, Form, HttpDate, go_name, malformed};
use crate::upstream::{Pieces as _, ReadAnswer};

/// A node's answer that is complete in memory.
pub(super) struct WholeAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// The same for the last answer on its connection.
pub(super) const fn last(asked: Asked) -> Asked {
    Asked {
        keep_alive: false,
        ..asked
    }
}

/// What an answer heeds that answers no request.
fn unasked() -> Asked {
    Asked {
        version: Version::Http11,
        keep_alive: false,
        with_body: true,
        at: unix_seconds(),
    }
}

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Answers with the node's result or error.
    pub(super) fn member(&mut self, call: &CallInfo, member: &[u8], asked: Asked) -> Next {
        self.answer(asked, |answer| answer.member(call.form(), member))
    }

    /// Answers with a refusal. The connection stays, unless the program is going down.
    pub(super) fn refuse(&mut self, call: &CallInfo, refusal: &Refusal, asked: Asked) -> Next {
        self.note(Some(call), refusal);
        let asked = match refusal.reason {
            Reason::Shutdown => last(asked),
            _ => asked,
        };
        self.answer(asked, |answer| answer.refused(call.form(), refusal))
    }

    /// Refuses a request when it comes: counted as rejected.
    pub(super) fn reject(&mut self, call: &CallInfo, refusal: &Refusal, asked: Asked) -> Next {
        self.count(call, OutcomeLabel::Rejected);
        self.refuse(call, refusal, asked)
    }

    /// Refuses what was not read to its end; the connection cannot go on.
    pub(super) fn turn_away(&mut self, refusal: &Refusal) -> Next {
        self.note(None, refusal);
        self.answer(unasked(), |answer| {
            answer.refused(Form::Post(None), refusal);
        })
    }

    /// Refuses what is no request; the connection cannot go on.
    pub(super) fn malformed(&mut self, error: HttpError) -> Next {
        self.note(None, &malformed(error));
        self.answer(unasked(), |answer| answer.malformed(error))
    }

    /// Becomes a WebSocket, if nothing was sent before it is one.
    pub(super) fn upgrade(&mut self, accept: &str, asked: Asked) -> Next {
        // The node's server closes such a connection as well: the bytes belong to neither protocol.
        if !self.socket().input.is_empty() {
            return Next::Close;
        }
        self.answer(asked, |answer| answer.upgraded(accept));
        Next::WebSocket(self.take_slot())
    }

    /// Answers with a node's answer as it is.
    pub(super) fn whole(&mut self, whole: &WholeAnswer, asked: Asked) -> Next {
        let length = BodyLength::Known(whole.body.len() as u64);
        self.head(whole.status, &whole.headers, length, asked);
        if asked.with_body {
            self.socket().output.tail().extend_from_slice(&whole.body);
        }
        Next::after(asked.keep_alive)
    }

    /// Writes the head of a node's answer.
    pub(super) fn head(
        &mut self,
        status: u16,
        headers: &HeaderMap,
        length: BodyLength,
        asked: Asked,
    ) {
        let out = self.socket().output.tail();
        let mut head = ResponseHead::start(out, asked.version, status);
        for (name, value) in headers {
            head = head.field(&go_name(name), value.as_bytes());
        }
        head.finish(length, asked.keep_alive);
    }
}

thread_local! {
    /// The date of answers, written once a second for each thread.
    static DATE: RefCell<HttpDate> = RefCell::new(HttpDate::new(0));
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Calls `write` with the date of now.
pub(super) fn with_date<T>(write: impl FnOnce(&HttpDate) -> T) -> T {
    DATE.with_borrow_mut(|date| {
        date.set(unix_seconds());
        write(date)
    })
}

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Puts a broadcast in plain form into the lane: whose answer is to be awaited, or how the
    /// connection goes on when it was refused.
    pub(super) fn broadcast(&mut self, write: Broadcast, asked: Asked) -> Result<CallInfo, Next> {
        let Broadcast { call, method, tx } = write;
        let room = self.reserve(tx.len() + WRITE_OVERHEAD);
        match room.and_then(|room| self.submit(0, (method, tx), room)) {
            Ok(()) => Ok(call),
            Err(refusal) => Err(self.reject(&call, &refusal, asked)),
        }
    }

    /// Waits for the answer to a broadcast in plain form.
    pub(super) async fn finish(&mut self, call: CallInfo, asked: Asked) -> Result<Next, Ended> {
        let answer = self.answer_to(&call).await?;
        Ok(match answer {
            WriteAnswer::Member(member) => {
                self.count(&call, OutcomeLabel::Forwarded);
                self.member(&call, &member, asked)
            }
            WriteAnswer::Refused(refusal) => {
                self.count(&call, OutcomeLabel::of_write(refusal.reason));
                self.refuse(&call, &refusal, asked)
            }
        })
    }
}

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Serves a request that the node answers.
    pub(super) async fn pass(&mut self, forward: Forward, asked: Asked) -> Result<Next, Ended> {
        let Forward { call, request } = forward;
        let _held = match self.reserve(held_bytes(&request)) {
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
    /// back. Bytes that its account has no room for keep their place only while no other request needs one.
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
        // Until the first byte of the answer is sent, the client can still get an error instead.
        let mut first = None;
        if has_body {
            first = match answer.body.next().await.transpose() {
                Ok(piece) => piece,
                Err(error) => return Ok(self.refuse(call, &error.into(), asked)),
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
                    // A refusal by the account wakes no task, so this one looks again.
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

/// How the answer's head gives the length of the body to this client.
fn body_length<T>(answer: &ReadAnswer<T>, asked: Asked) -> BodyLength {
    match (answer.status, answer.length) {
        (100..200 | 204 | 304, _) => BodyLength::Nothing,
        (_, Some(length)) => BodyLength::Known(length),
        (_, None) if asked.version == Version::Http11 => BodyLength::Chunked,
        (_, None) => BodyLength::UntilClose,
    }
}
