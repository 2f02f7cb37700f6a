//! From the node's answer to the client's.

use std::sync::Arc;

use bytes::Bytes;
use pacing::Nanos;
use rpc::BroadcastMethod;

use super::answer::{self, Fullness, Verdict};
use super::api::WriteBody;
use super::commits::Waiter;
use super::job::{Job, Reply, hash_of};
use super::links::Answered;
use super::retained::Kept;
use super::worker::Worker;
use crate::metrics::UpstreamError;
use control::Refused;

impl Worker {
    /// Ends, keeps or repeats every job whose answer was read.
    pub(super) fn settle(&mut self, now: Nanos) {
        let mut answered = std::mem::take(&mut self.answered);
        for Answered {
            job,
            sent,
            member,
            verdict,
        } in answered.drain(..)
        {
            let took = now.saturating_sub(sent);
            self.metrics.upstream_request(job.class(), took);
            match verdict {
                Verdict::Accepted => self.accepted(job, member, now),
                Verdict::Full(fullness) => self.full(job, fullness, now),
                Verdict::Known if job.ambiguous => self.known(job, now),
                Verdict::Rejected | Verdict::Known | Verdict::Other => self.passed(&job, member),
            }
        }
        self.answered = answered;
    }

    /// CheckTx passed.
    fn accepted(&mut self, job: Job, member: Bytes, now: Nanos) {
        self.pacer.accepted(now, 1);
        self.count_forwarded(&job);
        if job.is_commit() {
            self.await_block(&job, member, now);
        } else {
            job.answer(member);
        }
        self.keep(job, now);
    }

    /// Remembers an accepted transaction until a block shows it.
    fn keep(&mut self, job: Job, now: Nanos) {
        let Job {
            client,
            body: WriteBody::Tx { tx, .. },
            mut reservation,
            ..
        } = job
        else {
            return;
        };
        reservation.shrink_to(tx.len());
        self.retained.keep(Kept {
            hash: hash_of(&tx),
            client,
            tx,
            accepted: now,
            reservation,
        });
    }

    /// A commit whose check passed waits for its block.
    pub(super) fn await_block(&mut self, job: &Job, check: Bytes, now: Nanos) {
        if let (Reply::To { outbox, tag }, Some(tx)) = (&job.reply, job.tx()) {
            let waiter = Waiter {
                outbox: Arc::clone(outbox),
                tag: *tag,
                check,
                deadline: now.saturating_add(self.config.fair.commit_timeout.into()),
            };
            self.commits.add(hash_of(tx), waiter);
        }
    }

    /// The mempool is full: nothing more is sent until it is not, and this one is offered again.
    fn full(&mut self, job: Job, fullness: Fullness, now: Nanos) {
        let (class, why) = match fullness {
            Fullness::Full { max } => (UpstreamError::Full, Refused::Full { max }),
            Fullness::Rechecking => (UpstreamError::Rechecking, Refused::Rechecking),
        };
        self.metrics.upstream_error(class);
        self.metrics.requeued(1);
        self.pacer.refused(now, why);
        self.back_off(job, now);
    }

    /// The node has a transaction whose first answer was lost. Whether its check passed is certain
    /// only when a block shows it.
    fn known(&mut self, job: Job, now: Nanos) {
        self.metrics.upstream_error(UpstreamError::Duplicate);
        match job.reply {
            Reply::To { .. } => self.confirming.push_back(job),
            Reply::Acknowledged | Reply::Again => {
                self.count_forwarded(&job);
                self.keep(job, now);
            }
        }
    }

    /// An admitted write has reached its end at the node. What is offered again has been counted
    /// when it was accepted the first time.
    pub(super) fn count_forwarded(&mut self, job: &Job) {
        self.forwarded += u64::from(!matches!(job.reply, Reply::Again));
    }

    /// Whatever the node said, said on.
    fn passed(&mut self, job: &Job, member: Bytes) {
        self.count_forwarded(job);
        match job.reply {
            Reply::To { .. } if job.is_commit() => job.answer(as_commit(job, &member)),
            Reply::To { .. } => job.answer(member),
            Reply::Acknowledged | Reply::Again => {
                self.broken_promises += 1;
                let answer = String::from_utf8_lossy(&member[..member.len().min(200)]).into_owned();
                self.log.refused_later(&answer);
            }
        }
    }
}

/// A refused check as `broadcast_tx_commit` shows it; errors carry its prefix
/// (`rpc/core/mempool.go`, v0.38.17: "error on broadcastTxCommit: %v").
fn as_commit(job: &Job, member: &[u8]) -> Bytes {
    if member.starts_with(br#""result":"#) {
        let hash = job.tx().map(|tx| hash_of(tx)).unwrap_or_default();
        return answer::committed(member, &hash, answer::NOT_EXECUTED, 0);
    }
    let Some(at) = find(member, DATA) else {
        return Bytes::copy_from_slice(member);
    };
    let (head, tail) = member.split_at(at + DATA.len());
    [head, b"error on broadcastTxCommit: ", tail]
        .concat()
        .into()
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

const DATA: &[u8] = br#""data":""#;

/// The answer to an acknowledged `broadcast_tx_async`.
pub(super) fn acknowledgement(body: &WriteBody) -> Option<Bytes> {
    match body {
        WriteBody::Tx {
            method: BroadcastMethod::Async,
            tx,
        } => Some(answer::accepted(&hash_of(tx))),
        _ => None,
    }
}
