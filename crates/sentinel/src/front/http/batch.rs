//! Batches with writes in them: taken apart, served in order, and answered as the node would.
//!
//! The node carries the calls of a batch out one after the other, and so does this; writes that follow one
//! another are queued together.

use std::iter::Peekable;

use bytes::Bytes;

use super::answers::WholeAnswer;
use super::exchange::Exchange;
use super::work::{Batch, BatchWrite, Broadcast, CallInfo, Element, Next, held_bytes};
use crate::budget::Reservation;
use crate::front::backend::{Backend, WRITE_OVERHEAD};
use crate::front::socket::{Ended, Stream};
use crate::lane::WriteAnswer;
use crate::metrics::{MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::respond::{Asked, refusal_member, write_answer};
use crate::upstream::{Pieces as _, ReadAnswer, ReadRequest};

/// How a group ended: with an answer to the whole batch, if the node could not serve one of its
/// calls.
type GroupEnd = Result<Option<WholeAnswer>, Ended>;

/// A batch that is being served.
struct Serving<'a, B: Backend, IO> {
    exchange: &'a mut Exchange<B, IO>,
    request: &'a ReadRequest,
    /// The answers so far.
    answers: Vec<Vec<u8>>,
    /// And what they may hold.
    room: Reservation,
}

/// Serves a batch.
pub(super) async fn serve<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    batch: Batch,
    asked: Asked,
) -> Result<Next, Ended> {
    let Batch { request, elements } = batch;
    // Its calls go on as requests of their own, one after the other.
    let _held = match exchange.reserve(2 * held_bytes(&request)) {
        Ok(held) => held,
        Err(refusal) => {
            let whole = CallInfo::post(MethodClass::Other, None);
            return Ok(exchange.refuse(&whole, &refusal, asked));
        }
    };
    let room = exchange.socket().ledger().nothing();
    let mut serving = Serving {
        exchange: &mut *exchange,
        request: &request,
        answers: Vec::new(),
        room,
    };
    let mut elements = elements.into_iter().peekable();
    while let Some(first) = elements.next() {
        // The node gives a whole batch up when one of its calls breaks it.
        if let Some(instead) = serving.group(first, &mut elements).await? {
            return Ok(exchange.whole(&instead, asked));
        }
    }
    let (answers, _room) = (serving.answers, serving.room);
    Ok(exchange.answer(asked, |answer| answer.batch(&answers)))
}

impl<B: Backend, IO: Stream> Serving<'_, B, IO> {
    /// Serves a call and those behind it that can be served together with it.
    async fn group(
        &mut self,
        first: Element,
        elements: &mut Peekable<impl Iterator<Item = Element>>,
    ) -> GroupEnd {
        match first {
            Element::Notification => Ok(None),
            Element::Write(first) => {
                let mut writes = vec![first];
                while let Some(next) = elements.next_if(Element::joins_writes) {
                    if let Element::Write(next) = next {
                        writes.push(next);
                    }
                }
                self.writes(writes).await.map(|()| None)
            }
            Element::Forward {
                call,
                price,
                changing,
                raw,
            } => self.forward((call, price), changing, raw).await,
            Element::Refused { call, refusal } => {
                self.exchange.count(&call, OutcomeLabel::Rejected);
                self.refuse(&call, &refusal);
                Ok(None)
            }
        }
    }

    /// Queues writes together; once one is refused the rest is too, so that no later one overtakes
    /// an earlier one of the same account.
    async fn writes(&mut self, writes: Vec<Broadcast>) -> Result<(), Ended> {
        let mut refused: Option<Refusal> = None;
        let mut queued = Vec::with_capacity(writes.len());
        for (tag, Broadcast { call, method, tx }) in (0..).zip(writes) {
            if refused.is_none() {
                let room = self.exchange.socket().ledger();
                let room = room.reserve(tx.len() + WRITE_OVERHEAD);
                let room = room.ok_or_else(Refusal::buffers_full);
                let submit = |room| self.exchange.submit(tag, (method, tx), room);
                refused = room.and_then(submit).err();
            }
            queued.push(BatchWrite {
                call,
                was_queued: refused.is_none(),
                end: refused.clone().map(WriteAnswer::Refused),
            });
        }
        self.exchange.answers_to(&mut queued).await?;
        for write in queued {
            let call = write.call;
            match write.end {
                Some(WriteAnswer::Member(member)) => {
                    self.exchange.count(&call, OutcomeLabel::Forwarded);
                    self.member(&call, &member);
                }
                Some(WriteAnswer::Refused(refusal)) => {
                    let outcome = if write.was_queued {
                        OutcomeLabel::of_write(refusal.reason)
                    } else {
                        OutcomeLabel::Rejected
                    };
                    self.exchange.count(&call, outcome);
                    self.refuse(&call, &refusal);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Forwards a call by itself.
    async fn forward(
        &mut self,
        (call, price): (CallInfo, u32),
        method: Option<Box<str>>,
        raw: Bytes,
    ) -> GroupEnd {
        let request = ReadRequest {
            body: raw,
            method,
            calls: price,
            ..self.request.clone()
        };
        let refusal = match self.exchange.forward(&call, request).await? {
            Ok(answer) => match self.collect(&call, answer).await? {
                Ok(answer) => {
                    self.exchange.count(&call, OutcomeLabel::Forwarded);
                    return Ok(self.add(answer));
                }
                Err(refusal) => {
                    let outcome = OutcomeLabel::of_read(refusal.reason);
                    self.exchange.count(&call, outcome);
                    refusal
                }
            },
            Err(refusal) => refusal,
        };
        self.refuse(&call, &refusal);
        Ok(None)
    }

    /// Reads an answer to its end, as far as there is room for it, unless the client hangs up
    /// before.
    async fn collect(
        &mut self,
        call: &CallInfo,
        mut answer: ReadAnswer<B::Body>,
    ) -> Result<Result<WholeAnswer, Refusal>, Ended> {
        let room = &mut self.room;
        let collecting = async move {
            let mut body = Vec::new();
            while let Some(piece) = answer.body.next().await {
                let piece = piece.map_err(Into::<Refusal>::into)?;
                if !room.grow(piece.len()) {
                    return Err(Refusal::buffers_full());
                }
                body.extend_from_slice(&piece);
            }
            Ok(WholeAnswer {
                status: answer.status,
                headers: answer.headers,
                body,
            })
        };
        self.exchange.unless_gone(call, collecting).await
    }

    /// Answers a call with a refusal.
    fn refuse(&mut self, call: &CallInfo, refusal: &Refusal) {
        self.exchange.note(Some(call), refusal);
        self.member(call, &refusal_member(refusal));
    }

    fn member(&mut self, call: &CallInfo, member: &[u8]) {
        let mut text = Vec::with_capacity(member.len() + 64);
        write_answer(&mut text, call.id(), member);
        self.push(text);
    }

    /// Adds what the node answered to a call. There are others beside it, since reads alone are not taken apart. An
    /// answer of another status than 200 is one to the whole batch, and comes back.
    fn add(&mut self, answer: WholeAnswer) -> Option<WholeAnswer> {
        if answer.status != OK {
            return Some(answer);
        }
        self.push(answer.body.trim_ascii().to_vec());
        None
    }

    /// Answers are few and small, but for those of reads, which had their room before they came:
    /// refusing one now would lose it.
    fn push(&mut self, text: Vec<u8>) {
        let _ = self.room.grow(text.len());
        self.answers.push(text);
    }
}

const OK: u16 = 200;
