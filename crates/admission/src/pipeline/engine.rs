//! The steps of a pipeline (submit, validate, commit, pause, read), which its threads call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use super::queues::{Found, Queues, Ready, Work};
use super::{Counters, Settings};
use crate::admit::{Admit, Outcome, Refused, Verdict};
use crate::filter::Filter;
use crate::sync::{Condvar, Mutex, Phase, PhaseLock, RwLock, lock};

/// Transactions that a validator checks at most before it leaves its phase.
const MOST_IN_ROUND: usize = 200;
/// Transactions that a validator takes from the queue at once. One at a time, the two locks of each would cost a third
/// of the check of two signatures, while another thread submits. A commit waits a millisecond for the end of a batch.
const BATCH: usize = 16;

/// The state that the threads share. Each step may be called by any thread.
pub(crate) struct Engine<A: Admit, F> {
    admit: A,
    settings: Settings,
    queues: Mutex<Queues<A, F>>,
    /// There is something for a validator to do.
    work: Condvar,
    /// Something was settled or committed, and a reader waits for it.
    committed: Condvar,
    /// Nothing more is taken in: threads that wait for the end of an epoch go on.
    closed: Condvar,
    lock: PhaseLock,
    /// Read in [`Phase::Validate`], written in the other phases. The phase lock keeps the two apart, so that no thread
    /// waits for this one.
    view: RwLock<A::View>,
}

impl<A: Admit, F: Filter<A::Key>> Engine<A, F> {
    pub(crate) fn new(admit: A, view: A::View, filter: F, settings: Settings) -> Self {
        Self {
            admit,
            settings,
            queues: Mutex::new(Queues::new(filter, settings)),
            work: Condvar::new(),
            committed: Condvar::new(),
            closed: Condvar::new(),
            lock: PhaseLock::default(),
            view: RwLock::new(view),
        }
    }

    pub(crate) fn submit(&self, tx: A::Tx) -> Result<(), Refused> {
        let id = self.admit.id(&tx);
        let keys: Vec<A::Key> = self.admit.spends(&tx).collect();
        let is_wanted = {
            let mut queues = lock(&self.queues);
            queues.arrive(tx, id, keys)?;
            queues.wants_validator()
        };
        if is_wanted {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits for something to do; none once closed.
    pub(super) fn wait_for_work(&self) -> Option<Work> {
        let mut queues = lock(&self.queues);
        while !queues.is_closed {
            if let Some(work) = queues.begin() {
                return Some(work);
            }
            queues.waiting_validators += 1;
            queues = self
                .work
                .wait(queues)
                .unwrap_or_else(PoisonError::into_inner);
            queues.waiting_validators -= 1;
        }
        None
    }

    /// Waits until an epoch has taken as long as it may, with something to commit. False once closed.
    pub(super) fn wait_for_epoch(&self) -> bool {
        let mut queues = lock(&self.queues);
        while !queues.is_closed {
            let (guard, waited) = self
                .closed
                .wait_timeout(queues, self.settings.epoch)
                .unwrap_or_else(PoisonError::into_inner);
            queues = guard;
            if waited.timed_out() && queues.has_committable() {
                break;
            }
        }
        !queues.is_closed
    }

    /// One round of a validator: checks what waits, until nothing does, the round is full, or a commit or
    /// a pause waits. Returns how many were checked.
    pub(crate) fn validate(&self) -> usize {
        let inside = self.lock.enter(Phase::Validate);
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let mut checked = 0;
        while checked < MOST_IN_ROUND && !inside.is_outranked() {
            let txs = lock(&self.queues).take(BATCH.min(MOST_IN_ROUND - checked));
            if txs.is_empty() {
                break;
            }
            checked += txs.len();
            self.check(txs, &view);
        }
        checked
    }

    /// Checks what a validator has taken, and carries out the verdicts: an acceptance is reported at once, and the
    /// queues get all verdicts together.
    fn check(&self, txs: Vec<Ready<A::Tx>>, view: &A::View) {
        let check = |mut ready: Ready<A::Tx>| -> Found<A> {
            let check = AssertUnwindSafe(|| self.admit.check(&ready.tx, view));
            let verdict = catch_unwind(check).ok();
            if let Some(Verdict::Accepted(checked)) = &verdict
                && ready.holds
            {
                // The client may submit a child at once, which then waits for this one instead of being an orphan.
                self.admit
                    .decided(&mut ready.tx, Outcome::Accepted(checked));
            }
            (ready, verdict)
        };
        let found: Vec<Found<A>> = txs.into_iter().map(check).collect();
        let (to_report, is_wanted) = {
            let mut queues = lock(&self.queues);
            let to_report = queues.settle(&self.admit, found);
            self.wake_readers(&queues);
            (to_report, queues.wants_validator())
        };
        // This validator itself looks for more work after the round.
        if is_wanted {
            self.work.notify_one();
        }
        for (mut tx, outcome) in to_report {
            self.admit.decided(&mut tx, outcome);
        }
    }

    /// Commits what was accepted and begins the next epoch.
    pub(crate) fn commit(&self) {
        let _alone = self.lock.enter(Phase::Commit);
        self.turn(|_| (), |_| ());
    }

    pub(crate) fn pause<R>(&self, change: impl FnOnce(&mut A::View) -> R) -> R {
        let _alone = self.lock.enter(Phase::Pause);
        self.turn(change, |queues| queues.retry_orphans(&self.admit))
    }

    /// Changes the view, with no other thread in the lock.
    fn turn<R>(
        &self,
        change: impl FnOnce(&mut A::View) -> R,
        then: impl FnOnce(&mut Queues<A, F>),
    ) -> R {
        let accepted = lock(&self.queues).begin_commit();
        let ids: Vec<A::Id> = accepted.iter().map(|(tx, _)| self.admit.id(tx)).collect();
        let changed = {
            let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
            for (tx, checked) in accepted {
                self.admit.commit(&mut view, tx, checked);
            }
            change(&mut view)
        };
        {
            let mut queues = lock(&self.queues);
            queues.next_epoch(&self.admit, &ids);
            then(&mut queues);
            self.wake_readers(&queues);
        }
        self.work.notify_all();
        changed
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&A::View) -> R) -> R {
        let mut queues = lock(&self.queues);
        let before = queues.counters.commits;
        while queues.commits_soon() && queues.counters.commits == before {
            queues.waiting_readers += 1;
            queues = self
                .committed
                .wait(queues)
                .unwrap_or_else(PoisonError::into_inner);
            queues.waiting_readers -= 1;
        }
        drop(queues);
        read(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake_readers(&self, queues: &Queues<A, F>) {
        if queues.waiting_readers > 0 {
            self.committed.notify_all();
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        lock(&self.queues).counters
    }

    /// Takes nothing more in and lets the threads end.
    pub(super) fn close(&self) {
        lock(&self.queues).is_closed = true;
        self.work.notify_all();
        self.committed.notify_all();
        self.closed.notify_all();
    }

    /// After the threads have ended: commits what was accepted, abandons the rest.
    pub(super) fn finish(&self) {
        self.commit();
        let rest = lock(&self.queues).abandon();
        for mut tx in rest {
            self.admit.decided(&mut tx, Outcome::Abandoned);
        }
    }
}
