//! Batches with writes in them: taken apart, served in order, and answered as the node would.
//!
//! The node carries the calls of a batch out one after the other. Here the writes that follow one
//! another are queued together, the reads that follow one another are forwarded together, and a
//! group begins when the one before it has its answers.

use std::iter::Peekable;

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;

use super::exchange::{Exchange, Room};
use super::replies::{self, WholeAnswer};
use super::work::{Batch, CallInfo, Element, Next};
use super::write;
use crate::front::backend::Backend;
use crate::front::outcome;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::{WriteAnswer, WriteBody};
use crate::ledger::Reservation;
use crate::metrics::{LaneLabel, MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::respond::{self, Asked};
use crate::upstream::{Pieces, ReadAnswer, ReadRequest};

/// Calls that are served together.
enum Group {
    Writes(Vec<(CallInfo, BroadcastMethod, Bytes)>),
    Reads(Vec<(CallInfo, Bytes)>),
    Unusual(CallInfo, Bytes),
    Refused(CallInfo, Refusal),
}

/// How a write ended.
enum End {
    /// It was not queued.
    Rejected(Refusal),
    /// Something came back.
    Answered(WriteAnswer),
}

/// The answers so far.
struct Answers {
    /// Each the text of one answer, or of several with commas between them.
    texts: Vec<Vec<u8>>,
    /// The last refusal among them.
    refusal: Option<Refusal>,
    room: Reservation,
}

/// How a group ended: with an answer to the whole batch, if the node could not serve one of its
/// calls.
type Served = Result<Option<WholeAnswer>, Ended>;

/// A batch that is being served.
struct Serving<'a, B: Backend, IO> {
    exchange: &'a mut Exchange<B, IO>,
    client: ClientKey,
    request: &'a ReadRequest,
    answers: Answers,
}

/// Serves a batch.
pub(super) async fn serve<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    batch: Batch,
    asked: Asked,
) -> Result<Next, Ended> {
    let Batch {
        client,
        request,
        elements,
    } = batch;
    let held = exchange.reserve(&Room::Request(request.body.len()));
    let (_held, room) = match held.and_then(|held| Ok((held, exchange.reserve(&Room::Part(0))?))) {
        Ok(reserved) => reserved,
        Err(refusal) => {
            let whole = CallInfo::post(MethodClass::Other, None);
            return Ok(replies::refuse(exchange, &whole, &refusal, asked));
        }
    };
    let mut serving = Serving {
        exchange: &mut *exchange,
        client,
        request: &request,
        answers: Answers {
            texts: Vec::new(),
            refusal: None,
            room,
        },
    };
    let mut elements = elements.into_iter().peekable();
    while let Some(group) = next_group(&mut elements) {
        // The node gives a whole batch up when one of its calls breaks it.
        if let Some(instead) = serving.group(group).await? {
            return Ok(replies::whole(exchange, &instead, asked));
        }
    }
    let answers = serving.answers;
    match &answers.refusal {
        Some(refusal) => exchange.slow_down(refusal),
        None => exchange.served(),
    }
    Ok(exchange.answer(asked, |answer| answer.batch(&answers.texts)))
}

impl<B: Backend, IO: Stream> Serving<'_, B, IO> {
    async fn group(&mut self, group: Group) -> Served {
        match group {
            Group::Writes(writes) => self.writes(writes).await.map(|()| None),
            Group::Reads(reads) => self.reads(reads).await,
            Group::Unusual(call, raw) => self.unusual(call, raw).await,
            Group::Refused(call, refusal) => {
                let exchange = &self.exchange;
                exchange.count(&call, LaneLabel::Read, OutcomeLabel::Rejected);
                self.refuse(&call, &refusal);
                Ok(None)
            }
        }
    }

    /// Queues writes together; once one is refused the rest is too, so that no later one overtakes
    /// an earlier one of the same account.
    async fn writes(
        &mut self,
        writes: Vec<(CallInfo, BroadcastMethod, Bytes)>,
    ) -> Result<(), Ended> {
        let mut refused: Option<Refusal> = None;
        let mut ends = Vec::with_capacity(writes.len());
        for (tag, (call, method, tx)) in (0..).zip(writes) {
            let room = Room::Part(tx.len() + WRITE_OVERHEAD);
            let submitted = match &refused {
                Some(refusal) => Err(refusal.clone()),
                None => {
                    let body = WriteBody::Tx { method, tx };
                    self.exchange.submit(self.client, tag, body, &room)
                }
            };
            refused = submitted.err();
            ends.push((call, refused.clone().map(End::Rejected)));
        }
        while ends.iter().any(|(_, end)| end.is_none()) {
            for delivery in self.exchange.answers().await? {
                let place = usize::try_from(delivery.tag).ok();
                if let Some((_, end)) = place.and_then(|place| ends.get_mut(place)) {
                    *end = Some(End::Answered(delivery.answer));
                }
            }
        }
        for (call, end) in ends {
            self.end(&call, end);
        }
        Ok(())
    }

    /// Counts the end of a write and adds its answer.
    fn end(&mut self, call: &CallInfo, end: Option<End>) {
        let (outcome, refusal) = match end {
            Some(End::Answered(WriteAnswer::Member(member))) => {
                self.answers.member(call, &member);
                (OutcomeLabel::Forwarded, None)
            }
            Some(End::Answered(WriteAnswer::Refused(refusal))) => {
                (outcome::of_write(refusal.reason), Some(refusal))
            }
            Some(End::Rejected(refusal)) => (OutcomeLabel::Rejected, Some(refusal)),
            // A write in plain form is given no permit.
            Some(End::Answered(WriteAnswer::Permit(_))) | None => return,
        };
        self.exchange.count(call, LaneLabel::Write, outcome);
        if let Some(refusal) = refusal {
            self.refuse(call, &refusal);
        }
    }

    /// Forwards reads together.
    async fn reads(&mut self, reads: Vec<(CallInfo, Bytes)>) -> Served {
        let request = ReadRequest {
            body: joined(&reads),
            calls: u32::try_from(reads.len()).unwrap_or(u32::MAX),
            ..self.request.clone()
        };
        let exchange = &mut *self.exchange;
        let class = MethodClass::Other;
        let forwarded = match exchange.forward(self.client, class, request).await? {
            Ok(answer) => {
                let collecting = collect(answer, &mut self.answers.room);
                exchange.unless_gone(collecting).await?
            }
            Err(refusal) => Err(refusal),
        };
        let outcome = match &forwarded {
            Ok(_) => OutcomeLabel::Forwarded,
            Err(refusal) => outcome::of_read(refusal.reason),
        };
        for (call, _) in &reads {
            exchange.count(call, LaneLabel::Read, outcome);
        }
        match forwarded {
            Ok(answer) => Ok(self.answers.add(answer)),
            Err(refusal) => {
                exchange.note(&refusal);
                for (call, _) in &reads {
                    self.answers.refuse(call, &refusal);
                }
                Ok(None)
            }
        }
    }

    /// Forwards a write by itself when its turn has come.
    async fn unusual(&mut self, call: CallInfo, raw: Bytes) -> Served {
        let request = ReadRequest {
            body: raw,
            calls: 1,
            ..self.request.clone()
        };
        let exchange = &mut *self.exchange;
        let bytes = request.body.len();
        let refusal = match write::permit(exchange, self.client, &call, bytes).await? {
            Err(refusal) => refusal,
            Ok(_permit) => {
                let passed = match exchange.pass(self.client, call.class, request).await? {
                    Ok(answer) => {
                        let collecting = collect(answer, &mut self.answers.room);
                        exchange.unless_gone(collecting).await?
                    }
                    Err(refusal) => Err(refusal),
                };
                match passed {
                    Ok(answer) => {
                        exchange.count(&call, LaneLabel::Write, OutcomeLabel::Forwarded);
                        return Ok(self.answers.add(answer));
                    }
                    Err(refusal) => {
                        exchange.count(&call, LaneLabel::Write, OutcomeLabel::Lost);
                        refusal
                    }
                }
            }
        };
        self.refuse(&call, &refusal);
        Ok(None)
    }

    /// Answers a call with a refusal.
    fn refuse(&mut self, call: &CallInfo, refusal: &Refusal) {
        self.exchange.note(refusal);
        self.answers.refuse(call, refusal);
    }
}

impl Answers {
    fn member(&mut self, call: &CallInfo, member: &[u8]) {
        let mut text = Vec::with_capacity(member.len() + 64);
        respond::write_answer(&mut text, call.id(), member);
        self.push(text);
    }

    fn refuse(&mut self, call: &CallInfo, refusal: &Refusal) {
        let mut text = Vec::with_capacity(512);
        respond::write_refused(&mut text, call.id(), refusal);
        self.refusal = Some(refusal.clone());
        self.push(text);
    }

    /// Adds what the node answered to a part of the batch: one object, several, or nothing. There
    /// are others beside it, since reads alone are not taken apart. An answer of another status than
    /// 200 is one to the whole batch, and comes back.
    fn add(&mut self, answer: WholeAnswer) -> Option<WholeAnswer> {
        if answer.status != OK {
            return Some(answer);
        }
        let body = answer.body.trim_ascii();
        let several = body
            .strip_prefix(b"[")
            .and_then(|rest| rest.strip_suffix(b"]"));
        let objects = several.unwrap_or(body);
        if !objects.is_empty() {
            self.push(objects.to_vec());
        }
        None
    }

    /// Answers are few and small, but for those of reads, which had their room before they came:
    /// refusing one now would lose it.
    fn push(&mut self, text: Vec<u8>) {
        let _ = self.room.grow(text.len());
        self.texts.push(text);
    }
}

const OK: u16 = 200;

/// The next calls that can be served together.
fn next_group(elements: &mut Peekable<impl Iterator<Item = Element>>) -> Option<Group> {
    loop {
        let group = match elements.next()? {
            Element::Notification => continue,
            Element::Unusual { call, raw } => Group::Unusual(call, raw),
            Element::Refused { call, refusal } => Group::Refused(call, refusal),
            Element::Write { call, method, tx } => {
                let mut writes = vec![(call, method, tx)];
                while let Some(next) = elements.next_if(Element::joins_writes) {
                    if let Element::Write { call, method, tx } = next {
                        writes.push((call, method, tx));
                    }
                }
                Group::Writes(writes)
            }
            Element::Read { call, raw } => {
                let mut reads = vec![(call, raw)];
                while let Some(next) = elements.next_if(Element::joins_reads) {
                    if let Element::Read { call, raw } = next {
                        reads.push((call, raw));
                    }
                }
                Group::Reads(reads)
            }
        };
        return Some(group);
    }
}

impl Element {
    const fn joins_writes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Notification)
    }

    const fn joins_reads(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Notification)
    }
}

/// Calls as the body of one request.
fn joined(reads: &[(CallInfo, Bytes)]) -> Bytes {
    match reads {
        [(_, raw)] => raw.clone(),
        _ => {
            let mut body = vec![b'['];
            for (place, (_, raw)) in reads.iter().enumerate() {
                if place > 0 {
                    body.push(b',');
                }
                body.extend_from_slice(raw);
            }
            body.push(b']');
            body.into()
        }
    }
}

/// Reads an answer to its end, as far as there is room for it.
async fn collect<T: Pieces<Error = Refusal>>(
    mut answer: ReadAnswer<T>,
    room: &mut Reservation,
) -> Result<WholeAnswer, Refusal> {
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
        let piece = piece?;
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
}
