//! Transactions made ready off the hot path: bytes, hash and request body, ahead of their due time.
//!
//! Several threads may make the transactions of one shard: each fills every n-th batch, and the ring
//! takes the batches in turn. So the order, and what is made, do not depend on their number.

mod worker;

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use measure::TxHash;

use crate::protocol::{Protocol, TxStream, WorkloadError};
use worker::{Order, Worker};

/// One transaction, ready to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prepared<'a> {
    /// Its name on the chain.
    pub(crate) hash: TxHash,
    /// Its size in bytes.
    pub(crate) size: u32,
    /// The sequence of its account that it was signed with; 0 where accounts have none.
    pub(crate) sequence: u64,
    /// The whole body of its request; a JSON-RPC request has the transaction's index as id.
    pub(crate) body: &'a [u8],
}

/// The transactions of one shard in the order of its due times, bounded by 128 batches or by what is to
/// be made ahead.
#[derive(Debug)]
pub struct Ring {
    current: Batch,
    /// Where the current batch came from.
    current_lane: usize,
    position: usize,
    lanes: Vec<Lane>,
    order: Order,
    /// The index that is asked for while the ring is dry: the source may pass over those before it.
    wanted: Arc<AtomicU64>,
}

/// The way to and from one thread.
#[derive(Debug)]
struct Lane {
    full: Receiver<Batch>,
    empty: Sender<Batch>,
}

/// What the ring has for an index.
#[derive(Debug)]
pub(crate) enum Take<'a> {
    /// The transaction.
    Ready(Prepared<'a>),
    /// Not made yet: the source is behind.
    Dry,
    /// The source has ended; its thread returns the reason.
    Ended,
}

/// What the sources of a shard need.
pub struct SourceConfig {
    /// One for each thread; more than one only for workloads whose streams may take any indices.
    pub streams: Vec<Box<dyn TxStream>>,
    /// This shard's number.
    pub shard: u32,
    /// The first index it sends.
    pub first: u32,
    /// How far apart its indices are.
    pub stride: NonZeroU32,
    /// Indices from here on are not made.
    pub end: u64,
    /// The size of the workload's largest transaction in bytes.
    pub largest: usize,
    /// Transactions that the ring holds at least.
    pub ahead: u64,
}

/// The threads of a source.
pub type SourceThread = JoinHandle<Result<(), WorkloadError>>;

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Debug, Clone, Copy)]
struct Item {
    index: u64,
    sequence: u64,
    hash: TxHash,
    size: u32,
    end: u32,
}

/// Starts the source of one shard. Its threads end when the ring is dropped or the supply is used up.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn spawn<T: Protocol>(
    target: &T,
    config: SourceConfig,
) -> io::Result<(Ring, Vec<SourceThread>)> {
    let shard = config.shard;
    let (ring, workers) = assemble(target, config);
    let one = workers.len() == 1;
    let start = |(number, worker): (usize, Worker<T>)| {
        let name = if one {
            format!("source-{shard}")
        } else {
            format!("source-{shard}.{number}")
        };
        let thread = thread::Builder::new().name(name);
        thread.spawn(move || worker.run())
    };
    let threads: io::Result<Vec<_>> = workers.into_iter().enumerate().map(start).collect();
    Ok((ring, threads?))
}

/// The ring of a source and the work of its threads.
fn assemble<T: Protocol>(target: &T, config: SourceConfig) -> (Ring, Vec<Worker<T>>) {
    let workers = config.streams.len().max(1);
    let order = Order {
        first: u64::from(config.first),
        stride: u64::from(config.stride.get()),
        workers: workers as u64,
        batch: match workers {
            1 => BATCH_ITEMS,
            // With several threads every batch has the same number of transactions, so this bounds
            // their bytes.
            _ => (BATCH_BYTES / config.largest.max(1)).clamp(1, BATCH_ITEMS as usize) as u64,
        },
    };
    let wanted = Arc::new(AtomicU64::new(0));
    // A body may have twice the transaction's bytes (hexadecimal) and its envelope.
    let body = 2 * config.largest + ENVELOPE_BYTES;
    let items = (BATCH_BYTES / body).clamp(1, BATCH_ITEMS as usize) as u64;
    let ring = (config.ahead.div_ceil(items) as usize).max(RING_BATCHES);
    let batches = ring.div_ceil(workers).max(MIN_LANE_BATCHES);
    let work = |(number, stream)| {
        let (full_sender, full) = bounded(batches);
        let (empty, empty_receiver) = bounded(batches + 1);
        for _ in 0..batches {
            // The channel holds one more than this, and the receiver is at hand.
            let _ = empty.try_send(Batch::default());
        }
        let worker = Worker {
            target: target.clone(),
            stream,
            tx: Vec::new(),
            number: number as u64,
            place: number as u64 * order.batch,
            order,
            end: config.end,
            empty: empty_receiver,
            full: full_sender,
            wanted: wanted.clone(),
        };
        (Lane { full, empty }, worker)
    };
    let (lanes, workers) = config.streams.into_iter().enumerate().map(work).unzip();
    let ring = Ring {
        current: Batch::default(),
        current_lane: 0,
        position: 0,
        lanes,
        order,
        wanted,
    };
    (ring, workers)
}

/// A source without threads: it fills a batch of [`BATCH_ITEMS`] on each call.
#[cfg(test)]
pub(crate) struct SteppedSource<T>(Vec<Worker<T>>);

#[cfg(test)]
impl<T: Protocol> SteppedSource<T> {
    pub(crate) fn start(target: &T, config: SourceConfig) -> (Ring, Self) {
        let (ring, workers) = assemble(target, config);
        (ring, Self(workers))
    }

    /// Fills one batch; the source ends with its supply.
    pub(crate) fn fill(&mut self) {
        self.0
            .retain_mut(|worker| worker.empty.is_empty() || worker.fill().unwrap());
    }
}

impl Ring {
    /// The transaction with this index; those before it are passed over. Indices must ascend.
    pub(crate) fn take(&mut self, index: u64) -> Take<'_> {
        loop {
            while let Some(item) = self.current.items.get(self.position) {
                if item.index > index {
                    break;
                }
                self.position += 1;
                if item.index == index {
                    let start = match self.position {
                        1 => 0,
                        position => self.current.items[position - 2].end as usize,
                    };
                    return Take::Ready(Prepared {
                        hash: item.hash,
                        size: item.size,
                        sequence: item.sequence,
                        body: &self.current.bytes[start..item.end as usize],
                    });
                }
            }
            let lane = self.order.lane_of(index);
            let Some(full) = self.lanes.get(lane).map(|lane| &lane.full) else {
                return Take::Ended;
            };
            match full.try_recv() {
                Ok(batch) => self.replace(batch, lane),
                Err(TryRecvError::Empty) => {
                    self.wanted.store(index, Ordering::Relaxed);
                    return Take::Dry;
                }
                Err(TryRecvError::Disconnected) => return Take::Ended,
            }
        }
    }

    /// Waits until the source has run ahead as far as it may, or has ended.
    pub fn await_full(&self, source: &[SourceThread]) {
        for (lane, thread) in self.lanes.iter().zip(source) {
            while !lane.full.is_full() && !thread.is_finished() {
                thread::sleep(FILL_POLL);
            }
        }
    }

    fn replace(&mut self, batch: Batch, lane: usize) {
        let mut used = std::mem::replace(&mut self.current, batch);
        let from = std::mem::replace(&mut self.current_lane, lane);
        self.position = 0;
        used.bytes.clear();
        used.items.clear();
        // A source that has ended takes nothing back; the batch is simply freed then.
        let _ = self.lanes[from].empty.try_send(used);
    }
}

/// Batches in a ring: with [`BATCH_ITEMS`] this is 16,384 small transactions ahead, enough for
/// 100 ms at 160,000/s while the source's thread waits for a core.
const RING_BATCHES: usize = 128;
/// A thread fills one while another is emptied, however many threads share a ring.
const MIN_LANE_BATCHES: usize = 4;
const FILL_POLL: Duration = Duration::from_millis(1);
const BATCH_ITEMS: u64 = 128;
/// A batch ends once it holds this much, so a ring stays under 8 MiB with small transactions and
/// under 128 largest ones with large.
const BATCH_BYTES: usize = 64 * 1024;
/// What stands around a transaction in a request, at most.
const ENVELOPE_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::target::{Numbers, ScriptedTarget, hash};

    fn numbers(workers: usize) -> Vec<Box<dyn TxStream>> {
        (0..workers).map(|_| Box::new(Numbers) as _).collect()
    }

    fn source(workers: usize, shard: u32, of: u32, end: u64) -> (Ring, Vec<SourceThread>) {
        let config = config(workers, shard, of, end);
        spawn(&ScriptedTarget::default(), config).unwrap()
    }

    fn config(workers: usize, shard: u32, of: u32, end: u64) -> SourceConfig {
        SourceConfig {
            streams: numbers(workers),
            shard,
            first: shard,
            stride: NonZeroU32::new(of).unwrap(),
            end,
            largest: 64,
            ahead: 0,
        }
    }

    fn ready(ring: &mut Ring, index: u64) -> (TxHash, Vec<u8>) {
        loop {
            match ring.take(index) {
                Take::Ready(prepared) => break (prepared.hash, prepared.body.to_vec()),
                Take::Dry => thread::yield_now(),
                Take::Ended => panic!("ended at {index}"),
            }
        }
    }

    fn end((ring, threads): (Ring, Vec<SourceThread>)) {
        drop(ring);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    }

    fn take_all(workers: usize, shard: u32, of: u32, until: u64) -> Vec<(u64, TxHash)> {
        let (mut ring, threads) = source(workers, shard, of, until);
        let all = (u64::from(shard)..until)
            .step_by(of as usize)
            .map(|index| {
                let (name, body) = ready(&mut ring, index);
                assert_eq!((name, body), (hash(index), index.to_string().into_bytes()));
                (index, name)
            })
            .collect();
        end((ring, threads));
        all
    }

    #[test]
    fn shards_together_make_the_whole() {
        let whole = take_all(1, 0, 1, 1000);
        for workers in [1, 2, 3] {
            let mut parts: Vec<_> = (0..3)
                .flat_map(|shard| take_all(workers, shard, 3, 1000))
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, whole);
        }
    }

    #[test]
    fn passed_over_transactions_are_not_sent() {
        let wanted = take_all(1, 0, 1, 3000);
        for workers in [1, 2, 5] {
            let (mut ring, threads) = source(workers, 0, 1, 3000);
            for index in [0, 5, 257, 258, 1300, 2999] {
                assert_eq!(ready(&mut ring, index).0, wanted[index as usize].1);
            }
            end((ring, threads));
        }
    }

    #[test]
    fn what_is_to_be_signed_ahead_is_ready_before_the_load_begins() {
        for workers in [1, 2, 3] {
            for (ahead, least) in [(0, 16_384), (40_000, 40_000)] {
                let config = SourceConfig {
                    ahead,
                    ..config(workers, 0, 1, u64::MAX)
                };
                let (ring, threads) = spawn(&ScriptedTarget::default(), config).unwrap();
                ring.await_full(&threads);
                let batches: usize = ring.lanes.iter().map(|lane| lane.full.len()).sum();
                let made = batches as u64 * BATCH_ITEMS;
                assert!((least..least + 10_000).contains(&made), "{made} of {least}");
                end((ring, threads));
            }
        }
    }

    #[test]
    fn a_used_up_supply_ends_the_ring() {
        for workers in [1, 4] {
            let (mut ring, threads) = source(workers, 0, 1, 10);
            for index in 0..10 {
                ready(&mut ring, index);
            }
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
            assert!(matches!(ring.take(600), Take::Ended));
        }
    }
}
