//! Locks and threads: std's, or those of a model checker that tries their interleavings.
//!
//! `RUSTFLAGS="--cfg loom"` takes loom's, which tries all of them up to a bound;
//! `RUSTFLAGS="--cfg shuttle"` takes shuttle's, which tries random ones of what is too large for loom.
//! `.ci/model` runs both.

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(loom)]
pub(crate) use loom::thread::{self, JoinHandle};
#[cfg(shuttle)]
pub(crate) use shuttle::thread::{self, JoinHandle};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::thread::{self, JoinHandle};

use std::sync::PoisonError;

/// Locks; what a panicked thread left behind is used as it is.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
