//! Batches with writes in them: taken apart, served in order, and answered as the node would.
//!
//! The node carries the calls of a batch out one after the other. Here the writes that follow one
//! another are queued together, the reads that follow one another are forwarded together, and a
//! group begins when the one before it has its answers.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use fairq::ClientKey;
use rpc::BroadcastMethod;

use tokio::time::Instant;

use super::answer::Tail;
use super::plan::To;
use super::stream::read_outcome;
use super::write::outcome_of;
use super::{Connection, Next, full};
use crate::front::backend::Backend;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::{WriteAnswer, WriteBody};
use crate::ledger::Reservation;
use crate::metrics::{LaneLabel, MethodClass, OutcomeLabel};
use crate::refusal::Refusal;
use crate::respond;
use crate::upstream::{Pieces, ReadAnswer, ReadRequest};

/// A batch that does not go to the node as a whole.
pub(super) struct Batch {
    pub(super) client: ClientKey,
    /// The request that it came in.
    pub(super) request: ReadRequest,
    pub(super) elements: Vec<Element>,
}

/// One call of a batch.
pub(super) enum Element {
    Write {
        to: To,
        method: BroadcastMethod,
        tx: Bytes,
    },
    Unusual {
        to: To,
        raw: Bytes,
    },
    Read {
        to: To,
        raw: Bytes,
    },
    Refused {
        to: To,
        refusal: Refusal,
    },
    Nothing,
}

/// Calls that are served together.
enum Group {
    Writes(Vec<(To, BroadcastMethod, Bytes)>),
    Reads(Vec<(To, Bytes)>),
    Unusual(To, Bytes),
    Refused(To, Refusal),
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

/// What a batch is answered with instead, because the node could not serve one of its calls.
pub(super) struct Instead {
    pub(super) status: u16,
    pub(super) headers: Vec<(std::borrow::Cow<'static, str>, Bytes)>,
    pub(super) body: Vec<u8>,
}

/// How a group ended.
type Served = Result<Option<Instead>, Ended>;

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// Serves a batch.
    pub(super) async fn batch(&mut self, batch: Batch, tail: Tail) -> Result<Next, Ended> {
        let Batch {
            client,
            request,
            elements,
        } = batch;
        let whole = To::post(MethodClass::Other, None);
        let held = self.socket.take_reserved(request.body.len());
        let room = self.socket.ledger().reserve(0);
        let (Some(_held), Some(room)) = (held, room) else {
            return Ok(self.refuse(&whole, &full(), tail));
        };
        let mut answers = Answers {
            texts: Vec::new(),
            refusal: None,
            room,
        };
        let mut elements = elements.into_iter().peekable();
        while let Some(group) = next_group(&mut elements) {
            let instead = match group {
                Group::Writes(writes) => self.writes(client, writes, &mut answers).await?,
                Group::Reads(reads) => self.reads(client, &request, reads, &mut answers).await?,
                Group::Unusual(to, raw) => {
                    self.one_unusual(client, &request, (to, raw), &mut answers)
                        .await?
                }
                Group::Refused(to, refusal) => {
                    self.count(&to, LaneLabel::Read, OutcomeLabel::Rejected);
                    self.told(&refusal);
                    answers.refuse(&to, &refusal);
                    None
                }
            };
            // The node gives a whole batch up when one of its calls breaks it.
            if let Some(instead) = instead {
                return Ok(self.instead(&instead, tail));
            }
        }
        match &answers.refusal {
            Some(refusal) => self.rest_for(refusal, Instant::now()),
            None => self.rest.served(),
        }
        Ok(self.composed(&answers.texts, tail))
    }

    /// Queues writes together; once one is refused the rest is too, so that no later one overtakes
    /// an earlier one of the same account.
    async fn writes(
        &mut self,
        client: ClientKey,
        writes: Vec<(To, BroadcastMethod, Bytes)>,
        answers: &mut Answers,
    ) -> Served {
        let mut refused: Option<Refusal> = None;
        let mut ends = Vec::with_capacity(writes.len());
        for (tag, (to, method, tx)) in (0..).zip(writes) {
            let submitted = match &refused {
                Some(refusal) => Err(refusal.clone()),
                None => self.submit_one(client, tag, WriteBody::Tx { method, tx }),
            };
            refused = submitted.err();
            let end = refused.clone().map(End::Rejected);
            ends.push((to, end));
        }
        while ends.iter().any(|(_, end)| end.is_none()) {
            for delivery in self.answers().await? {
                let place = usize::try_from(delivery.tag).ok();
                if let Some((_, end)) = place.and_then(|place| ends.get_mut(place)) {
                    *end = Some(End::Answered(delivery.answer));
                }
            }
        }
        for (to, end) in ends {
            self.end(&to, end, answers);
        }
        Ok(None)
    }

    fn submit_one(&mut self, client: ClientKey, tag: u64, body: WriteBody) -> Result<(), Refusal> {
        let bytes = match &body {
            WriteBody::Tx { tx, .. } => tx.len(),
            WriteBody::Unusual => 0,
        };
        let room = self.socket.ledger().reserve(bytes + WRITE_OVERHEAD);
        self.queue.submit(client, tag, body, room.ok_or_else(full)?)
    }

    /// Counts the end of a write and adds its answer.
    fn end(&mut self, to: &To, end: Option<End>, answers: &mut Answers) {
        let (outcome, refusal) = match end {
            Some(End::Answered(WriteAnswer::Member(member))) => {
                answers.member(to, &member);
                (OutcomeLabel::Forwarded, None)
            }
            Some(End::Answered(WriteAnswer::Refused(refusal))) => {
                (outcome_of(refusal.reason), Some(refusal))
            }
            Some(End::Rejected(refusal)) => (OutcomeLabel::Rejected, Some(refusal)),
            // A write in plain form is given no permit.
            Some(End::Answered(WriteAnswer::Permit(_))) | None => return,
        };
        self.count(to, LaneLabel::Write, outcome);
        if let Some(refusal) = refusal {
            self.told(&refusal);
            answers.refuse(to, &refusal);
        }
    }

    /// Forwards reads together.
    async fn reads(
        &mut self,
        client: ClientKey,
        request: &ReadRequest,
        reads: Vec<(To, Bytes)>,
        answers: &mut Answers,
    ) -> Served {
        let request = ReadRequest {
            body: joined(&reads),
            calls: u32::try_from(reads.len()).unwrap_or(u32::MAX),
            ..request.clone()
        };
        let backend = self.front.backend.clone();
        let metrics = Arc::clone(&self.front.metrics);
        let forward = async {
            let answer = backend.forward(client, request).await?;
            metrics.upstream_request(MethodClass::Other, answer.took);
            collect(answer, &mut answers.room).await
        };
        let forwarded = self.unless_gone(forward).await?;
        let outcome = match &forwarded {
            Ok(_) => OutcomeLabel::Forwarded,
            Err(refusal) => read_outcome(refusal.reason),
        };
        for (to, _) in &reads {
            self.count(to, LaneLabel::Read, outcome);
        }
        match forwarded {
            Ok(answer) if answer.status == OK => answers.add(&answer.body),
            Ok(answer) => return Ok(Some(answer)),
            Err(refusal) => {
                self.told(&refusal);
                for (to, _) in &reads {
                    answers.refuse(to, &refusal);
                }
            }
        }
        Ok(None)
    }

    /// Forwards a write by itself when its turn has come.
    async fn one_unusual(
        &mut self,
        client: ClientKey,
        request: &ReadRequest,
        (to, raw): (To, Bytes),
        answers: &mut Answers,
    ) -> Served {
        let request = ReadRequest {
            body: raw,
            calls: 1,
            ..request.clone()
        };
        let refusal = match self.permit(client, &to, request.body.len()).await? {
            Err(refusal) => refusal,
            Ok(_permit) => {
                let backend = self.front.backend.clone();
                let metrics = Arc::clone(&self.front.metrics);
                let pass = async {
                    let answer = backend.pass(client, request).await?;
                    metrics.upstream_request(to.class, answer.took);
                    collect(answer, &mut answers.room).await
                };
                match self.unless_gone(pass).await? {
                    Ok(answer) => {
                        self.count(&to, LaneLabel::Write, OutcomeLabel::Forwarded);
                        if answer.status != OK {
                            return Ok(Some(answer));
                        }
                        answers.add(&answer.body);
                        return Ok(None);
                    }
                    Err(refusal) => {
                        self.count(&to, LaneLabel::Write, OutcomeLabel::Lost);
                        refusal
                    }
                }
            }
        };
        self.told(&refusal);
        answers.refuse(&to, &refusal);
        Ok(None)
    }
}

impl Answers {
    fn member(&mut self, to: &To, member: &[u8]) {
        let mut text = Vec::with_capacity(member.len() + 64);
        respond::write_answer(&mut text, to.id(), member);
        self.push(text);
    }

    fn refuse(&mut self, to: &To, refusal: &Refusal) {
        let mut text = Vec::with_capacity(512);
        respond::write_refused(&mut text, to.id(), refusal);
        self.refusal = Some(refusal.clone());
        self.push(text);
    }

    /// Adds what the node answered to a part of the batch: one object, several, or nothing. There
    /// are others beside it, since reads alone are not taken apart.
    fn add(&mut self, body: &[u8]) {
        let body = body.trim_ascii();
        let several = body
            .strip_prefix(b"[")
            .and_then(|rest| rest.strip_suffix(b"]"));
        let objects = several.unwrap_or(body);
        if !objects.is_empty() {
            self.push(objects.to_vec());
        }
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
            Element::Nothing => continue,
            Element::Unusual { to, raw } => Group::Unusual(to, raw),
            Element::Refused { to, refusal } => Group::Refused(to, refusal),
            Element::Write { to, method, tx } => {
                let mut writes = vec![(to, method, tx)];
                while let Some(next) = elements.next_if(Element::joins_writes) {
                    if let Element::Write { to, method, tx } = next {
                        writes.push((to, method, tx));
                    }
                }
                Group::Writes(writes)
            }
            Element::Read { to, raw } => {
                let mut reads = vec![(to, raw)];
                while let Some(next) = elements.next_if(Element::joins_reads) {
                    if let Element::Read { to, raw } = next {
                        reads.push((to, raw));
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
        matches!(self, Self::Write { .. } | Self::Nothing)
    }

    const fn joins_reads(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Nothing)
    }
}

/// Calls as the body of one request.
fn joined(reads: &[(To, Bytes)]) -> Bytes {
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
) -> Result<Instead, Refusal> {
    let mut body = Vec::new();
    while let Some(piece) = answer.body.next().await {
        let piece = piece?;
        if !room.grow(piece.len()) {
            return Err(full());
        }
        body.extend_from_slice(&piece);
    }
    Ok(Instead {
        status: answer.status,
        headers: answer.headers,
        body,
    })
}
