//! From the node's answer to the client's.

use bytes::Bytes;
use control::Refused;
use pacing::Nanos;

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
            self.pacer.answered(now, sent);
            self.last_answer = now;
            self.metrics.upstream_request(job.class(), took);
            match kind {
                AnswerKind::Accepted => self.accepted(job, member, sent, now),
                AnswerKind::Refused(why) => self.refused(job, why, now),
                AnswerKind::Duplicate if job.ambiguous => self.duplicate(job, now),
                AnswerKind::Rejected | AnswerKind::Duplicate | AnswerKind::Other => {
                    self.pass_on(&job, member);
                }
            }
        }
        self.answers = answers;
        self.commits.answer_due(&self.nodes);
    }

    /// CheckTx passed.
    fn accepted(&mut self, job: Job, member: Bytes, sent: Nanos, now: Nanos) {
        self.pacer.accepted(1);
        self.answer_check(&job, member, sent, now);
        let is_committed = (job.hash()).is_some_and(|hash| self.commits.has_shown(&hash, sent));
        if !is_committed {
            self.retained.keep(job, now);
        }
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
        self.pacer.refused(why);
        let until = now.saturating_add(self.pacer.ask_again_after());
        self.reoffers.refused(job, until);
    }

    /// The node has a transaction whose first answer was lost. Whether its check passed is certain
    /// only when a block shows it.
    fn duplicate(&mut self, job: Job, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Duplicate);
        if matches!(job.recipient, Recipient::Client { .. }) {
            self.reoffers.await_confirmation(job);
        } else {
            self.count_forwarded(&job);
            job.answer(answer::accepted(&job.hash().unwrap_or_default()));
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
    fn pass_on(&mut self, job: &Job, member: Bytes) {
        self.count_forwarded(job);
        match &job.recipient {
            Recipient::Client { .. } if job.is_commit() => {
                let hash = job.hash().unwrap_or_default();
                job.answer(answer::refused_commit(self.version(), &hash, &member));
            }
            Recipient::AcceptedBefore => self.acknowledged.refused_later(&member),
            Recipient::Client { .. } | Recipient::Acknowledged(_) => job.answer(member),
        }
    }
}
