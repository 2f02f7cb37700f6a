//! A lock with numbered regions: many threads in one of them, none in two.

use std::sync::PoisonError;

use crate::sync::{Condvar, Mutex, lock};

/// The number of a region, which is its priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Transactions are checked.
    Validate,
    /// What was accepted is committed.
    Commit,
    /// Blocks and reorganisations change the view.
    Pause,
}

/// The number of regions.
const REGIONS: usize = 3;

/// The lock. A thread enters its region at once if nobody is inside another and nobody waits for a
/// higher one. So a thread that waits for a region waits for those that were inside, and for higher
/// regions, but never for one that came to a lower region after it.
#[derive(Debug, Default)]
pub struct Corral {
    state: Mutex<Occupancy>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Occupancy {
    /// Threads in the current region.
    inside: usize,
    current: Option<Region>,
    /// Threads that wait, by region.
    waiting: [usize; REGIONS],
}

/// A thread's stay in a region, until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it leaves the region"]
pub struct Inside<'a> {
    corral: &'a Corral,
    region: Region,
}

impl Corral {
    /// Waits until the region can be entered, and enters it.
    pub fn enter(&self, region: Region) -> Inside<'_> {
        let mut state = lock(&self.state);
        while !state.admits(region) {
            state.waiting[region as usize] += 1;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting[region as usize] -= 1;
        }
        state.inside += 1;
        state.current = Some(region);
        drop(state);
        Inside {
            corral: self,
            region,
        }
    }
}

impl Occupancy {
    fn admits(&self, region: Region) -> bool {
        !self.is_outranked(region) && (self.inside == 0 || self.current == Some(region))
    }

    fn is_outranked(&self, region: Region) -> bool {
        self.waiting[region as usize + 1..]
            .iter()
            .any(|&threads| threads > 0)
    }
}

impl Inside<'_> {
    /// Whether a higher region is waited for: who stays keeps it waiting.
    pub fn is_outranked(&self) -> bool {
        lock(&self.corral.state).is_outranked(self.region)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.corral.state);
        state.inside -= 1;
        if state.inside == 0 {
            state.current = None;
            drop(state);
            self.corral.changed.notify_all();
        }
    }
}
