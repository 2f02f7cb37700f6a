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
        answers.reverse();
        while let Some(answer) = answers.pop() {
            let NodeAnswer {
                mut job,
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
                AnswerKind::ApplicationFull => self.refused_by_application(job, now),
                AnswerKind::SequenceGap { expected } => {
                    self.behind_a_gap(job, member, expected, &answers);
                }
                AnswerKind::SequenceUsed if job.notes.is_counted_by_check => {
                    job.notes.is_counted_by_check = false;
                    self.reoffers
                        .refused_until_block(job, now, self.pacer.block_interval());
                }
                AnswerKind::Duplicate if job.ambiguous => self.duplicate(job, now),
                AnswerKind::Rejected
                | AnswerKind::SequenceUsed
                | AnswerKind::Duplicate
                | AnswerKind::Other => self.pass_on(&job, member),
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

    /// The application's own mempool takes nothing. Its check has counted the transaction's sequence all
    /// the same (`runTx` in the SDK's `baseapp/baseapp.go` inserts after the check has taken effect), so the
    /// same transaction is refused as used until a block resets that.
    fn refused_by_application(&mut self, mut job: Job, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Full);
        self.metrics.requeued(1);
        self.pacer.refused(Refused::Full { max: None });
        job.notes.is_counted_by_check = true;
        let interval = self.pacer.block_interval();
        self.reoffers.refused_until_block(job, now, interval);
    }

    /// Earlier transactions of the account are missing at the node. Where they are here, this one waits
    /// behind them; otherwise the client left them out.
    /// `unread` are the answers that have come and were not looked at yet.
    fn behind_a_gap(&mut self, mut job: Job, member: Bytes, expected: u64, unread: &[NodeAnswer]) {
        let Some(place) = job.place() else {
            return self.pass_on(&job, member);
        };
        let is_before = |other: &Job| other.is_before(&job, expected);
        let is_under_way =
            || self.connections.any(is_before) || unread.iter().any(|one| is_before(&one.job));
        let awaits_block = if self.reoffers.awaits_block(is_before) {
            true
        } else if self.reoffers.any(is_before) || is_under_way() {
            false
        } else if !self.retained.has_before(place, expected) {
            return self.pass_on(&job, member);
        } else if job.notes.is_behind_lost {
            // The node has them, and its checks do not count them before a block (`mempool.recheck`).
            true
        } else {
            // The node had accepted them, and has lost them since.
            job.notes.is_behind_lost = true;
            let lost = self.retained.take_before(place, expected);
            self.metrics.requeued(lost.len() as u64);
            lost.into_iter()
                .for_each(|job| self.reoffers.push_behind(job));
            false
        };
        self.metrics.upstream_error(UpstreamError::Sequence);
        self.metrics.requeued(1);
        if awaits_block {
            self.reoffers.await_block(job);
        } else {
            self.reoffers.push_behind(job);
        }
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
