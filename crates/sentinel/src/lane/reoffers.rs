//! What happens to writes whose connection broke, and to transactions a restarted node has lost.
//!
//! Nothing is sent again before it is known what the node has: the blocks of the outage are read,
//! and one more block is awaited, because a restarted node may still commit what it had proposed.
//! What they show is answered; the rest is offered again in the old order, before anything else.
//! A node that kept its mempool answers "already exists in cache", which does no harm.

use std::collections::HashSet;

use pacing::Nanos;
use rpc::{BroadcastMethod, FollowedBlock};

use super::answer;
use super::api::WriteBody;
use super::job::{Job, Reply, TxHash, hash_of};
use super::worker::Worker;
use crate::metrics::ReconnectCause;

/// The time between a break and the moment from which it is known what the node has.
#[derive(Debug)]
pub(super) struct Recovery {
    /// Set when the connections are up again.
    reopened: Option<Nanos>,
}

/// A full mempool: what it refused waits here, in order.
#[derive(Debug)]
pub(super) struct BackOff {
    jobs: Vec<Job>,
    until: Nanos,
}

impl Worker {
    /// All connections are gone. Up => Recovering
    pub(super) fn broken(&mut self, reason: &str, cause: ReconnectCause) {
        self.fresh = None;
        let mut jobs = self.links.give_up();
        for job in &mut jobs {
            job.ambiguous = true;
        }
        let under_way = jobs.len();
        if let Some(back_off) = self.back_off.take() {
            jobs.extend(back_off.jobs);
        }
        // What was under way was sent before anything that waits to be sent again.
        for job in jobs.into_iter().rev() {
            self.resend.push_front(job);
        }
        self.pacer.connection_lost();
        self.metrics.reconnected(cause);
        self.recovery = Some(Recovery { reopened: None });
        self.log.broken(reason, under_way);
    }

    /// The connections are up again.
    pub(super) fn reopened(&mut self, now: Nanos) {
        let nothing_at_stake = self.resend.is_empty() && self.retained.len() == 0;
        match &mut self.recovery {
            Some(_) if nothing_at_stake => self.recovery = None,
            Some(recovery) => recovery.reopened = Some(now),
            None => {}
        }
    }

    /// Whether sending has to wait for knowledge.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// A block was seen: what it shows needs no further offer.
    pub(super) fn recover_from(&mut self, block: &FollowedBlock, now: Nanos) {
        if !self.resend.is_empty() || !self.confirming.is_empty() {
            let hashes: HashSet<&TxHash> = block.hashes.iter().collect();
            let mut shown = Vec::new();
            for list in [&mut self.resend, &mut self.confirming] {
                *list = std::mem::take(list)
                    .into_iter()
                    .filter_map(|job| match job.tx().map(|tx| hash_of(tx)) {
                        Some(hash) if hashes.contains(&hash) => {
                            shown.push((hash, job));
                            None
                        }
                        _ => Some(job),
                    })
                    .collect();
            }
            for (hash, job) in shown {
                self.shown(&hash, &job, now);
            }
        }
        if let Some(Recovery {
            reopened: Some(reopened),
        }) = self.recovery
            && block.observed > reopened
        {
            self.recovered(now);
        }
    }

    /// A block shows a transaction whose answer was lost: so its check passed.
    fn shown(&mut self, hash: &TxHash, job: &Job, now: Nanos) {
        self.count_forwarded(job);
        let check = answer::accepted(hash);
        if job.is_commit() {
            self.await_block(job, check, now);
        } else {
            job.answer(check);
        }
    }

    /// Recovering => Up, if the chain shows no block for so long that none is to be awaited.
    pub(super) fn recover_in_time(&mut self, now: Nanos) {
        if let Some(Recovery {
            reopened: Some(reopened),
        }) = self.recovery
            && now.saturating_sub(reopened) > NO_BLOCK
        {
            self.recovered(now);
        }
    }

    /// Recovering => Up: first what the node had accepted, then what was under way.
    fn recovered(&mut self, now: Nanos) {
        self.recovery = None;
        let again: Vec<Job> = self
            .retained
            .drain()
            .map(|kept| Job {
                client: kept.client,
                connection: 0,
                body: WriteBody::Tx {
                    method: BroadcastMethod::Sync,
                    tx: kept.tx,
                },
                arrived: kept.accepted,
                deadline: kept.accepted.saturating_add(OFFERED_AGAIN),
                ambiguous: true,
                reply: Reply::Again,
                reservation: kept.reservation,
            })
            .collect();
        self.log.recovered(again.len(), self.resend.len());
        self.pacer.forget_accepted(now);
        for job in again.into_iter().rev() {
            self.resend.push_front(job);
        }
    }

    /// The mempool is full: this job waits, and nothing is sent.
    pub(super) fn back_off(&mut self, job: Job, now: Nanos) {
        let back_off = self.back_off.get_or_insert_with(|| BackOff {
            jobs: Vec::new(),
            until: now.saturating_add(BACK_OFF),
        });
        back_off.jobs.push(job);
    }

    /// Goes on after a refusal once nothing is under way, so that order holds.
    pub(super) fn end_back_off(&mut self, now: Nanos) {
        if self.links.in_flight() > 0 || self.back_off.as_ref().is_none_or(|one| one.until > now) {
            return;
        }
        if let Some(back_off) = self.back_off.take() {
            for job in back_off.jobs.into_iter().rev() {
                self.resend.push_front(job);
            }
        }
    }

    /// When a back-off is over.
    pub(super) fn back_off_until(&self) -> Option<Nanos> {
        self.back_off.as_ref().map(|back_off| back_off.until)
    }

    /// A block makes room in a full mempool.
    pub(super) fn shorten_back_off(&mut self, now: Nanos) {
        if let Some(back_off) = &mut self.back_off {
            back_off.until = back_off.until.min(now);
        }
    }

    /// How many jobs wait to be offered again.
    pub(super) fn waiting_again(&self) -> usize {
        self.resend.len() + self.back_off.as_ref().map_or(0, |one| one.jobs.len())
    }
}

/// A chain that makes no empty blocks makes none while the node's mempool is empty.
const NO_BLOCK: Nanos = Nanos::from_secs(5);
/// A node is asked again this long after it said that it is full, or when it made a block.
const BACK_OFF: Nanos = Nanos::from_millis(250);
/// A transaction that no block shows for so long after its acceptance was dropped by the node for
/// a reason of its own (recheck, eviction).
pub(super) const OFFERED_AGAIN: Nanos = Nanos::from_secs(60);
