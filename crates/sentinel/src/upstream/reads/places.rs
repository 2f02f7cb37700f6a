//! The places of the reads under way, whose number may change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many reads may be under way. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    free: Arc<Semaphore>,
    all: AtomicUsize,
    /// Places that are taken and to be given up: there were more before.
    surplus: AtomicUsize,
    /// Each read that waits for a place has a clone.
    waiting: Arc<()>,
}

/// A place, taken until dropped.
#[derive(Debug)]
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    places: Places,
}

impl Places {
    pub(super) fn new(all: usize) -> Self {
        Self(Arc::new(Inner {
            free: Arc::new(Semaphore::new(all)),
            all: AtomicUsize::new(all),
            surplus: AtomicUsize::new(0),
            waiting: Arc::new(()),
        }))
    }

    /// From now on there are so many. What is under way beyond them ends in its own time. One call at a time.
    pub(super) fn set(&self, all: usize) {
        let inner = &*self.0;
        let before = inner.all.swap(all, Ordering::Relaxed);
        let (more, fewer) = (all.saturating_sub(before), before.saturating_sub(all));
        let mut added = 0;
        while added < more && inner.owed() {
            added += 1;
        }
        inner.free.add_permits(more - added);
        let owed = fewer - inner.free.forget_permits(fewer);
        inner.surplus.fetch_add(owed, Ordering::Relaxed);
    }

    /// How many are free, and how many there are.
    pub(super) fn free_and_all(&self) -> (usize, usize) {
        let all = self.0.all.load(Ordering::Relaxed);
        (self.0.free.available_permits(), all)
    }

    /// Waits for one, in the order of arrival; none once there are to be no more.
    ///
    /// # Cancel safety
    /// Dropping the future gives the turn up.
    pub(super) async fn take(&self) -> Option<Place> {
        let _waiting = Arc::clone(&self.0.waiting);
        let permit = Arc::clone(&self.0.free).acquire_owned().await.ok()?;
        Some(self.of(permit))
    }

    /// One that is free.
    pub(super) fn take_free(&self) -> Option<Place> {
        let permit = Arc::clone(&self.0.free).try_acquire_owned().ok()?;
        Some(self.of(permit))
    }

    fn of(&self, permit: OwnedSemaphorePermit) -> Place {
        Place {
            permit: Some(permit),
            places: self.clone(),
        }
    }
}

impl Inner {
    /// Whether a place was to be given up; then one fewer is.
    fn owed(&self) -> bool {
        let fewer = |surplus: usize| surplus.checked_sub(1);
        let paid = (self.surplus).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        paid.is_ok()
    }
}

impl Place {
    /// Whether a read waits for one. That none is free is not enough: then all slow clients would lose theirs, and ask
    /// the node for the same again.
    pub(super) fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.places.0.waiting) > 1
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take()
            && self.places.0.owed()
        {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn fewer_places_are_given_up_as_they_end_and_more_pay_that_debt_first() {
        let places = Places::new(3);
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(places.take().await.unwrap());
        }
        places.set(1);
        assert_eq!(places.free_and_all(), (0, 1));
        drop(taken.pop());
        assert_eq!(places.free_and_all(), (0, 1));
        // One is still owed; of two more it takes one.
        places.set(3);
        assert_eq!(places.free_and_all(), (1, 3));
        drop(taken);
        assert_eq!(places.free_and_all(), (3, 3));
        places.set(2);
        assert_eq!(places.free_and_all(), (2, 2));
    }

    /// While no place was free each counted as wanted, whoever waited: all slow readers were cut off every half a second.
    #[tokio::test]
    async fn sharing_88_places_are_wanted_while_a_read_waits_for_one() {
        let places = Places::new(2);
        let mut taken = vec![places.take().await.unwrap(), places.take().await.unwrap()];
        let are_wanted = |taken: &[Place]| taken.iter().all(Place::is_wanted);
        assert!(!are_wanted(&taken));
        let mut waiting = [0; 2].map(|_| Box::pin(places.take()));
        for take in &mut waiting {
            assert!(take.as_mut().now_or_never().is_none());
        }
        for take in waiting {
            assert!(are_wanted(&taken));
            taken.remove(0);
            taken.push(take.await.unwrap());
        }
        assert!(!are_wanted(&taken));
        // One that waits no longer wants none.
        let mut waiting = Box::pin(places.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(are_wanted(&taken));
        drop(waiting);
        assert!(!are_wanted(&taken));
    }
}
