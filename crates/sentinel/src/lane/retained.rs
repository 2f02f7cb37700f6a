//! Transactions the node has accepted and no block has shown yet.

use std::collections::HashMap;

use bytes::Bytes;
use pacing::Nanos;

use super::job::TxHash;
use crate::ledger::Reservation;
use fairq::ClientKey;

/// Accepted transactions until a block shows them, in the order in which they were accepted: what
/// the node may lose when it is killed. Bounded in bytes and in age.
#[derive(Debug)]
pub(super) struct Retained {
    by_hash: HashMap<TxHash, u64>,
    /// Sequence number of the first slot.
    base: u64,
    slots: std::collections::VecDeque<Option<Kept>>,
    bytes: usize,
    capacity: usize,
    /// Not kept because the bound was reached.
    pub(super) not_kept: u64,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) hash: TxHash,
    pub(super) client: ClientKey,
    pub(super) tx: Bytes,
    pub(super) accepted: Nanos,
    pub(super) reservation: Reservation,
}

impl Retained {
    /// At most `capacity` bytes of transactions are kept.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            by_hash: HashMap::new(),
            base: 0,
            slots: std::collections::VecDeque::new(),
            bytes: 0,
            capacity,
            not_kept: 0,
        }
    }

    /// Transactions kept.
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Whether everything was kept so far.
    pub(super) const fn is_complete(&self) -> bool {
        self.not_kept == 0
    }

    /// Their bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        if self.bytes + kept.tx.len() > self.capacity {
            self.not_kept += 1;
            return;
        }
        if self.by_hash.contains_key(&kept.hash) {
            return;
        }
        self.bytes += kept.tx.len();
        self.by_hash
            .insert(kept.hash, self.base + self.slots.len() as u64);
        self.slots.push_back(Some(kept));
    }

    /// A block has shown it, or the node has refused it after all.
    pub(super) fn release(&mut self, hash: &TxHash) -> bool {
        let Some(sequence) = self.by_hash.remove(hash) else {
            return false;
        };
        let slot = usize::try_from(sequence - self.base).unwrap_or(usize::MAX);
        if let Some(kept) = self.slots.get_mut(slot).and_then(Option::take) {
            self.bytes -= kept.tx.len();
        }
        self.trim();
        true
    }

    /// Forgets what was accepted before `instant`: it is in no block for so long that the node has
    /// dropped it.
    pub(super) fn forget_before(&mut self, instant: Nanos) -> usize {
        let mut forgotten = 0;
        while let Some(slot) = self.slots.front() {
            match slot {
                Some(kept) if kept.accepted >= instant => break,
                Some(kept) => {
                    self.bytes -= kept.tx.len();
                    self.by_hash.remove(&kept.hash);
                    forgotten += 1;
                }
                None => {}
            }
            self.slots.pop_front();
            self.base += 1;
        }
        forgotten
    }

    /// Everything, in the order of acceptance; nothing is kept afterwards.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Kept> + '_ {
        self.by_hash.clear();
        self.base += self.slots.len() as u64;
        self.bytes = 0;
        self.slots.drain(..).flatten()
    }

    fn trim(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    fn kept(ledger: &Ledger, name: u8, accepted: u64) -> Kept {
        Kept {
            hash: [name; 32],
            client: fairq::KeyScheme::default().key([127, 0, 0, 1].into()),
            tx: Bytes::from(vec![name; 10]),
            accepted: Nanos::from_secs(accepted),
            reservation: ledger.reserve(10).unwrap(),
        }
    }

    #[test]
    fn order_and_bounds_hold() {
        let ledger = Ledger::new(1000);
        let mut retained = Retained::new(40);
        for name in 1..=5 {
            retained.keep(kept(&ledger, name, u64::from(name)));
        }
        assert_eq!((retained.len(), retained.not_kept), (4, 1));
        assert!(retained.release(&[2; 32]));
        assert!(!retained.release(&[2; 32]));
        assert_eq!(retained.forget_before(Nanos::from_secs(2)), 1);
        retained.keep(kept(&ledger, 6, 6));
        assert!(retained.release(&[4; 32]));
        let names: Vec<u8> = retained.drain().map(|kept| kept.hash[0]).collect();
        assert_eq!(names, [3, 6]);
        assert_eq!((retained.len(), ledger.used()), (0, 0));
        retained.keep(kept(&ledger, 7, 7));
        assert!(retained.release(&[7; 32]));
    }
}
