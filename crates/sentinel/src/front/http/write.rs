//! Broadcasts over HTTP: into the write lane, and its answer back.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;

use super::answer::Tail;
use super::plan::{Forward, PlainWrite, To};
use super::{Connection, Next, full};
use crate::front::backend::Backend;
use crate::front::overhead::Overhead;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::{Delivery, Permit, WriteAnswer, WriteBody};
use crate::metrics::{LaneLabel, OutcomeLabel};
use crate::refusal::{Reason, Refusal};

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// Puts a broadcast in plain form into the lane: who waits for its answer, or how the
    /// connection goes on when it was refused.
    pub(super) fn submit(&mut self, write: PlainWrite, tail: Tail) -> Result<To, Next> {
        let PlainWrite {
            client,
            to,
            method,
            tx,
        } = write;
        let reserved = self.socket.take_reserved(tx.len() + WRITE_OVERHEAD);
        let submitted = match reserved {
            Some(room) => self
                .queue
                .submit(client, 0, WriteBody::Tx { method, tx }, room),
            None => Err(full()),
        };
        match submitted {
            Ok(()) => Ok(to),
            Err(refusal) => {
                self.count(&to, LaneLabel::Write, OutcomeLabel::Rejected);
                Err(self.refuse(&to, &refusal, tail))
            }
        }
    }

    /// Waits for the answer to a broadcast in plain form.
    pub(super) async fn written(
        &mut self,
        to: To,
        tail: Tail,
        mut overhead: Overhead,
    ) -> Result<Next, Ended> {
        overhead.pause();
        let answer = self.one_answer(&to).await?;
        overhead.resume();
        let next = self.take_answer(&to, &answer, tail)?;
        if overhead.is_on() {
            let patience = self.front.config.limits.write_timeout;
            self.socket.flush(patience).await?;
            overhead.end(&self.front.metrics);
        }
        Ok(next)
    }

    fn take_answer(&mut self, to: &To, answer: &WriteAnswer, tail: Tail) -> Result<Next, Ended> {
        match answer {
            WriteAnswer::Member(member) => {
                self.count(to, LaneLabel::Write, OutcomeLabel::Forwarded);
                Ok(self.member(to, member, tail))
            }
            WriteAnswer::Refused(refusal) => {
                self.count(to, LaneLabel::Write, outcome_of(refusal.reason));
                Ok(self.refuse(to, refusal, tail))
            }
            // Only unusual writes are given one; without it nothing is lost.
            WriteAnswer::Permit(_) => Err(Ended::Closed),
        }
    }

    /// Serves a broadcast that the node alone can answer: it is forwarded when its turn comes.
    pub(super) async fn unusual(&mut self, forward: Forward, tail: Tail) -> Result<Next, Ended> {
        let Forward {
            client,
            to,
            request,
        } = forward;
        let refusal = match self.permit(client, &to, request.body.len()).await? {
            Err(refusal) => refusal,
            Ok(_permit) => {
                let backend = self.front.backend.clone();
                match self.unless_gone(backend.pass(client, request)).await? {
                    Ok(answer) => {
                        self.count(&to, LaneLabel::Write, OutcomeLabel::Forwarded);
                        self.front.metrics.upstream_request(to.class, answer.took);
                        return self.stream(&to, answer, tail).await;
                    }
                    Err(refusal) => {
                        self.count(&to, LaneLabel::Write, OutcomeLabel::Lost);
                        refusal
                    }
                }
            }
        };
        Ok(self.refuse(&to, &refusal, tail))
    }

    /// Waits for the turn of an unusual write.
    pub(super) async fn permit(
        &mut self,
        client: fairq::ClientKey,
        to: &To,
        bytes: usize,
    ) -> Result<Result<Permit, Refusal>, Ended> {
        let reserved = self.socket.take_reserved(bytes + WRITE_OVERHEAD);
        let submitted = match reserved {
            Some(room) => self.queue.submit(client, 0, WriteBody::Unusual, room),
            None => Err(full()),
        };
        if let Err(refusal) = submitted {
            self.count(to, LaneLabel::Write, OutcomeLabel::Rejected);
            return Ok(Err(refusal));
        }
        match self.one_answer(to).await? {
            WriteAnswer::Permit(permit) => Ok(Ok(permit)),
            WriteAnswer::Refused(refusal) => {
                self.count(to, LaneLabel::Write, outcome_of(refusal.reason));
                Ok(Err(refusal))
            }
            // A write without a transaction has no member to answer with.
            WriteAnswer::Member(_) => Err(Ended::Closed),
        }
    }

    /// The answer to the one write under way.
    async fn one_answer(&mut self, to: &To) -> Result<WriteAnswer, Ended> {
        loop {
            match self.answers().await {
                Ok(mut answers) => {
                    if let Some(delivery) = answers.pop_back() {
                        return Ok(delivery.answer);
                    }
                }
                Err(ended) => {
                    self.count(to, LaneLabel::Write, OutcomeLabel::Cancelled);
                    return Err(ended);
                }
            }
        }
    }

    /// Every answer that is there, once one is; or the end of a client that hangs up first.
    pub(super) async fn answers(&mut self) -> Result<VecDeque<Delivery>, Ended> {
        poll_fn(|context| {
            if let Poll::Ready(answers) = self.queue.poll_answers(context) {
                return Poll::Ready(Ok(answers));
            }
            self.socket.poll_gone(context).map(Err)
        })
        .await
    }
}

/// How a write ended that was refused after it had been queued.
pub(crate) const fn outcome_of(reason: Reason) -> OutcomeLabel {
    match reason {
        Reason::QueueTimeout => OutcomeLabel::Expired,
        Reason::Upstream | Reason::Shutdown => OutcomeLabel::Lost,
        _ => OutcomeLabel::Rejected,
    }
}
