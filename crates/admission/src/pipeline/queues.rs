//! Where transactions wait, and what decides where.

use std::collections::{HashSet, VecDeque};

use super::orphans::OrphanPool;
use super::{Counters, Orphans, Settings};
use crate::admit::{Admit, Outcome, Refused, Verdict, VerdictOf};
use crate::filter::Filter;

/// So many deferred transactions, and all that arrive are deferred too: what conflicts is checked against
/// few others then.
const DEFER_ALL_ABOVE: usize = 1_000;
/// Deferred transactions that an epoch begins with, at least.
const LEAST_RETRIED: usize = 10_000;

/// The queues of a pipeline, under one lock. A transaction is in one of them, or with a validator.
pub(super) struct Queues<A: Admit, F> {
    /// The keys of what is in `incoming`, with validators, or accepted.
    filter: F,
    incoming: VecDeque<A::Tx>,
    deferred: VecDeque<A::Tx>,
    orphans: OrphanPool<A::Id, A::Tx>,
    pub(super) accepted: Vec<(A::Tx, A::Checked)>,
    /// Transactions with validators.
    checking: usize,
    /// Validators that wait for work: without any there is none to wake.
    pub(super) waiting_validators: usize,
    /// A validator has gone to commit.
    is_committing: bool,
    /// All that are under way, in whatever queue: it bounds them together.
    under_way: HashSet<A::Id>,
    /// Transactions in a commit: (24 · old + new) / 25.
    mean_commit: f64,
    pub(super) counters: Counters,
    pub(super) is_closed: bool,
    settings: Settings,
}

/// A transaction that a validator checked, and what it found; nothing if the check panicked. The outcome of an
/// accepted one has been reported.
pub(super) type Found<A> = (<A as Admit>::Tx, Option<VerdictOf<A>>);

/// What a validator does next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Work {
    /// Checks what waits.
    Check,
    /// Commits: nothing else can go on.
    Commit,
}

impl<A: Admit, F: Filter<A::Key>> Queues<A, F> {
    pub(super) fn new(filter: F, settings: Settings) -> Self {
        Self {
            filter,
            incoming: VecDeque::new(),
            deferred: VecDeque::new(),
            orphans: OrphanPool::new(settings.orphans),
            accepted: Vec::new(),
            checking: 0,
            waiting_validators: 0,
            is_committing: false,
            under_way: HashSet::new(),
            mean_commit: 0.0,
            counters: Counters::ZERO,
            is_closed: false,
            settings,
        }
    }

    /// Takes in a transaction that arrived, with its keys.
    pub(super) fn arrive(
        &mut self,
        tx: A::Tx,
        id: A::Id,
        keys: impl IntoIterator<Item = A::Key>,
    ) -> Result<(), Refused> {
        if self.is_closed {
            return Err(Refused::Stopped);
        }
        if self.under_way.contains(&id) {
            self.counters.duplicates += 1;
            return Err(Refused::Duplicate);
        }
        if self.under_way.len() >= self.settings.capacity {
            self.counters.full += 1;
            return Err(Refused::Full);
        }
        self.under_way.insert(id);
        self.counters.submitted += 1;
        if self.deferred.len() > DEFER_ALL_ABOVE {
            self.defer(tx);
        } else {
            self.sort(tx, keys);
        }
        Ok(())
    }

    /// Puts a transaction where its keys allow. Those claimed before one that is taken stay claimed: that
    /// costs a delay at worst.
    fn sort(&mut self, tx: A::Tx, keys: impl IntoIterator<Item = A::Key>) {
        if keys.into_iter().all(|key| self.filter.claim(&key)) {
            self.incoming.push_back(tx);
        } else {
            self.defer(tx);
        }
    }

    fn retry(&mut self, admit: &A, tx: A::Tx) {
        let keys: Vec<A::Key> = admit.spends(&tx).collect();
        self.sort(tx, keys);
    }

    fn defer(&mut self, tx: A::Tx) {
        self.counters.deferred += 1;
        self.deferred.push_back(tx);
    }

    /// What a validator that asks begins with now, if there is anything to do.
    pub(super) fn begin(&mut self) -> Option<Work> {
        if !self.incoming.is_empty() {
            return Some(Work::Check);
        }
        let commits = self.waits_for_commit();
        self.is_committing |= commits;
        commits.then_some(Work::Commit)
    }

    /// Whether a validator that waits has something to do.
    pub(super) fn wants_validator(&self) -> bool {
        self.waiting_validators > 0 && (!self.incoming.is_empty() || self.waits_for_commit())
    }

    /// A validator's share of what waits, at most so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<A::Tx> {
        let share = self
            .incoming
            .len()
            .div_ceil(self.settings.validators.max(1));
        let share = share.min(most);
        self.checking += share;
        self.incoming.drain(..share).collect()
    }

    /// Carries out what a validator found, except for what it has reported already. Gives the transactions whose
    /// end has to be reported.
    pub(super) fn settle(
        &mut self,
        admit: &A,
        found: Vec<Found<A>>,
    ) -> Vec<(A::Tx, Outcome<'static, A>)> {
        self.checking -= found.len();
        let mut told = Vec::new();
        for (tx, verdict) in found {
            let (tx, outcome, counter) = match verdict {
                Some(Verdict::Accepted(checked)) => {
                    self.counters.accepted += 1;
                    self.accepted.push((tx, checked));
                    continue;
                }
                Some(Verdict::Missing(parent)) => match self.misses(tx, parent) {
                    Some((parent, orphan)) => (
                        orphan,
                        Outcome::Orphaned(parent),
                        &mut self.counters.orphaned,
                    ),
                    None => continue,
                },
                Some(Verdict::Rejected(why)) => {
                    (tx, Outcome::Rejected(why), &mut self.counters.rejected)
                }
                None => (tx, Outcome::Abandoned, &mut self.counters.abandoned),
            };
            *counter += 1;
            self.leave(admit, &admit.id(&tx));
            told.push((tx, outcome));
        }
        told
    }

    /// Whether a commit is the only thing that can go on, and no thread has gone to make it.
    fn waits_for_commit(&self) -> bool {
        let is_idle = self.incoming.is_empty() && self.checking == 0;
        is_idle && !self.is_committing && self.has_committable()
    }

    /// Whether a commit would do anything.
    pub(super) fn has_committable(&self) -> bool {
        !self.accepted.is_empty() || !self.deferred.is_empty()
    }

    /// A transaction spends an unknown output: it waits, or it comes back as an orphan together with one
    /// that it displaced.
    fn misses(&mut self, tx: A::Tx, parent: A::Id) -> Option<(A::Id, A::Tx)> {
        let waits = match self.settings.keep {
            Orphans::All => true,
            Orphans::OfKnown => self.under_way.contains(&parent),
        };
        if !waits {
            return Some((parent, tx));
        }
        self.counters.waited += 1;
        self.orphans.add(parent, tx)
    }

    /// A transaction is under way no more. Its children are tried again: they find it in the view, or are
    /// reported as orphans.
    fn leave(&mut self, admit: &A, id: &A::Id) {
        self.under_way.remove(id);
        for child in self.orphans.release(id) {
            self.retry(admit, child);
        }
    }

    /// Begins an epoch after a commit of these.
    pub(super) fn next_epoch(&mut self, admit: &A, committed: &[A::Id]) {
        self.counters.commits += 1;
        self.is_committing = false;
        self.mean_commit = (24.0 * self.mean_commit + committed.len() as f64) / 25.0;
        self.filter.clear();
        self.deferred.append(&mut self.incoming);
        // The first needs no claim, since nothing else is claimed: without this rule a transaction whose
        // own keys collide would be deferred for ever.
        if let Some(first) = self.deferred.pop_front() {
            for key in admit.spends(&first) {
                self.filter.claim(&key);
            }
            self.incoming.push_back(first);
        }
        let retried = LEAST_RETRIED.max((2.0 * self.mean_commit) as usize);
        for tx in self.take_deferred(retried) {
            self.retry(admit, tx);
        }
        for id in committed {
            self.leave(admit, id);
        }
    }

    fn take_deferred(&mut self, most: usize) -> Vec<A::Tx> {
        let most = most.min(self.deferred.len());
        self.deferred.drain(..most).collect()
    }

    /// Tries every orphan again, for a view that changed otherwise than by a commit.
    pub(super) fn retry_orphans(&mut self, admit: &A) {
        for orphan in self.orphans.release_all() {
            self.retry(admit, orphan);
        }
    }

    /// Takes out everything that is not decided.
    pub(super) fn abandon(&mut self) -> Vec<A::Tx> {
        self.under_way.clear();
        let mut rest = self.orphans.release_all();
        rest.extend(self.incoming.drain(..).chain(self.deferred.drain(..)));
        self.counters.abandoned += rest.len() as u64;
        rest
    }
}
