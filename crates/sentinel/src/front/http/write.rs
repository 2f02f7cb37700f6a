//! Broadcasts over HTTP: into the write lane, and its answer back.

use super::exchange::{Exchange, Room};
use super::work::{Broadcast, CallInfo, Next};
use crate::front::backend::Backend;
use crate::front::queue::WRITE_OVERHEAD;
use crate::front::socket::{Ended, Stream};
use crate::lane::WriteAnswer;
use crate::metrics::OutcomeLabel;
use crate::respond::Asked;

impl<B: Backend, IO: Stream> Exchange<B, IO> {
    /// Puts a broadcast in plain form into the lane: whose answer is to be awaited, or how the
    /// connection goes on when it was refused.
    pub(super) fn broadcast(&mut self, write: Broadcast, asked: Asked) -> Result<CallInfo, Next> {
        let Broadcast { call, method, tx } = write;
        let room = Room::Request(tx.len() + WRITE_OVERHEAD);
        match self.submit(0, (method, tx), &room) {
            Ok(()) => Ok(call),
            Err(refusal) => Err(self.reject(&call, &refusal, asked)),
        }
    }

    /// Waits for the answer to a broadcast in plain form.
    pub(super) async fn finish(&mut self, call: CallInfo, asked: Asked) -> Result<Next, Ended> {
        let answer = self.one_answer(&call).await?;
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
