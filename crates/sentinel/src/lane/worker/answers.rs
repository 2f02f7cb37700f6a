//! From the node's answer to the client's.

use bytes::Bytes;
use control::Refused;
use pacing::Nanos;
use tracing::warn;

use super::Worker;
use crate::lane::answer::{self, AnswerKind};
use crate::lane::connections::NodeAnswer;
use crate::lane::job::{Job, Recipient, TxHash};
use crate::metrics::UpstreamError;
use crate::upstream::Version;

impl Worker {
    /// Ends, keeps or repeats every job whose answer was read.
    pub(super) fn settle(&mut self, now: Nanos) {
        let mut answers = std::mem::take(&mut self.answers);
        self.connections.take_answers(&mut answers);
        for answer in answers.drain(..) {
            let NodeAnswer {
                job,
                sent,
                member,
                kind,
            } = answer;
            let took = now.saturating_sub(sent);
            self.metrics.upstream_request(job.class(), took);
            match kind {
                AnswerKind::Accepted => self.accepted(job, member, sent, now),
                AnswerKind::Refused(why) => self.refused(job, why, now),
                AnswerKind::Duplicate if job.ambiguous => self.duplicate(job, now),
                AnswerKind::Rejected | AnswerKind::Duplicate | AnswerKind::Other => {
                    self.pass_on(&job, member, now);
                }
            }
        }
        self.answers = answers;
        self.commits.answer_due(&self.nodes);
    }

    /// CheckTx passed.
    fn accepted(&mut self, job: Job, member: Bytes, sent: Nanos, now: Nanos) {
        self.pacer.accepted(now, 1);
        self.answer_check(&job, member, sent, now);
        self.retained.keep(job, now);
    }

    /// Answers a write whose check passed; a commit waits for its block.
    fn answer_check(&mut self, job: &Job, member: Bytes, sent: Nanos, now: Nanos) {
        self.count_forwarded(job);
        if job.is_commit() {
            self.commits.add(job, member, sent, now);
        } else {
            job.answer(member);
        }
    }

    /// The mempool takes nothing: nothing more is sent until it does, and this one is offered again.
    fn refused(&mut self, job: Job, why: Refused, now: Nanos) {
        self.metrics.upstream_error(match why {
            Refused::Full { .. } => UpstreamError::Full,
            Refused::Rechecking => UpstreamError::Rechecking,
            Refused::TimedOut => UpstreamError::Timeout,
        });
        self.metrics.requeued(1);
        self.pacer.refused(now, why);
        self.reoffers.refused(job, now);
    }

    /// The node has a transaction whose first answer was lost. Whether its check passed is certain
    /// only when a block shows it.
    fn duplicate(&mut self, job: Job, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Duplicate);
        if matches!(job.recipient, Recipient::Client { .. }) {
            self.reoffers.await_confirmation(job);
        } else {
            self.count_forwarded(&job);
            self.retained.keep(job, now);
        }
    }

    /// Blocks show transactions whose answers were lost: so their checks passed.
    pub(super) fn answer_shown(&mut self, shown: Vec<(TxHash, Job)>, now: Nanos) {
        for (hash, job) in shown {
            self.answer_check(&job, answer::accepted(&hash), now, now);
        }
    }

    /// An admitted write has reached its end at the node.
    fn count_forwarded(&mut self, job: &Job) {
        self.forwarded += u64::from(job.is_counted());
    }

    /// The version of the node that takes the writes.
    fn version(&self) -> Version {
        let version = self.active.and_then(|node| self.nodes.version(node));
        version.unwrap_or_default()
    }

    /// Passes on whatever else the node answered.
    fn pass_on(&mut self, job: &Job, member: Bytes, now: Nanos) {
        self.count_forwarded(job);
        match &job.recipient {
            Recipient::Client { .. } if job.is_commit() => {
                let hash = job.hash().unwrap_or_default();
                job.answer(answer::refused_commit(self.version(), &hash, &member));
            }
            Recipient::Client { .. } => job.answer(member),
            Recipient::Acknowledged | Recipient::AcceptedBefore => {
                self.later_refusals.log(&member, now);
            }
        }
    }
}

/// Log lines about transactions that were acknowledged and that the node refused later: at most one
/// a second.
#[derive(Debug, Default)]
pub(super) struct LaterRefusals {
    last: Option<Nanos>,
    not_logged: u64,
}

impl LaterRefusals {
    fn log(&mut self, member: &[u8], now: Nanos) {
        let recent = |last| now.saturating_sub(last) < Nanos::from_secs(1);
        if self.last.is_some_and(recent) {
            self.not_logged += 1;
            return;
        }
        self.last = Some(now);
        let not_logged = std::mem::take(&mut self.not_logged);
        let answer = String::from_utf8_lossy(&member[..member.len().min(200)]);
        warn!(
            %answer,
            not_logged, "the node refused a transaction that was acknowledged before"
        );
    }
}
