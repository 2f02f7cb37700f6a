//! The transactions whose fate is still open.
//!
//! Records of one size live in chunks that are allocated whole and never move; a hash table of
//! slot numbers, keyed by the first eight bytes of the hash, finds them. The hash of a transaction
//! is a SHA-256, so its bytes serve as the table's hash as they are. Several records may carry one
//! hash (a file of transactions may repeat a line): an answer finds its record by hash and index,
//! a block takes the lowest index that is not committed yet.

use hashbrown::HashTable;
use pacing::Nanos;

use crate::format::code::{Code, Codespace};
use crate::format::event::{Failure, Sent, TxHash, UNKNOWN_CODE, hash_prefix};

/// Everything known about one sent transaction. 96 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) hash: TxHash,
    /// In a free slot: the next free slot.
    pub(crate) index: u64,
    pub(crate) due: Nanos,
    pub(crate) sent: Nanos,
    /// When the answer came; `NEVER` before.
    pub(crate) answered: Nanos,
    /// When the block was observed; `NEVER` before.
    pub(crate) committed: Nanos,
    pub(crate) height: u64,
    pub(crate) size: u32,
    pub(crate) step: u32,
    /// Code of the execution once it is in a block; before, of a rejection: a CheckTx code, or the
    /// bits of a JSON-RPC error's.
    pub(crate) code: u32,
    /// Name space of `code`.
    pub(crate) space: Codespace,
    pub(crate) endpoint: u16,
    pub(crate) state: RecordState,
}

/// The node's answers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordState {
    Free,
    Unanswered,
    Accepted,
    Rejected,
    RpcError,
    Failed(Failure),
}

/// A stamp that has not been taken.
pub(crate) const NEVER: Nanos = Nanos::MAX;

impl Record {
    const FREE: Self = Self {
        hash: [0; 32],
        index: NO_SLOT as u64,
        due: NEVER,
        sent: NEVER,
        answered: NEVER,
        committed: NEVER,
        height: 0,
        size: 0,
        step: 0,
        code: 0,
        space: Codespace::NONE,
        endpoint: 0,
        state: RecordState::Free,
    };

    const fn new(sent: &Sent) -> Self {
        Self {
            hash: sent.hash,
            index: sent.index,
            due: sent.due,
            sent: sent.sent,
            size: sent.size,
            step: sent.step,
            endpoint: sent.endpoint,
            state: RecordState::Unanswered,
            ..Self::FREE
        }
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.committed != NEVER
    }

    /// The code that decided its fate: of the execution when it is in a block, of CheckTx or of the JSON-RPC error
    /// otherwise; `None` without one, and where the node did not give the execution's.
    pub(crate) fn deciding_code(&self) -> Option<Code> {
        let number = match self.state {
            _ if self.is_committed() && self.code == UNKNOWN_CODE => return None,
            _ if self.is_committed() => i64::from(self.code),
            RecordState::Accepted => 0,
            RecordState::Rejected => i64::from(self.code),
            RecordState::RpcError => i64::from(self.code.cast_signed()),
            RecordState::Failed(_) | RecordState::Unanswered | RecordState::Free => return None,
        };
        let space = self.space;
        Some(Code { space, number })
    }
}

/// Names one record until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// See the module.
#[derive(Debug)]
pub(crate) struct Pending {
    chunks: Vec<Box<[Record]>>,
    first_free: u32,
    table: HashTable<u32>,
    limit: usize,
    /// Where the next search for a record to settle early begins.
    hand: u32,
}

impl Pending {
    /// `limit` is the number of records after which [`Pending::is_full`] holds.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            chunks: Vec::new(),
            first_free: NO_SLOT,
            table: HashTable::new(),
            limit,
            hand: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.len() >= self.limit
    }

    /// Bytes allocated for records, free ones included, and the table.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<Record>()
            + self.chunks.capacity() * size_of::<Box<[Record]>>()
            + self.table.allocation_size()
    }

    pub(crate) fn insert(&mut self, sent: &Sent) -> Slot {
        if self.first_free == NO_SLOT {
            self.grow();
        }
        let slot = self.first_free;
        let record = record_mut(&mut self.chunks, slot);
        self.first_free = record.index as u32;
        *record = Record::new(sent);
        let chunks = &self.chunks;
        self.table
            .insert_unique(hash_prefix(&sent.hash), slot, |&other| {
                hash_prefix(&record_at(chunks, other).hash)
            });
        Slot(slot)
    }

    /// The record that an answer belongs to.
    pub(crate) fn find_answered(&self, prefix: u64, index: u64) -> Option<Slot> {
        self.table
            .find(prefix, |&slot| record_at(&self.chunks, slot).index == index)
            .map(|&slot| Slot(slot))
    }

    /// The record that a transaction of a block observed at `observed` belongs to: of several with
    /// its hash, the first that had been sent by then.
    pub(crate) fn find_uncommitted(&self, hash: &TxHash, observed: Nanos) -> Option<Slot> {
        self.table
            .iter_hash(hash_prefix(hash))
            .map(|&slot| (slot, record_at(&self.chunks, slot)))
            .filter(|(_, record)| record.hash == *hash && !record.is_committed())
            // The stamp of sending is taken after it, so an observation may be slightly earlier.
            .min_by_key(|(_, record)| (record.sent > observed, record.index))
            .map(|(slot, _)| Slot(slot))
    }

    pub(crate) fn at(&self, slot: Slot) -> &Record {
        record_at(&self.chunks, slot.0)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> &mut Record {
        record_mut(&mut self.chunks, slot.0)
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, slot: Slot) -> Record {
        let record = record_mut(&mut self.chunks, slot.0);
        let taken = *record;
        record.state = RecordState::Free;
        record.index = u64::from(self.first_free);
        self.first_free = slot.0;
        let entry = self
            .table
            .find_entry(hash_prefix(&taken.hash), |&other| other == slot.0);
        debug_assert!(entry.is_ok(), "every record is in the table");
        if let Ok(entry) = entry {
            entry.remove();
        }
        taken
    }

    /// A record to settle early when the table is full: of the next few, the one that was sent
    /// first among the answered, else the one that was sent first.
    pub(crate) fn oldest_nearby(&mut self) -> Option<Slot> {
        if self.table.is_empty() {
            return None;
        }
        let slots = (self.chunks.len() * CHUNK) as u32;
        let mut best: Option<(bool, Nanos, u32)> = None;
        let mut seen = 0;
        while seen < SETTLE_SEARCH {
            let slot = self.hand;
            self.hand = (self.hand + 1) % slots;
            let record = record_at(&self.chunks, slot);
            if record.state == RecordState::Free {
                continue;
            }
            seen += 1;
            let candidate = (record.state == RecordState::Unanswered, record.sent, slot);
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
        best.map(|(_, _, slot)| Slot(slot))
    }

    /// Takes every record out, in the order of the slots.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Record> + use<> {
        self.table = HashTable::new();
        self.first_free = NO_SLOT;
        std::mem::take(&mut self.chunks)
            .into_iter()
            .flatten()
            .filter(|record| record.state != RecordState::Free)
    }

    fn grow(&mut self) {
        let base = (self.chunks.len() * CHUNK) as u32;
        let mut chunk = vec![Record::FREE; CHUNK].into_boxed_slice();
        for (offset, record) in (1..).zip(chunk.iter_mut().take(CHUNK - 1)) {
            record.index = u64::from(base + offset);
        }
        self.chunks.push(chunk);
        self.first_free = base;
    }
}

/// Records in a chunk: 384 KiB, small beside any run and large enough to be allocated rarely.
const CHUNK: usize = 4096;
/// How many records a full table looks at to settle one.
const SETTLE_SEARCH: u32 = 32;
const NO_SLOT: u32 = u32::MAX;

fn record_at(chunks: &[Box<[Record]>], slot: u32) -> &Record {
    &chunks[slot as usize / CHUNK][slot as usize % CHUNK]
}

fn record_mut(chunks: &mut [Box<[Record]>], slot: u32) -> &mut Record {
    &mut chunks[slot as usize / CHUNK][slot as usize % CHUNK]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::format::event::Cause;

    fn sent(index: u64, hash: u8) -> Sent {
        Sent {
            index,
            hash: [hash; 32],
            size: 1,
            due: Nanos::ZERO,
            sent: Nanos::from_nanos(index),
            endpoint: 0,
            step: 0,
            cause: Cause::OnTime,
            own_late: false,
        }
    }

    #[test]
    fn a_record_takes_96_bytes() {
        assert_eq!(size_of::<Record>(), 96);
    }

    #[test]
    fn a_full_table_names_an_answered_record_before_an_unanswered_one() {
        let mut pending = Pending::new(3);
        let slots: Vec<Slot> = (0..3)
            .map(|index| pending.insert(&sent(index, 1)))
            .collect();
        assert!(pending.is_full());
        assert_eq!(pending.oldest_nearby(), Some(slots[0]));
        pending.at_mut(slots[2]).state = RecordState::Accepted;
        assert_eq!(pending.oldest_nearby(), Some(slots[2]));
    }

    #[test]
    fn slots_are_used_again() {
        let mut pending = Pending::new(usize::MAX);
        for index in 0..10 * CHUNK as u64 {
            let slot = pending.insert(&sent(index, index as u8));
            assert_eq!(pending.remove(slot).index, index);
        }
        assert_eq!((pending.len(), pending.chunks.len()), (0, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a map: few hashes, so that most are shared by several records.
        #[test]
        fn it_finds_what_it_holds(actions in vec((any::<bool>(), 0..5_u8, any::<prop::sample::Index>()), 1..300)) {
            let mut pending = Pending::new(usize::MAX);
            let mut model: BTreeMap<u64, u8> = BTreeMap::new();
            for (index, (insert, hash, which)) in (0..).zip(actions) {
                if insert || model.is_empty() {
                    pending.insert(&sent(index, hash));
                    model.insert(index, hash);
                } else {
                    let (&index, &hash) = model.iter().nth(which.index(model.len())).unwrap();
                    let slot = pending.find_answered(hash_prefix(&[hash; 32]), index).unwrap();
                    prop_assert_eq!(pending.remove(slot).index, index);
                    model.remove(&index);
                }
                prop_assert_eq!(pending.len(), model.len());
                let first = model.iter().find(|entry| *entry.1 == hash).map(|entry| *entry.0);
                let found = pending.find_uncommitted(&[hash; 32], Nanos::MAX);
                prop_assert_eq!(found.map(|slot| pending.at(slot).index), first);
            }
            let left: Vec<u64> = pending.drain().map(|record| record.index).collect();
            prop_assert_eq!(left.len(), model.len());
            prop_assert!(left.iter().all(|index| model.contains_key(index)));
        }
    }
}
