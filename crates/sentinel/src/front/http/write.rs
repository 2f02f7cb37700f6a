//! Broadcasts over HTTP: into the write lane, and its answer back.

use fairq::ClientKey;

use super::exchange::{Exchange, Room};
use super::work::{Broadcast, CallInfo, Forward, Next};
use super::{read, replies};
use crate::front::backend::Backend;
use crate::front::outcome;
use crate::front::overhead::Overhead;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::{Permit, WriteAnswer, WriteBody};
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::refusal::Refusal;
use crate::respond::Asked;

/// Puts a broadcast in plain form into the lane: whose answer is to be awaited, or how the
/// connection goes on when it was refused.
pub(super) fn submit<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    write: Broadcast,
    asked: Asked,
) -> Result<CallInfo, Next> {
    let Broadcast {
        client,
        call,
        method,
        tx,
    } = write;
    let room = Room::Request(tx.len() + WRITE_OVERHEAD);
    let body = WriteBody::Tx { method, tx };
    match exchange.submit(client, 0, body, &room) {
        Ok(()) => Ok(call),
        Err(refusal) => {
            exchange.count(&call, LaneLabel::Write, OutcomeLabel::Rejected);
            Err(replies::refuse(exchange, &call, &refusal, asked))
        }
    }
}

/// Waits for the answer to a broadcast in plain form.
pub(super) async fn finish<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    call: CallInfo,
    asked: Asked,
    mut overhead: Overhead,
) -> Result<Next, Ended> {
    overhead.pause();
    let answer = one_answer(exchange, &call).await?;
    overhead.resume();
    let next = match answer {
        WriteAnswer::Member(member) => {
            exchange.count(&call, LaneLabel::Write, OutcomeLabel::Forwarded);
            replies::member(exchange, &call, &member, asked)
        }
        WriteAnswer::Refused(refusal) => {
            exchange.count(&call, LaneLabel::Write, outcome::of_write(refusal.reason));
            replies::refuse(exchange, &call, &refusal, asked)
        }
        // Only unusual writes are given one; without it nothing is lost.
        WriteAnswer::Permit(_) => return Err(Ended::Closed),
    };
    if overhead.is_on() {
        exchange.flush().await?;
        overhead.end(exchange.metrics());
    }
    Ok(next)
}

/// Serves a broadcast that only the node can answer: it is forwarded when its turn comes.
pub(super) async fn unusual<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    write: Forward,
    asked: Asked,
) -> Result<Next, Ended> {
    let Forward {
        client,
        call,
        request,
    } = write;
    let refusal = match permit(exchange, client, &call, request.body.len()).await? {
        Err(refusal) => refusal,
        Ok(_permit) => match exchange.pass(client, call.class, request).await? {
            Ok(answer) => {
                exchange.count(&call, LaneLabel::Write, OutcomeLabel::Forwarded);
                return read::stream(exchange, &call, answer, asked).await;
            }
            Err(refusal) => {
                exchange.count(&call, LaneLabel::Write, OutcomeLabel::Lost);
                refusal
            }
        },
    };
    Ok(replies::refuse(exchange, &call, &refusal, asked))
}

/// Waits for the turn of an unusual write. A refusal is counted.
pub(super) async fn permit<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    client: ClientKey,
    call: &CallInfo,
    bytes: usize,
) -> Result<Result<Permit, Refusal>, Ended> {
    let room = Room::Request(bytes + WRITE_OVERHEAD);
    if let Err(refusal) = exchange.submit(client, 0, WriteBody::Unusual, &room) {
        exchange.count(call, LaneLabel::Write, OutcomeLabel::Rejected);
        return Ok(Err(refusal));
    }
    match one_answer(exchange, call).await? {
        WriteAnswer::Permit(permit) => Ok(Ok(permit)),
        WriteAnswer::Refused(refusal) => {
            exchange.count(call, LaneLabel::Write, outcome::of_write(refusal.reason));
            Ok(Err(refusal))
        }
        // A write without a transaction has no member to answer with.
        WriteAnswer::Member(_) => Err(Ended::Closed),
    }
}

/// The answer to the one write under way.
async fn one_answer<B: Backend, IO: Stream>(
    exchange: &mut Exchange<B, IO>,
    call: &CallInfo,
) -> Result<WriteAnswer, Ended> {
    loop {
        match exchange.answers().await {
            Ok(mut answers) => {
                if let Some(delivery) = answers.pop_back() {
                    return Ok(delivery.answer);
                }
            }
            Err(ended) => {
                exchange.count(call, LaneLabel::Write, OutcomeLabel::Cancelled);
                return Err(ended);
            }
        }
    }
}
