//! One account of all bytes that are buffered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of everything that is buffered, up to a bound. Clones share the account.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Account>);

#[derive(Debug)]
struct Account {
    used: AtomicUsize,
    capacity: usize,
}

impl Ledger {
    /// An empty account of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Account {
            used: AtomicUsize::new(0),
            capacity,
        }))
    }

    /// Sets bytes aside before they are read; `None` when they do not fit.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation {
            ledger: self.clone(),
            bytes: 0,
        };
        reservation.grow(bytes).then_some(reservation)
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }
}

/// Bytes set aside; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    ledger: Ledger,
    bytes: usize,
}

impl Reservation {
    /// How many.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets more aside; false, and nothing changes, when they do not fit.
    pub fn grow(&mut self, more: usize) -> bool {
        let account = &*self.ledger.0;
        let fits = account
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(more)
                    .filter(|sum| *sum <= account.capacity)
            })
            .is_ok();
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Gives some back: `bytes` stay, if there were that many.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.ledger.0.used.fetch_sub(less, Ordering::Relaxed);
    }

    /// Splits `bytes` off (or all there are) into a reservation of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            ledger: self.ledger.clone(),
            bytes,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fits_beyond_the_bound_and_all_comes_back() {
        let ledger = Ledger::new(10);
        let mut first = ledger.reserve(6).unwrap();
        assert!(ledger.reserve(5).is_none());
        assert!(!first.grow(5));
        assert!(first.grow(4));
        let second = first.split(7);
        assert_eq!((first.bytes(), second.bytes(), ledger.used()), (3, 7, 10));
        drop(second);
        assert_eq!(ledger.used(), 3);
        drop(first);
        assert_eq!(ledger.used(), 0);
        assert!(ledger.reserve(usize::MAX).is_none());
    }
}
