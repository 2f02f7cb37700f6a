//! Transactions the node has accepted and no block has shown yet.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use cosmos::Place;
use pacing::Nanos;
use rpc::BroadcastMethod;

use super::api::WriteBody;
use super::job::{Job, Recipient, TxHash};
use super::slots::Slots;

/// Accepted transactions until a block shows them, in the order in which they were accepted: what
/// the node may lose when it is killed. Bounded in bytes and in age.
#[derive(Debug)]
pub(super) struct Retained {
    by_hash: HashMap<TxHash, u64>,
    /// Those that have a place in the order of their account.
    by_place: BTreeMap<Place, TxHash>,
    /// Each as a write that can be offered again.
    in_order: Slots<Job>,
    bytes: usize,
    capacity: usize,
    /// Until when the node may have some that were not kept, because the bound was reached.
    incomplete_until: Nanos,
}

impl Retained {
    /// At most `capacity` bytes of transactions are kept.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            by_hash: HashMap::new(),
            by_place: BTreeMap::new(),
            in_order: Slots::new(),
            bytes: 0,
            capacity,
            incomplete_until: Nanos::ZERO,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.in_order.len() == 0
    }

    /// Whether everything was kept that the node may still have.
    pub(super) fn is_complete(&self, now: Nanos) -> bool {
        self.incomplete_until <= now
    }

    /// Bytes of the transactions kept.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the transaction of a write that the node has just accepted. The
    /// recipient of its answer is dropped.
    pub(super) fn keep(&mut self, mut job: Job, now: Nanos) {
        let (Some(hash), Some(bytes)) = (job.hash(), job.tx().map(Bytes::len)) else {
            return;
        };
        if self.bytes + bytes > self.capacity {
            self.incomplete_until = now.saturating_add(RETAINED_FOR);
            return;
        }
        if self.by_hash.contains_key(&hash) {
            return;
        }
        job.reservation.shrink_to(bytes);
        if let WriteBody::Tx { method, .. } = &mut job.body {
            *method = BroadcastMethod::Sync;
        }
        job.arrived = now;
        job.deadline = now.saturating_add(RETAINED_FOR);
        job.ambiguous = true;
        job.recipient = Recipient::AcceptedBefore;
        self.bytes += bytes;
        self.by_hash.insert(hash, self.in_order.next_number());
        if let Some(place) = job.place() {
            self.by_place.insert(place, hash);
        }
        self.in_order.push(job);
    }

    /// A block has shown it, or it is to be offered again: takes it out, if it was kept.
    pub(super) fn take(&mut self, hash: &TxHash) -> Option<Job> {
        let number = self.by_hash.remove(hash)?;
        let job = self.in_order.take(number)?;
        self.bytes -= job.tx().map_or(0, Bytes::len);
        if let Some(place) = job.place()
            && self.by_place.get(&place) == Some(hash)
        {
            self.by_place.remove(&place);
        }
        Some(job)
    }

    /// Takes out what was accepted of the account of `later` from the sequence `expected` on, up to `later`.
    pub(super) fn take_before(&mut self, later: Place, expected: u64) -> Vec<Job> {
        let hashes: Vec<TxHash> = self.before(later, expected).copied().collect();
        hashes.iter().filter_map(|hash| self.take(hash)).collect()
    }

    /// Whether there is any of these.
    pub(super) fn has_before(&self, later: Place, expected: u64) -> bool {
        self.before(later, expected).next().is_some()
    }

    fn before(&self, later: Place, expected: u64) -> impl Iterator<Item = &TxHash> {
        let sequence = expected.min(later.sequence);
        let first = Place { sequence, ..later };
        self.by_place.range(first..later).map(|(_, hash)| hash)
    }

    /// Forgets what no block has shown for so long that the node must have dropped it: how many.
    pub(super) fn forget_old(&mut self, now: Nanos) -> usize {
        let before = self.in_order.len();
        while let Some(job) = self.in_order.oldest()
            && job.deadline < now
            && let Some(hash) = job.hash()
        {
            self.take(&hash);
        }
        before - self.in_order.len()
    }

    /// Takes everything out, in the order of acceptance.
    pub(super) fn take_all(&mut self) -> Vec<Job> {
        self.by_hash.clear();
        self.by_place.clear();
        self.bytes = 0;
        self.in_order.drain().collect()
    }
}

/// A transaction that no block shows for so long after its acceptance was dropped by the node for
/// a reason of its own (recheck, eviction).
const RETAINED_FOR: Nanos = Nanos::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::testing::write;
    use crate::ledger::Ledger;

    /// A write of ten bytes that are all the same.
    fn job(ledger: &Ledger, name: u8) -> Job {
        let mut job = write(vec![name; 10]);
        job.reservation = ledger.reserve(30).unwrap();
        job
    }

    fn hash(name: u8) -> TxHash {
        job(&Ledger::new(30), name).hash().unwrap()
    }

    #[test]
    fn acknowledged_67_order_and_bounds_hold_and_nothing_stays_unknown() {
        let ledger = Ledger::new(1000);
        let mut retained = Retained::new(40);
        for name in 1..=5 {
            retained.keep(job(&ledger, name), Nanos::from_secs(name.into()));
        }
        assert_eq!(retained.bytes(), 40);
        // What was not kept is committed or dropped some time, and nothing is unknown any more.
        assert!(!retained.is_complete(Nanos::from_secs(64)));
        assert!(retained.is_complete(Nanos::from_secs(65)));
        // Only the transactions themselves count from now on.
        assert_eq!(ledger.used(), 40);
        assert!(retained.take(&hash(2)).is_some());
        assert!(retained.take(&hash(2)).is_none());
        assert_eq!(retained.forget_old(Nanos::from_secs(62)), 1);
        assert_eq!(retained.bytes(), 20);
        retained.keep(job(&ledger, 6), Nanos::from_secs(6));
        assert!(retained.take(&hash(4)).is_some());
        let all = retained.take_all();
        let names: Vec<u8> = all.iter().map(|job| job.tx().unwrap()[0]).collect();
        assert_eq!(names, [3, 6]);
        assert!(all.iter().all(|job| job.ambiguous && !job.is_counted()));
        drop(all);
        assert_eq!((retained.bytes(), ledger.used()), (0, 0));
        assert!(retained.is_empty());
        retained.keep(job(&ledger, 7), Nanos::from_secs(7));
        assert!(retained.take(&hash(7)).is_some());
    }

    #[test]
    fn a_transaction_is_kept_once() {
        let ledger = Ledger::new(1000);
        let mut retained = Retained::new(40);
        retained.keep(job(&ledger, 1), Nanos::from_secs(1));
        retained.keep(job(&ledger, 1), Nanos::from_secs(2));
        assert_eq!((retained.bytes(), ledger.used()), (10, 10));
        assert!(retained.is_complete(Nanos::ZERO));
    }
}
