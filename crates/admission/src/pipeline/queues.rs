//! Where transactions wait, and what decides where.

use std::collections::{HashMap, HashSet, VecDeque};

use super::lines::Lines;
use super::lines::OrphanPool;
use super::{Counters, Settings};
use crate::admit::{Admit, Outcome, Refused, Verdict, VerdictOf};
use crate::filter::Filter;

/// Losers in a validator's share of transactions while others wait: a flood of conflicts takes an eighth of its time.
const LOSERS_SHARE: usize = 8;

/// The queues of a pipeline, under one lock. A transaction is in one of them, or with a validator.
pub(super) struct Queues<A: Admit, F> {
    /// The keys that transactions hold: those in `incoming`, with validators, accepted, or in a line for other keys.
    filter: F,
    /// They hold all their keys.
    incoming: VecDeque<A::Tx>,
    /// What they spend is accepted elsewhere: they hold nothing, and are checked after its commit.
    lost: Vec<A::Tx>,
    /// What they spend is spent. They hold nothing and are checked for the reason of their rejection.
    losers: VecDeque<A::Tx>,
    lines: Lines<A::Key, A::Tx>,
    orphans: OrphanPool<A::Id, A::Tx>,
    accepted: Vec<(A::Tx, A::Checked)>,
    /// Transactions with validators.
    checking: usize,
    /// Validators that wait for work: without any there is none to wake.
    pub(super) waiting_validators: usize,
    /// Readers that wait for what is checked or committed now.
    pub(super) waiting_readers: usize,
    /// A validator has gone to commit, or a thread commits.
    is_committing: bool,
    /// All that are under way, in whatever queue, which bounds them together; true for one that is accepted.
    under_way: HashMap<A::Id, bool>,
    pub(super) counters: Counters,
    pub(super) is_closed: bool,
    settings: Settings,
}

/// A transaction to be checked.
pub(super) struct Ready<Tx> {
    pub(super) tx: Tx,
    /// Whether it holds its keys, so that it may be accepted.
    pub(super) holds: bool,
}

/// A transaction that a validator checked, and what it found; nothing if the check panicked. The outcome of an
/// accepted one that holds its keys has been reported.
pub(super) type Found<A> = (Ready<<A as Admit>::Tx>, Option<VerdictOf<A>>);

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
            lost: Vec::new(),
            losers: VecDeque::new(),
            lines: Lines::new(),
            orphans: OrphanPool::new(settings.orphans),
            accepted: Vec::new(),
            checking: 0,
            waiting_validators: 0,
            waiting_readers: 0,
            is_committing: false,
            under_way: HashMap::new(),
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
        keys: Vec<A::Key>,
    ) -> Result<(), Refused> {
        if self.is_closed {
            return Err(Refused::Stopped);
        }
        if let Some(is_accepted) = self.under_way.get(&id) {
            self.counters.duplicates += 1;
            return Err(if *is_accepted {
                Refused::Accepted
            } else {
                Refused::Duplicate
            });
        }
        if self.under_way.len() >= self.settings.capacity {
            self.counters.full += 1;
            return Err(Refused::Full);
        }
        self.under_way.insert(id, false);
        self.counters.submitted += 1;
        self.counters.deferred += u64::from(self.sort(tx, keys));
        Ok(())
    }

    /// Puts a transaction where its keys allow; true if it has to wait. It takes the keys that are free at once, so that of
    /// two that wait the earlier one goes first. The filter is asked for all keys before one is taken: two of one
    /// transaction that look alike do not make it wait for itself.
    fn sort(&mut self, tx: A::Tx, keys: Vec<A::Key>) -> bool {
        let filter = &self.filter;
        let (held, free): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| filter.contains(key));
        for key in free {
            self.filter.claim(&key);
        }
        let waits = !held.is_empty();
        if waits {
            self.lines.stand(tx, held.into_iter().collect());
        } else {
            self.incoming.push_back(tx);
        }
        waits
    }

    fn retry(&mut self, admit: &A, tx: A::Tx) {
        let keys = admit.spends(&tx).collect();
        self.counters.deferred += u64::from(self.sort(tx, keys));
    }

    /// A transaction leaves what it holds to those that wait; it holds all but what it misses.
    fn release(&mut self, admit: &A, tx: &A::Tx, mut missing: HashSet<A::Key>) {
        if self.lines.is_empty() {
            return;
        }
        // It may name a key twice and has it once.
        for key in admit.spends(tx).filter(|key| missing.insert(*key)) {
            self.incoming.extend(self.lines.pass_on(&key));
        }
    }

    /// No other transaction can spend what an accepted one spends: those in line for it have lost, and release their keys.
    fn win(&mut self, admit: &A, tx: &A::Tx) {
        if self.lines.is_empty() {
            return;
        }
        for key in admit.spends(tx) {
            for (loser, missing) in self.lines.dissolve(&key) {
                self.release(admit, &loser, missing);
                self.lost.push(loser);
            }
        }
    }

    /// What a validator that asks begins with now, if there is anything to do.
    pub(super) fn begin(&mut self) -> Option<Work> {
        if self.has_checks() {
            return Some(Work::Check);
        }
        let commits = self.waits_for_commit();
        self.is_committing |= commits;
        commits.then_some(Work::Commit)
    }

    /// Whether a validator that waits has something to do.
    pub(super) fn wants_validator(&self) -> bool {
        self.waiting_validators > 0 && (self.has_checks() || self.waits_for_commit())
    }

    fn has_checks(&self) -> bool {
        !self.incoming.is_empty() || !self.losers.is_empty()
    }

    /// A validator's share of what waits, at most so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<Ready<A::Tx>> {
        let validators = self.settings.validators.max(1);
        let share = |waiting: usize, most: usize| waiting.div_ceil(validators).min(most);
        let lost = if self.incoming.is_empty() {
            share(self.losers.len(), most)
        } else {
            share(self.losers.len(), most.div_ceil(LOSERS_SHARE))
        };
        let first = share(self.incoming.len(), most - lost);
        let ready = |holds| move |tx| Ready { tx, holds };
        let incoming = self.incoming.drain(..first).map(ready(true));
        let losers = self.losers.drain(..lost).map(ready(false));
        let taken: Vec<_> = incoming.chain(losers).collect();
        self.checking += taken.len();
        taken
    }

    /// Carries out what a validator found, except for what it has reported already. Gives the transactions whose
    /// end has to be reported.
    pub(super) fn settle(
        &mut self,
        admit: &A,
        found: Vec<Found<A>>,
    ) -> Vec<(A::Tx, Outcome<'static, A>)> {
        self.checking -= found.len();
        let mut to_report = Vec::new();
        for (Ready { tx, holds }, verdict) in found {
            if holds && !matches!(verdict, Some(Verdict::Accepted(_))) {
                self.release(admit, &tx, HashSet::new());
            }
            let (tx, outcome, counter) = match verdict {
                Some(Verdict::Accepted(checked)) if holds => {
                    self.counters.accepted += 1;
                    self.win(admit, &tx);
                    self.under_way.insert(admit.id(&tx), true);
                    self.accepted.push((tx, checked));
                    continue;
                }
                // What it lost was given back since.
                Some(Verdict::Accepted(_)) => {
                    self.retry(admit, tx);
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
            to_report.push((tx, outcome));
        }
        to_report
    }

    /// Whether the next commit waits for nothing but what is with validators now.
    pub(super) fn commits_soon(&self) -> bool {
        let is_near = self.checking > 0 || self.is_committing || !self.accepted.is_empty();
        is_near && !self.has_checks() && !self.is_closed
    }

    /// Takes out what is to be committed.
    pub(super) fn begin_commit(&mut self) -> Vec<(A::Tx, A::Checked)> {
        self.is_committing = true;
        std::mem::take(&mut self.accepted)
    }

    /// Whether a commit is the only thing that can go on, and no thread has gone to make it.
    fn waits_for_commit(&self) -> bool {
        let is_idle = !self.has_checks() && self.checking == 0;
        is_idle && !self.is_committing && self.has_committable()
    }

    /// Whether a commit would do anything.
    pub(super) fn has_committable(&self) -> bool {
        !self.accepted.is_empty() || !self.lines.is_empty()
    }

    /// A transaction spends an unknown output: it waits for a parent that is under way, or an orphan comes back: it, or
    /// one that it displaced.
    fn misses(&mut self, tx: A::Tx, parent: A::Id) -> Option<(A::Id, A::Tx)> {
        if !self.under_way.contains_key(&parent) {
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

    /// Begins an epoch after a commit of these. No key is held then; waiting transactions take theirs anew, in the old
    /// order.
    pub(super) fn next_epoch(&mut self, admit: &A, committed: &[A::Id]) {
        self.counters.commits += 1;
        self.is_committing = false;
        self.filter.clear();
        self.losers.extend(self.lost.drain(..));
        let incoming = std::mem::take(&mut self.incoming);
        for tx in incoming.into_iter().chain(self.lines.take_all()) {
            let keys = admit.spends(&tx).collect();
            self.sort(tx, keys);
        }
        for id in committed {
            self.leave(admit, id);
        }
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
        rest.extend(self.incoming.drain(..).chain(self.losers.drain(..)));
        rest.append(&mut self.lost);
        rest.extend(self.lines.take_all());
        self.counters.abandoned += rest.len() as u64;
        rest
    }
}
