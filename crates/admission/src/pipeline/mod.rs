//! Admission on several threads, in epochs; and under one lock, to compare with.

mod engine;
mod lines;
mod queues;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::admit::{Admit, Outcome, Refused, Verdict};
use crate::filter::Filter;
use crate::sync::{JoinHandle, Mutex, lock, thread};
use queues::Work;

pub(crate) use engine::Engine;

/// How a pipeline is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Threads that check, at least 1: as many as there are cores.
    pub validators: usize,
    /// Longest time from one commit to the next while there is something to commit. When nothing is left
    /// to check, a commit comes at once, so this concerns a pipeline that is never idle: a shorter epoch
    /// decides the losers of conflicts and admits unconfirmed children sooner, a longer one interrupts the
    /// checks less. The Gigablock testnet had 5 s, later 2 s.
    pub epoch: Duration,
    /// Most transactions under way, in all queues together; more are refused. Choose what may be checked
    /// in the time that a client waits: a core checks some 7,000 a second.
    pub capacity: usize,
    /// Most orphans among them, whose parent is under way itself; the oldest goes first. Others are reported at once,
    /// since a client waits for the answer.
    pub orphans: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            validators: 1,
            epoch: Duration::from_secs(2),
            capacity: 100_000,
            orphans: 10_000,
        }
    }
}

/// What a pipeline has counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Transactions taken in.
    pub submitted: u64,
    /// Refused because they were under way already.
    pub duplicates: u64,
    /// Refused because the pipeline was full.
    pub full: u64,
    /// Times that a transaction had to wait because another may spend the same.
    pub deferred: u64,
    /// Times that a transaction waited for its parent.
    pub waited: u64,
    /// Decided: accepted.
    pub accepted: u64,
    /// Decided: rejected.
    pub rejected: u64,
    /// Decided: orphans, those that were displaced by newer ones included.
    pub orphaned: u64,
    /// Not decided: the pipeline stopped, or the check panicked.
    pub abandoned: u64,
    /// Commits and pauses, each the beginning of an epoch.
    pub commits: u64,
}

impl Counters {
    /// Nothing counted yet.
    pub(crate) const ZERO: Self = Self {
        submitted: 0,
        duplicates: 0,
        full: 0,
        deferred: 0,
        waited: 0,
        accepted: 0,
        rejected: 0,
        orphaned: 0,
        abandoned: 0,
        commits: 0,
    };
}

/// Validators around a view.
///
/// In an epoch no two transactions are checked that may spend the same thing: the filter sends the second into a
/// line behind the first. If the first is rejected, the next in the line is checked at
/// once. Validators check against the view, which does not change meanwhile. The one that finds nothing left to
/// check adds what was accepted to the view and clears the filter; while there is always something to check, a
/// thread of its own does so when an epoch has taken as long as it may. Transactions in line for what is spent now have
/// lost: all of them are checked at once, against a view that contains the winner, and only for the reason. Orphans
/// whose parents were committed are tried again. So the work for a transaction is bounded by its keys, whatever the
/// others spend; and those without rivals wait for none of it.
pub struct Pipeline<A: Admit, F: Filter<A::Key> + 'static> {
    engine: Arc<Engine<A, F>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<A: Admit, F: Filter<A::Key> + 'static> Pipeline<A, F> {
    /// Starts the threads.
    pub fn start(admit: A, view: A::View, filter: F, settings: Settings) -> Self {
        let engine = Arc::new(Engine::new(admit, view, filter, settings));
        let mut threads = Vec::new();
        for _ in 0..settings.validators.max(1) {
            let engine = Arc::clone(&engine);
            threads.push(thread::spawn(move || {
                while let Some(work) = engine.wait_for_work() {
                    match work {
                        Work::Check => drop(engine.validate()),
                        Work::Commit => engine.commit(),
                    }
                }
            }));
        }
        let epochs = Arc::clone(&engine);
        threads.push(thread::spawn(move || {
            while epochs.wait_for_epoch() {
                epochs.commit();
            }
        }));
        Self {
            engine,
            threads: Mutex::new(threads),
        }
    }

    /// Takes a transaction in. Its outcome comes by [`Admit::decided`].
    ///
    /// # Errors
    /// Why it was not taken; [`Admit::decided`] is not called then.
    pub fn submit(&self, tx: A::Tx) -> Result<(), Refused> {
        self.engine.submit(tx)
    }

    /// Commits what was accepted, then changes the view while nothing is checked, and begins a new epoch:
    /// for a block or a reorganisation. Orphans are tried again. To look, use [`read`](Self::read).
    pub fn pause<R>(&self, change: impl FnOnce(&mut A::View) -> R) -> R {
        self.engine.pause(change)
    }

    /// Reads the view, while checks go on. It has all that was accepted before, unless transactions wait to be
    /// checked: then it is as the last commit left it, so that no reader waits for a queue.
    pub fn read<R>(&self, read: impl FnOnce(&A::View) -> R) -> R {
        self.engine.read(read)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// Takes nothing more in, ends the threads, commits what was accepted and abandons the rest.
    pub fn stop(&self) {
        self.engine.close();
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            // A panic was printed when it happened.
            let _ = thread.join();
        }
        self.engine.finish();
    }
}

impl<A: Admit, F: Filter<A::Key> + 'static> Drop for Pipeline<A, F> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The admission of a node with one lock around its mempool. The baseline that [`crate::Pipeline`] is
/// measured with, and the oracle that it is tested with.
#[derive(Debug)]
pub struct Serial<A: Admit> {
    admit: A,
    state: Mutex<SerialState<A::View>>,
}

#[derive(Debug)]
struct SerialState<V> {
    view: V,
    counters: Counters,
}

impl<A: Admit> Serial<A> {
    /// Admits to a view.
    pub fn new(admit: A, view: A::View) -> Self {
        let counters = Counters::ZERO;
        Self {
            admit,
            state: Mutex::new(SerialState { view, counters }),
        }
    }

    /// Checks a transaction and commits it if it is good, before it returns. Orphans are not kept.
    pub fn submit(&self, mut tx: A::Tx) {
        let mut state = lock(&self.state);
        let SerialState { view, counters } = &mut *state;
        counters.submitted += 1;
        match self.admit.check(&tx, view) {
            Verdict::Accepted(checked) => {
                counters.accepted += 1;
                counters.commits += 1;
                self.admit.decided(&mut tx, Outcome::Accepted(&checked));
                self.admit.commit(view, tx, checked);
            }
            Verdict::Missing(parent) => {
                counters.orphaned += 1;
                self.admit.decided(&mut tx, Outcome::Orphaned(parent));
            }
            Verdict::Rejected(rejection) => {
                counters.rejected += 1;
                self.admit.decided(&mut tx, Outcome::Rejected(rejection));
            }
        }
    }

    /// Changes the view while nothing is checked.
    pub fn pause<R>(&self, change: impl FnOnce(&mut A::View) -> R) -> R {
        change(&mut lock(&self.state).view)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        lock(&self.state).counters
    }
}
