//! From the node's answer to the client's.

use bytes::Bytes;
use control::Refused;
use pacing::Nanos;
use wire::encoding::hex_text;

use super::Worker;
use crate::lane::answer::{self, AnswerKind};
use crate::lane::commits::Commits;
use crate::lane::job::{Job, Recipient};
use crate::lane::pool::{AloneError, NodeAnswer};
use crate::lane::writes::{Event, Gap, WriteId};
use crate::metrics::UpstreamError;
use crate::refusal::{Reason, Refusal};
use crate::upstream::Version;

impl Worker {
    /// Ends, keeps or repeats every write whose answer was read.
    pub(super) fn settle(&mut self, now: Nanos) {
        let mut answers = std::mem::take(&mut self.answers);
        self.pool.take_answers(&mut answers);
        for answer in answers.drain(..) {
            self.settle_one(answer, now);
        }
        self.answers = answers;
        self.writes.forget_oldest(now);
        self.commits.answer_due(&self.nodes);
    }

    fn settle_one(&mut self, answer: NodeAnswer, now: Nanos) {
        let NodeAnswer {
            write,
            sent,
            member,
            kind,
        } = answer;
        let Some(job) = self.writes.job_mut(write) else {
            return;
        };
        self.metrics
            .upstream_request(job.class(), now.saturating_sub(sent));
        self.pacer.answered(now, sent);
        self.last_answer = now;
        // Whatever the node answers after it has committed the write meanwhile: nothing that comes later would end this write.
        let is_second = job.may_be_there() && kind != AnswerKind::Accepted;
        if is_second && self.ends_as_shown(write, now) {
            return;
        }
        let Some(job) = self.writes.job_mut(write) else {
            return;
        };
        match kind {
            AnswerKind::Accepted => self.accepted(write, member, sent, now),
            AnswerKind::Refused(why) => self.refused(write, why, now),
            AnswerKind::ApplicationFull => self.refused_by_application(write, now),
            AnswerKind::SequenceGap { expected } => {
                self.behind_a_gap(write, member, expected, now);
            }
            AnswerKind::SequenceUsed if job.notes.is_counted_by_check => {
                job.notes.is_counted_by_check = false;
                self.hold_for_block(write, now);
            }
            AnswerKind::Duplicate if job.may_be_there() => self.duplicate(write, now),
            AnswerKind::SequenceUsed | AnswerKind::Duplicate | AnswerKind::Other => {
                self.pass_on(write, member, now);
            }
        }
    }

    /// CheckTx passed.
    fn accepted(&mut self, write: WriteId, member: Bytes, sent: Nanos, now: Nanos) {
        self.pacer.accepted();
        let Some(job) = self.writes.job_mut(write) else {
            return;
        };
        let is_committed = self.commits.has_shown(&job.hash(), sent);
        let is_counted = answer_check(&mut self.commits, job, member, sent, now);
        self.forwarded += u64::from(is_counted);
        if is_committed {
            self.writes.apply(write, Event::Answered, now);
        } else {
            self.writes.accept(write, now);
        }
    }

    /// The mempool takes nothing: nothing more is sent until it does, and this one is offered again.
    fn refused(&mut self, write: WriteId, why: Refused, now: Nanos) {
        self.metrics.upstream_error(match why {
            Refused::Full { .. } => UpstreamError::Full,
            Refused::Rechecking => UpstreamError::Rechecking,
            Refused::TimedOut => UpstreamError::Timeout,
        });
        self.metrics.requeued.inc();
        self.pacer.refused(why);
        let until = now.saturating_add(self.pacer.ask_again_after());
        self.writes.hold_until(until);
        self.writes.apply(write, Event::Full, now);
    }

    /// The application's own mempool takes nothing. Its check has counted the transaction's sequence all
    /// the same (`runTx` in the SDK's `baseapp/baseapp.go` inserts after the check has taken effect), so the
    /// same transaction is refused as used until a block resets that.
    fn refused_by_application(&mut self, write: WriteId, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Full);
        self.metrics.requeued.inc();
        self.pacer.refused(Refused::Full { max: None });
        if let Some(job) = self.writes.job_mut(write) {
            job.notes.is_counted_by_check = true;
        }
        self.hold_for_block(write, now);
    }

    fn hold_for_block(&mut self, write: WriteId, now: Nanos) {
        let hold = self.block_hold();
        self.writes.hold_for_block(now.saturating_add(hold));
        self.writes.apply(write, Event::Full, now);
    }

    /// Earlier transactions of the account are missing at the node. Where they are here, this one waits
    /// behind them; otherwise the client left them out.
    fn behind_a_gap(&mut self, write: WriteId, member: Bytes, expected: u64, now: Nanos) {
        let event = match self.writes.gap(write, expected) {
            Gap::OfClient => return self.pass_on(write, member, now),
            Gap::OnTheWay => Event::Behind,
            Gap::AwaitsBlock => Event::BehindBlock,
            Gap::Lost => {
                if let Some(job) = self.writes.job_mut(write) {
                    job.notes.is_behind_lost = true;
                }
                let lost = self.writes.offer_before(write, expected, now);
                self.metrics.requeued.inc_by(lost as u64);
                Event::Behind
            }
        };
        self.metrics.upstream_error(UpstreamError::Sequence);
        self.metrics.requeued.inc();
        self.writes.apply(write, event, now);
    }

    /// The node has a transaction whose first answer was lost. Whether its check passed is certain
    /// only when a block shows it.
    fn duplicate(&mut self, write: WriteId, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Duplicate);
        let Some(job) = self.writes.job_mut(write) else {
            return;
        };
        if matches!(job.recipient, Recipient::Client { .. }) {
            self.writes.apply(write, Event::AlreadyThere, now);
            return;
        }
        let member = answer::accepted(&job.hash());
        self.forwarded += u64::from(job.answer(member));
        self.writes.accept(write, now);
    }

    /// Blocks show transactions whose answers were lost: so their checks passed.
    pub(super) fn answer_shown(&mut self, shown: Vec<Job>, now: Nanos) {
        for mut job in shown {
            let member = answer::accepted(&job.hash());
            let is_counted = answer_check(&mut self.commits, &mut job, member, now, now);
            self.forwarded += u64::from(is_counted);
        }
    }

    /// Ends a write under way whose answer is lost, or is the second, if a block has shown it since it was sent: a node that
    /// was started again would take it a second time, and no other block shows it.
    pub(super) fn ends_as_shown(&mut self, write: WriteId, now: Nanos) -> bool {
        let sent = self.writes.entered_at(write);
        let shown = sent.filter(|(hash, sent)| self.commits.has_shown(hash, *sent));
        let Some((hash, sent)) = shown else {
            return false;
        };
        if let Some(mut job) = self.writes.apply(write, Event::Answered, now) {
            let member = answer::accepted(&hash);
            let is_counted = answer_check(&mut self.commits, &mut job, member, sent, now);
            self.forwarded += u64::from(is_counted);
        }
        true
    }

    /// The version of the node that takes the writes.
    fn version(&self) -> Version {
        let version = self.active.and_then(|node| self.nodes.version(node));
        version.unwrap_or_default()
    }

    /// Passes on whatever else the node answered.
    fn pass_on(&mut self, write: WriteId, member: Bytes, now: Nanos) {
        let version = self.version();
        let Some(mut job) = self.writes.apply(write, Event::Answered, now) else {
            return;
        };
        let member = match job.recipient {
            Recipient::Client { .. } if job.is_commit() => {
                answer::refused_commit(version, &job.hash(), &member)
            }
            Recipient::Answered => return self.acknowledged.refused_later(&member),
            Recipient::Client { .. } | Recipient::Acknowledged(_) | Recipient::Shadow(..) => member,
        };
        self.forwarded += u64::from(job.answer(member));
    }

    /// A write in a request of its own has no answer of the node.
    pub(super) fn failed_alone(&mut self, write: WriteId, error: &AloneError, now: Nanos) {
        self.metrics.upstream_error(match error {
            AloneError::NotSent(_) => UpstreamError::Connect,
            AloneError::Status(_) | AloneError::Unanswered(_) => UpstreamError::Broken,
        });
        if self.ends_as_shown(write, now) {
            return;
        }
        let is_unknown = matches!(error, AloneError::Unanswered(_));
        let is_final = matches!(error, AloneError::Status(_));
        let goes_on = |job: &Job| job.is_acknowledged() && job.notes.breaks < MOST_BREAKS;
        if !is_final && self.writes.job(write).is_some_and(goes_on) {
            // No client waits for it, but it was acknowledged: it is offered again as after any other break.
            self.writes.apply(write, Event::Broke, now);
            return;
        }
        let Some(mut job) = self.writes.apply(write, Event::Answered, now) else {
            return;
        };
        job.notes.breaks += u8::from(is_unknown);
        let text = if is_unknown {
            let hash = hex_text(&job.hash());
            format!("{error}; whether it has the transaction is unknown (hash: {hash})")
        } else {
            error.to_string()
        };
        self.forwarded += u64::from(job.is_open());
        job.refuse(Refusal::new(Reason::Upstream, text));
    }
}

/// Answers a write whose check passed; a commit waits for its block. Whether there was no answer before.
fn answer_check(
    commits: &mut Commits,
    job: &mut Job,
    member: Bytes,
    sent: Nanos,
    now: Nanos,
) -> bool {
    if !job.is_commit() {
        return job.answer(member);
    }
    commits.add(job, member, sent, now);
    job.close()
}

/// An acknowledged write that was under way at so many breaks is given up.
const MOST_BREAKS: u8 = 8;
