//! What was sent from here and is in no block yet, by hash.

use std::collections::BTreeSet;

use control::Load;
use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;

use super::state::WriteId;
use crate::lane::job::{Job, TxHash};

/// What the node was offered, by hash: the writes of each transaction that have not ended, and what is in no block yet.
///
/// The node has accepted those, or may have, until blocks show otherwise. Time alone removes none: a halted chain keeps
/// all of its mempool. Of very many the oldest are forgotten, as a node may show no blocks at all.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    /// An index and a list, as most of what is looked for is new: a table of whole entries misses the processor's caches.
    /// The hasher mixes a secret of its own into each hash: clients choose transactions.
    transactions: IndexMap<TxHash, Known, DefaultHashBuilder>,
    /// Further writes of the same transactions.
    others: BTreeSet<(TxHash, WriteId)>,
    /// Transactions that were added.
    added: u64,
    /// Transactions that were forgotten, as there were too many.
    forgotten: u64,
    /// No era with any of them is older.
    oldest: u32,
    /// The latest eras that blocks have shown, a block each, in order; no more than decide.
    shown: Vec<u32>,
    /// Blocks with transactions seen so far: those that are noted between two blocks have one era.
    era: u32,
    load: Load,
}

/// What is known of one transaction.
#[derive(Debug, Default)]
struct Known {
    first: Option<WriteId>,
    sent: Option<Sent>,
}

/// One that is in no block.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    era: u32,
    bytes: u32,
    gas: Option<u64>,
}

impl Sent {
    fn load(&self) -> Load {
        Load {
            txs: 1,
            bytes: self.bytes.into(),
            gas: self.gas.unwrap_or(0),
        }
    }
}

impl Known {
    const fn is_over(&self) -> bool {
        self.first.is_none() && self.sent.is_none()
    }
}

/// What a block shows of own transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Own transactions in it.
    pub(crate) ours: Load,
    /// Those of them whose gas is known.
    pub(crate) gas_txs: u64,
    /// Own transactions that the node must have dropped: no longer counted.
    pub(crate) overtaken: Vec<TxHash>,
}

impl Uncommitted {
    /// The node was offered a write of this transaction; with `job`, it has it, or may have it. Whether it is the first
    /// of those that have not ended.
    pub(super) fn offered(&mut self, hash: TxHash, write: WriteId, job: Option<&Job>) -> bool {
        let known = self.transactions.entry(hash).or_default();
        let is_first = *known.first.get_or_insert(write) == write;
        if !is_first {
            self.others.insert((hash, write));
        }
        if let Some(job) = job {
            self.added += 1;
            let sent = Sent {
                number: self.added,
                era: self.era,
                bytes: u32::try_from(job.tx.len()).unwrap_or(u32::MAX),
                gas: job.gas(),
            };
            let before = known.sent.replace(sent);
            self.load =
                (self.load + sent.load()).less(before.map_or(Load::default(), |one| one.load()));
        }
        is_first
    }

    /// A write of this transaction has ended.
    pub(super) fn ended(&mut self, hash: &TxHash, write: WriteId) {
        if let Some(known) = self.transactions.get_mut(hash) {
            if known.first == Some(write) {
                known.first = others(&self.others, hash).next();
            }
            for one in [write, known.first.unwrap_or(write)] {
                self.others.remove(&(*hash, one));
            }
            if known.is_over() {
                self.transactions.swap_remove(hash);
            }
        }
    }

    /// The writes of this transaction that have not ended, in the order in which they were offered.
    pub(super) fn writes(&self, hash: &TxHash) -> impl Iterator<Item = WriteId> {
        let first = self.transactions.get(hash).and_then(|known| known.first);
        first.into_iter().chain(others(&self.others, hash))
    }

    /// It is offered again, or a block shows it.
    pub(super) fn remove(&mut self, hash: &TxHash) {
        let _ = self.take(hash);
    }

    fn take(&mut self, hash: &TxHash) -> Option<Sent> {
        let known = self.transactions.get_mut(hash)?;
        let sent = known.sent.take();
        if known.is_over() {
            self.transactions.swap_remove(hash);
        }
        self.load = self.load.less(sent?.load());
        sent
    }

    /// A block of the node that takes the writes.
    pub(super) fn block(&mut self, hashes: &[TxHash]) -> Committed {
        let mut committed = Committed::default();
        let mut latest = None;
        for sent in hashes.iter().filter_map(|hash| self.take(hash)) {
            latest = latest.max(Some(sent.era));
            committed.ours = committed.ours + sent.load();
            committed.gas_txs += u64::from(sent.gas.is_some());
        }
        self.era += u32::from(!hashes.is_empty());
        if let Some(latest) = latest {
            committed.overtaken = self.overtake(latest);
        }
        committed
    }

    /// A block has shown one of the era `latest`: those that were overtaken often enough are forgotten.
    fn overtake(&mut self, latest: u32) -> Vec<TxHash> {
        self.shown.push(latest);
        self.shown.sort_unstable();
        if self.shown.len() > OVERTAKEN {
            self.shown.remove(0);
        }
        let overtaken = match self.shown.first() {
            Some(first) if self.shown.len() == OVERTAKEN => *first,
            _ => 0,
        };
        if overtaken <= self.oldest {
            return Vec::new();
        }
        let hashes = self.take_all(|sent| sent.era < overtaken);
        let left = self.sent().map(|(_, sent)| sent.era);
        self.oldest = left.min().unwrap_or(self.era);
        hashes
    }

    /// Forgets the oldest if there are too many, some at a time: which.
    pub(super) fn forget_oldest(&mut self) -> Vec<TxHash> {
        let count = self.load.txs as usize;
        if count <= MOST {
            return Vec::new();
        }
        let mut numbers: Vec<u64> = self.sent().map(|(_, sent)| sent.number).collect();
        let (_, kept, _) = numbers.select_nth_unstable(count - MOST + FORGOTTEN_AT_ONCE);
        let kept = *kept;
        let hashes = self.take_all(|sent| sent.number < kept);
        self.forgotten += hashes.len() as u64;
        hashes
    }

    fn sent(&self) -> impl Iterator<Item = (&TxHash, &Sent)> {
        let all = self.transactions.iter();
        all.filter_map(|(hash, known)| Some((hash, known.sent.as_ref()?)))
    }

    fn take_all(&mut self, is_over: impl Fn(&Sent) -> bool) -> Vec<TxHash> {
        let over = self.sent().filter(|(_, sent)| is_over(sent));
        let hashes: Vec<TxHash> = over.map(|(hash, _)| *hash).collect();
        for hash in &hashes {
            self.remove(hash);
        }
        hashes
    }

    /// All of them.
    pub(super) const fn load(&self) -> Load {
        self.load
    }

    /// Transactions that were forgotten, as no block had shown them and there were too many.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Further writes of a transaction.
fn others(all: &BTreeSet<(TxHash, WriteId)>, hash: &TxHash) -> impl Iterator<Item = WriteId> {
    let of_hash = all.range((*hash, WriteId::FIRST)..);
    let of_hash = of_hash.take_while(move |(one, _)| one == hash);
    of_hash.map(|(_, write)| *write)
}

/// Blocks with later own transactions after which one must have been dropped: with fewer, a mempool by
/// priority may still hold it (`LOST` in `control` had the same number of blocks).
const OVERTAKEN: usize = 16;
/// Own transactions in no block. Some 100 bytes each, 13 MB; 26 of CometBFT's default
/// mempools: of more the node has dropped some, or it has shown no blocks since it took them.
const MOST: usize = 1 << 17;
/// Looking for the oldest takes some milliseconds: it is done once in so many.
const FORGOTTEN_AT_ONCE: usize = MOST / 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::testing::write;

    /// A write is offered, accepted and answered.
    fn offer(uncommitted: &mut Uncommitted, hash: TxHash, job: &Job) {
        uncommitted.offered(hash, WriteId::of(0), Some(job));
        uncommitted.ended(&hash, WriteId::of(0));
    }

    fn add(uncommitted: &mut Uncommitted, name: u8) -> TxHash {
        let job = write(vec![name; 10]);
        let hash = job.hash();
        offer(uncommitted, hash, &job);
        hash
    }

    #[test]
    fn case_99_what_is_own_is_known_by_hash_until_a_block_shows_it() {
        let mut uncommitted = Uncommitted::default();
        let [one, two] = [1, 2].map(|name| add(&mut uncommitted, name));
        add(&mut uncommitted, 1);
        let load = |txs, bytes| Load { txs, bytes, gas: 0 };
        assert_eq!(uncommitted.load(), load(2, 20));
        // A halted chain, and blocks of others, take nothing away, however many there are.
        for _ in 0..1_000 {
            assert_eq!(uncommitted.block(&[[7; 32]]), Committed::default());
        }
        assert_eq!(uncommitted.load(), load(2, 20));
        let committed = uncommitted.block(&[[7; 32], two]);
        assert_eq!((committed.ours, committed.overtaken), (load(1, 10), vec![]));
        assert_eq!(uncommitted.block(&[two]).ours, load(0, 0));
        uncommitted.remove(&one);
        assert_eq!(uncommitted.load(), load(0, 0));
        assert_eq!(uncommitted.transactions.len(), 0);
    }

    /// Before, a node that shows no blocks got 131,072 writes and then none for ever.
    #[test]
    fn case_99_of_too_many_in_no_block_the_oldest_are_forgotten() {
        let mut uncommitted = Uncommitted::default();
        let name = |number: usize| {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_le_bytes());
            hash
        };
        let job = write(vec![1; 10]);
        let mut forgotten = Vec::new();
        for number in 0..2 * MOST {
            offer(&mut uncommitted, name(number), &job);
            forgotten.append(&mut uncommitted.forget_oldest());
            assert!(uncommitted.load().txs as usize <= MOST);
        }
        assert_eq!(uncommitted.forgotten(), forgotten.len() as u64);
        assert_eq!(uncommitted.load().txs as usize + forgotten.len(), 2 * MOST);
        forgotten.sort_unstable();
        let mut oldest: Vec<_> = (0..forgotten.len()).map(name).collect();
        oldest.sort_unstable();
        assert!(forgotten == oldest, "not the oldest are forgotten");
        // What a block shows late is no longer own.
        let committed = uncommitted.block(&[name(0), name(2 * MOST - 1)]);
        assert_eq!(committed.ours.txs, 1);
    }

    #[test]
    fn case_99_what_many_later_ones_overtook_was_dropped() {
        let mut uncommitted = Uncommitted::default();
        let [lost, same_era] = [200, 201].map(|name| add(&mut uncommitted, name));
        // One that was sent after the same block does not count as later.
        assert!(uncommitted.block(&[same_era]).overtaken.is_empty());
        for block in 1..=OVERTAKEN {
            let later = add(&mut uncommitted, block as u8);
            let overtaken = uncommitted.block(&[later]).overtaken;
            assert_eq!(overtaken == [lost], block == OVERTAKEN, "{block}");
        }
        assert_eq!(uncommitted.load(), Load::default());
    }
}
