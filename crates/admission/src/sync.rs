//! The phase lock of a pipeline; and locks and threads of std, or of a model checker that tries their interleavings.
//!
//! `RUSTFLAGS="--cfg loom"` selects loom, which tries all interleavings up to a bound;
//! `RUSTFLAGS="--cfg shuttle"` selects shuttle, which tries random ones of tests that are too large for loom.
//! `.ci/model` runs both.

use std::sync::PoisonError;

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(loom)]
pub(crate) use loom::thread::{self, JoinHandle};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle::thread::{self, JoinHandle};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::thread::{self, JoinHandle};

/// Locks a mutex, also one whose holder panicked: its content is used as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads in the lock do; a later phase has priority over an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Transactions are checked.
    Validate,
    /// What was accepted is committed.
    Commit,
    /// Blocks and reorganisations change the view.
    Pause,
}

/// The number of phases.
const PHASES: usize = 3;

/// A lock that any number of threads hold in the same phase. A thread enters its phase at once if no thread is in
/// another phase and none waits for a higher one. So it waits for the threads inside and for those of higher phases,
/// but never for a thread that asked for a lower phase after it.
#[derive(Debug, Default)]
pub struct PhaseLock {
    state: Mutex<Occupancy>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Occupancy {
    /// Threads in the current phase.
    inside: usize,
    current: Option<Phase>,
    /// Threads that wait, by phase.
    waiting: [usize; PHASES],
}

/// Holds a thread's phase until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it leaves the phase"]
pub struct PhaseGuard<'a> {
    lock: &'a PhaseLock,
    phase: Phase,
}

impl PhaseLock {
    /// Waits until the phase can be entered, and enters it.
    pub fn enter(&self, phase: Phase) -> PhaseGuard<'_> {
        let mut state = lock(&self.state);
        while !state.admits(phase) {
            state.waiting[phase as usize] += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting[phase as usize] -= 1;
        }
        state.inside += 1;
        state.current = Some(phase);
        drop(state);
        PhaseGuard { lock: self, phase }
    }
}

impl Occupancy {
    fn admits(&self, phase: Phase) -> bool {
        !self.is_outranked(phase) && (self.inside == 0 || self.current == Some(phase))
    }

    fn is_outranked(&self, phase: Phase) -> bool {
        self.waiting[phase as usize + 1..]
            .iter()
            .any(|&threads| threads > 0)
    }
}

impl PhaseGuard<'_> {
    /// Whether a thread waits for a higher phase; it enters when the guards of this phase are dropped.
    pub fn is_outranked(&self) -> bool {
        lock(&self.lock.state).is_outranked(self.phase)
    }
}

impl Drop for PhaseGuard<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.lock.state);
        state.inside -= 1;
        if state.inside == 0 {
            state.current = None;
            drop(state);
            self.lock.changed.notify_all();
        }
    }
}
