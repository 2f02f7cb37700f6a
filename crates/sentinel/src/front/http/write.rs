//! Broadcasts over HTTP: into the write lane, and its answer back.

use super::exchange::{Exchange, Room};
use super::work::{Broadcast, CallInfo, Next, held_bytes};
use crate::front::backend::Backend;
use crate::front::overhead::Overhead;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::{Permit, WriteAnswer, WriteBody};
use crate::metrics::OutcomeLabel;
use crate::refusal::Refusal;
use crate::respond::Asked;
use crate::upstream::ReadRequest;

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Puts a broadcast in plain form into the lane: whose answer is to be awaited, or how the
    /// connection goes on when it was refused.
    pub(super) fn broadcast(&mut self, write: Broadcast, asked: Asked) -> Result<CallInfo, Next> {
        let Broadcast { call, method, tx } = write;
        let room = Room::Request(tx.len() + WRITE_OVERHEAD);
        match self.submit(0, WriteBody::Tx { method, tx }, &room) {
            Ok(()) => Ok(call),
            Err(refusal) => Err(self.reject(&call, &refusal, asked)),
        }
    }

    /// Waits for the answer to a broadcast in plain form.
    pub(super) async fn finish(
        &mut self,
        call: CallInfo,
        asked: Asked,
        mut overhead: Overhead,
    ) -> Result<Next, Ended> {
        overhead.pause();
        let answer = self.one_answer(&call).await?;
        overhead.resume();
        let next = match answer {
            WriteAnswer::Member(member) => {
                self.count(&call, OutcomeLabel::Forwarded);
                self.member(&call, &member, asked)
            }
            WriteAnswer::Refused(refusal) => {
                self.count(&call, OutcomeLabel::of_write(refusal.reason));
                self.refuse(&call, &refusal, asked)
            }
            // Only unusual writes are given one; without it nothing is lost.
            WriteAnswer::Permit(_) => return Err(Ended::Closed),
        };
        if overhead.is_on() {
            self.flush().await?;
            overhead.end(self.metrics());
        }
        Ok(next)
    }

    /// The permit for a write that only the node can answer, once its turn has come. A refusal is counted.
    pub(super) async fn permit(
        &mut self,
        call: &CallInfo,
        request: &ReadRequest,
    ) -> Result<Result<Permit, Refusal>, Ended> {
        let room = Room::Request(held_bytes(request) + WRITE_OVERHEAD);
        let (outcome, refusal) = match self.submit(0, WriteBody::Unusual, &room) {
            Err(refusal) => (OutcomeLabel::Rejected, refusal),
            Ok(()) => match self.one_answer(call).await? {
                WriteAnswer::Permit(permit) => return Ok(Ok(permit)),
                WriteAnswer::Refused(refusal) => (OutcomeLabel::of_write(refusal.reason), refusal),
                // A write without a transaction has no member to answer with.
                WriteAnswer::Member(_) => return Err(Ended::Closed),
            },
        };
        self.count(call, outcome);
        Ok(Err(refusal))
    }

    /// The answer to the one write under way.
    async fn one_answer(&mut self, call: &CallInfo) -> Result<WriteAnswer, Ended> {
        loop {
            match self.answers().await {
                Ok(mut answers) => {
                    if let Some(delivery) = answers.pop_back() {
                        return Ok(delivery.answer);
                    }
                }
                Err(ended) => {
                    self.count(call, OutcomeLabel::Cancelled);
                    return Err(ended);
                }
            }
        }
    }
}
