//! Transactions the node has accepted and no block has shown yet.

use std::collections::HashMap;

use bytes::Bytes;
use fairq::ClientKey;
use pacing::Nanos;
use rpc::BroadcastMethod;

use super::api::WriteBody;
use super::job::{Job, Recipient, TxHash};
use super::slots::Slots;
use crate::ledger::Reservation;

/// Accepted transactions until a block shows them, in the order in which they were accepted: what
/// the node may lose when it is killed. Bounded in bytes and in age.
#[derive(Debug)]
pub(super) struct Retained {
    by_hash: HashMap<TxHash, u64>,
    in_order: Slots<Kept>,
    bytes: usize,
    capacity: usize,
    /// Not kept because the bound was reached.
    not_kept: u64,
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

impl Kept {
    /// The same transaction as a write that is offered again, because the node may have lost it.
    pub(super) fn into_job(self) -> Job {
        Job {
            client: self.client,
            connection: 0,
            body: WriteBody::Tx {
                method: BroadcastMethod::Sync,
                tx: self.tx,
            },
            arrived: self.accepted,
            deadline: self.accepted.saturating_add(RETAINED_FOR),
            ambiguous: true,
            recipient: Recipient::AcceptedBefore,
            reservation: self.reservation,
        }
    }
}

impl Retained {
    /// At most `capacity` bytes of transactions are kept.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            by_hash: HashMap::new(),
            in_order: Slots::new(),
            bytes: 0,
            capacity,
            not_kept: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.in_order.len() == 0
    }

    /// Whether everything was kept so far.
    pub(super) const fn is_complete(&self) -> bool {
        self.not_kept == 0
    }

    /// Bytes of the transactions kept.
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
        self.by_hash.insert(kept.hash, self.in_order.next_number());
        self.in_order.push(kept);
    }

    /// A block has shown it, or the node has refused it after all. Whether it was kept.
    pub(super) fn release(&mut self, hash: &TxHash) -> bool {
        let number = self.by_hash.remove(hash);
        let kept = number.and_then(|number| self.in_order.take(number));
        self.bytes -= kept.as_ref().map_or(0, |kept| kept.tx.len());
        kept.is_some()
    }

    /// Forgets what no block has shown for so long that the node must have dropped it.
    pub(super) fn forget_old(&mut self, now: Nanos) {
        let instant = now.saturating_sub(RETAINED_FOR);
        while let Some(oldest) = self.in_order.oldest()
            && oldest.accepted < instant
        {
            let hash = oldest.hash;
            self.release(&hash);
        }
    }

    /// Everything, in the order of acceptance; nothing is kept afterwards.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Kept> + '_ {
        self.by_hash.clear();
        self.bytes = 0;
        self.in_order.drain()
    }
}

/// A transaction that no block shows for so long after its acceptance was dropped by the node for
/// a reason of its own (recheck, eviction).
const RETAINED_FOR: Nanos = Nanos::from_secs(60);

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
        assert_eq!((retained.bytes(), retained.not_kept), (40, 1));
        assert!(retained.release(&[2; 32]));
        assert!(!retained.release(&[2; 32]));
        retained.forget_old(Nanos::from_secs(62));
        assert_eq!(retained.bytes(), 20);
        retained.keep(kept(&ledger, 6, 6));
        assert!(retained.release(&[4; 32]));
        let names: Vec<u8> = retained.drain().map(|kept| kept.hash[0]).collect();
        assert_eq!(names, [3, 6]);
        assert_eq!((retained.bytes(), ledger.used()), (0, 0));
        assert!(retained.is_empty());
        retained.keep(kept(&ledger, 7, 7));
        assert!(retained.release(&[7; 32]));
    }

    #[test]
    fn a_transaction_is_kept_once() {
        let ledger = Ledger::new(1000);
        let mut retained = Retained::new(40);
        retained.keep(kept(&ledger, 1, 1));
        retained.keep(kept(&ledger, 1, 2));
        assert_eq!((retained.bytes(), ledger.used()), (10, 10));
        assert!(retained.is_complete());
    }
}
