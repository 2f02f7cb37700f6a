//! Admission under one lock, one transaction at a time.

use crate::admit::{Admit, Outcome, Verdict};
use crate::pipeline::Counters;
use crate::sync::{Mutex, lock};

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
