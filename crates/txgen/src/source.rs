//! Transactions made ready off the hot path: bytes, hash and request body, ahead of their due time.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use measure::TxHash;
use rpc::BroadcastMethod;
use sha2::{Digest, Sha256};

use crate::workload::{TxStream, WorkloadError};

/// One transaction, ready to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prepared<'a> {
    /// Its SHA-256, which is its name on the chain.
    pub(crate) hash: TxHash,
    /// Its size in bytes.
    pub(crate) size: u32,
    /// The whole JSON-RPC request, with the transaction's index as id.
    pub(crate) body: &'a [u8],
}

/// The transactions of one shard in the order of its due times, bounded by [`RING_BATCHES`].
#[derive(Debug)]
pub(crate) struct Ring {
    current: Batch,
    position: usize,
    full: Receiver<Batch>,
    empty: Sender<Batch>,
    /// The index that is asked for while the ring is dry: the source may pass over those before it.
    wanted: Arc<AtomicU64>,
}

/// What the ring has for an index.
#[derive(Debug)]
pub(crate) enum Take<'a> {
    /// The transaction.
    Ready(Prepared<'a>),
    /// Not made yet: the source is behind.
    Dry,
    /// The source has ended; its thread says why.
    Ended,
}

/// What a source thread needs.
pub(crate) struct SourceConfig {
    pub(crate) stream: Box<dyn TxStream>,
    pub(crate) method: BroadcastMethod,
    /// This shard's number.
    pub(crate) shard: u32,
    /// The first index it sends.
    pub(crate) first: u32,
    /// How far apart its indices are.
    pub(crate) stride: NonZeroU32,
    /// Indices from here on are not made.
    pub(crate) end: u64,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    index: u64,
    hash: TxHash,
    size: u32,
    end: u32,
}

/// Starts the source of one shard. The thread ends when the ring is dropped or the supply is used up.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn spawn(
    config: SourceConfig,
) -> io::Result<(Ring, JoinHandle<Result<(), WorkloadError>>)> {
    let wanted = Arc::new(AtomicU64::new(0));
    let jump = wanted.clone();
    let (full_sender, full) = bounded(RING_BATCHES);
    let (empty, empty_receiver) = bounded(RING_BATCHES + 1);
    for _ in 0..RING_BATCHES {
        // The channel holds one more than this, and the receiver is at hand.
        let _ = empty.try_send(Batch::default());
    }
    let thread = thread::Builder::new()
        .name(format!("source-{}", config.shard))
        .spawn(move || fill(config, &empty_receiver, &full_sender, &jump))?;
    let ring = Ring {
        current: Batch::default(),
        position: 0,
        full,
        empty,
        wanted,
    };
    Ok((ring, thread))
}

impl Ring {
    /// The transaction with this index; those before it are passed over. Indices must ascend.
    pub(crate) fn take(&mut self, index: u64) -> Take<'_> {
        loop {
            while let Some(item) = self.current.items.get(self.position) {
                self.position += 1;
                if item.index == index {
                    let start = match self.position {
                        1 => 0,
                        position => self.current.items[position - 2].end as usize,
                    };
                    return Take::Ready(Prepared {
                        hash: item.hash,
                        size: item.size,
                        body: &self.current.bytes[start..item.end as usize],
                    });
                }
            }
            match self.full.try_recv() {
                Ok(batch) => self.replace(batch),
                Err(TryRecvError::Empty) => {
                    self.wanted.store(index, Ordering::Relaxed);
                    return Take::Dry;
                }
                Err(TryRecvError::Disconnected) => return Take::Ended,
            }
        }
    }

    /// Waits until the source has run ahead as far as it may, or has ended.
    pub(crate) fn await_full(&self, source: &JoinHandle<Result<(), WorkloadError>>) {
        while !self.full.is_full() && !source.is_finished() {
            thread::sleep(FILL_POLL);
        }
    }

    fn replace(&mut self, batch: Batch) {
        let mut used = std::mem::replace(&mut self.current, batch);
        self.position = 0;
        used.bytes.clear();
        used.items.clear();
        // A source that has ended takes nothing back; the batch is simply freed then.
        let _ = self.empty.try_send(used);
    }
}

fn fill(
    mut config: SourceConfig,
    empty: &Receiver<Batch>,
    full: &Sender<Batch>,
    wanted: &AtomicU64,
) -> Result<(), WorkloadError> {
    let mut tx = Vec::new();
    let mut index = u64::from(config.first);
    while index < config.end {
        let Ok(mut batch) = empty.recv() else {
            return Ok(());
        };
        // Dropped transactions need not be made; what is wanted belongs to this shard as well.
        index = index.max(wanted.load(Ordering::Relaxed));
        while index < config.end
            && batch.items.len() < BATCH_ITEMS
            && batch.bytes.len() < BATCH_BYTES
        {
            tx.clear();
            config.stream.write(index, &mut tx)?;
            rpc::encode_broadcast(&mut batch.bytes, index, config.method, &tx);
            batch.items.push(Item {
                index,
                hash: Sha256::digest(&tx).into(),
                size: tx.len() as u32,
                end: batch.bytes.len() as u32,
            });
            index = index.saturating_add(u64::from(config.stride.get()));
        }
        if full.send(batch).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Batches in a ring: with [`BATCH_ITEMS`] this is 16,384 small transactions ahead, enough for
/// 100 ms at 160,000/s while the source's thread waits for a core.
const RING_BATCHES: usize = 128;
const FILL_POLL: Duration = Duration::from_millis(1);
const BATCH_ITEMS: usize = 128;
/// A batch ends once it holds this much, so a ring stays under 8 MiB with small transactions and
/// under 128 largest ones with large.
const BATCH_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::KvStore;

    fn take_all(shard: u32, of: u32, end: u64) -> Vec<(u64, TxHash)> {
        let of = NonZeroU32::new(of).unwrap();
        let (mut ring, thread) = spawn(SourceConfig {
            stream: Box::new(KvStore::new(1, 64).unwrap()),
            method: BroadcastMethod::Sync,
            shard,
            first: shard,
            stride: of,
            end,
        })
        .unwrap();
        let mut all = Vec::new();
        let mut index = u64::from(shard);
        while index < end {
            match ring.take(index) {
                Take::Ready(prepared) => {
                    let text = std::str::from_utf8(prepared.body).unwrap();
                    assert!(text.contains(&format!("\"id\":{index},")), "{text}");
                    assert_eq!(prepared.size, 64);
                    all.push((index, prepared.hash));
                    index += u64::from(of.get());
                }
                Take::Dry => thread::yield_now(),
                Take::Ended => panic!("ended at {index}"),
            }
        }
        drop(ring);
        thread.join().unwrap().unwrap();
        all
    }

    #[test]
    fn shards_together_make_the_whole() {
        let whole = take_all(0, 1, 1000);
        let mut parts: Vec<_> = (0..3).flat_map(|shard| take_all(shard, 3, 1000)).collect();
        parts.sort_unstable();
        assert_eq!(parts, whole);
    }

    #[test]
    fn passed_over_transactions_are_not_sent() {
        let (mut ring, thread) = spawn(SourceConfig {
            stream: Box::new(KvStore::new(1, 64).unwrap()),
            method: BroadcastMethod::Async,
            shard: 0,
            first: 0,
            stride: NonZeroU32::MIN,
            end: 300,
        })
        .unwrap();
        let wanted = take_all(0, 1, 300);
        let found = loop {
            match ring.take(257) {
                Take::Ready(prepared) => break prepared.hash,
                Take::Dry => thread::yield_now(),
                Take::Ended => panic!("ended"),
            }
        };
        assert_eq!(found, wanted[257].1);
        drop(ring);
        thread.join().unwrap().unwrap();
    }
}
