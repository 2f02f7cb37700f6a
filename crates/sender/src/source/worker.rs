//! One thread of a source: every n-th batch of a shard's transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};

use super::{BATCH_BYTES, Batch, Item};
use crate::protocol::{Protocol, TxName, TxStream, WorkloadError};

/// Which thread makes which transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    /// The first index of the shard.
    pub(super) first: u64,
    /// How far apart its indices are.
    pub(super) stride: u64,
    pub(super) workers: u64,
    /// Transactions in a batch; with one thread at most.
    pub(super) batch: u64,
}

/// One thread of a source.
pub(super) struct Worker<T> {
    pub(super) target: T,
    pub(super) stream: Box<dyn TxStream>,
    /// The transaction that is being made.
    pub(super) tx: Vec<u8>,
    pub(super) number: u64,
    /// The next place of the shard's sequence.
    pub(super) place: u64,
    pub(super) order: Order,
    pub(super) end: u64,
    pub(super) empty: Receiver<Batch>,
    pub(super) full: Sender<Batch>,
    pub(super) wanted: Arc<AtomicU64>,
}

impl Order {
    /// The thread that makes this transaction.
    pub(super) fn lane_of(self, index: u64) -> usize {
        if self.workers == 1 {
            return 0;
        }
        (self.batch_of(index) % self.workers) as usize
    }

    fn batch_of(self, index: u64) -> u64 {
        index.saturating_sub(self.first) / self.stride / self.batch
    }

    /// The index at a place of the shard's sequence.
    fn index(self, place: u64) -> u64 {
        place.saturating_mul(self.stride).saturating_add(self.first)
    }
}

impl<T: Protocol> Worker<T> {
    /// Fills batches until the ring is dropped or the supply is used up.
    pub(super) fn run(mut self) -> Result<(), WorkloadError> {
        while self.fill()? {}
        Ok(())
    }

    /// Fills one batch, as soon as one is free; false when there is nothing more to do.
    pub(super) fn fill(&mut self) -> Result<bool, WorkloadError> {
        let Ok(mut batch) = self.empty.recv() else {
            return Ok(false);
        };
        self.place = self.skipped(self.place);
        if self.order.index(self.place) >= self.end {
            return Ok(false);
        }
        for _ in 0..self.order.batch {
            let index = self.order.index(self.place);
            if index >= self.end || self.is_full(&batch) {
                break;
            }
            self.add(index, &mut batch)?;
            self.place += 1;
        }
        // What the other threads make lies between.
        self.place += (self.order.workers - 1) * self.order.batch;
        Ok(self.full.send(batch).is_ok())
    }

    /// Dropped transactions need not be made: the wanted index belongs to this shard as well.
    fn skipped(&self, place: u64) -> u64 {
        let Order {
            first,
            stride,
            workers,
            batch,
        } = self.order;
        let wanted = self.wanted.load(Ordering::Relaxed);
        let wanted = wanted.saturating_sub(first) / stride;
        if workers == 1 {
            return place.max(wanted);
        }
        // The first batch of this thread's that is not before the wanted one.
        let earliest = wanted / batch;
        let own = earliest + (self.number + workers - earliest % workers) % workers;
        place.max(own * batch)
    }

    /// With one thread batches are cut by their bytes too.
    fn is_full(&self, batch: &Batch) -> bool {
        self.order.workers == 1 && batch.bytes.len() >= BATCH_BYTES
    }

    fn add(&mut self, index: u64, batch: &mut Batch) -> Result<(), WorkloadError> {
        let Self { stream, tx, .. } = self;
        tx.clear();
        let name = stream.write(index, tx)?;
        let hash = self.target.encode(index, tx, name, &mut batch.bytes)?;
        batch.items.push(Item {
            index,
            sequence: match name {
                TxName::Sequenced(sequence) => sequence,
                TxName::Hash | TxName::Known(_) => 0,
            },
            hash,
            size: tx.len() as u32,
            end: batch.bytes.len() as u32,
        });
        Ok(())
    }
}
