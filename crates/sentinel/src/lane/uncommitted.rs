//! What was sent from here and is in no block yet, by hash.

use control::Load;
use std::collections::{HashMap, VecDeque};

use super::job::{Job, TxHash};

/// Transactions that the node accepted, or may have, until blocks say otherwise. Time alone removes none: a
/// halted chain keeps all of its mempool.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    by_hash: HashMap<TxHash, Sent>,
    /// No era with any of them is older.
    oldest: u64,
    /// The latest eras that blocks have shown, a block each, in order; no more than decide.
    shown: Vec<u64>,
    /// Those whose hashes are unknown: the era and the bytes of each, the oldest first.
    unread: VecDeque<(u64, u64)>,
    /// Blocks with transactions seen so far: those that are noted between two blocks have one era.
    era: u64,
    load: Load,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Sent {
    era: u64,
    bytes: u64,
    gas: Option<u64>,
}

/// What a block says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Committed {
    /// Own transactions in it.
    pub(super) ours: Load,
    /// Those of them whose gas is known.
    pub(super) gas_txs: usize,
    /// Own transactions that the node must have dropped: no longer counted.
    pub(super) overtaken: Vec<TxHash>,
}

impl Uncommitted {
    /// The node has this one, or may have it.
    pub(super) fn add(&mut self, hash: TxHash, job: &Job) {
        let era = self.era;
        let (bytes, gas) = (job.bytes() as u64, job.gas());
        self.remove(&hash);
        self.by_hash.insert(hash, Sent { era, bytes, gas });
        self.load.txs += 1;
        self.load.bytes += bytes;
        self.load.gas = self.load.gas.saturating_add(gas.unwrap_or(0));
    }

    /// The node may have one that cannot be read here. It counts for two blocks with transactions: as long as the window
    /// lets one wait.
    pub(super) fn add_unread(&mut self, bytes: u64) {
        self.unread.push_back((self.era, bytes));
        self.load.txs += 1;
        self.load.bytes += bytes;
    }

    /// It is offered again, or a block shows it.
    pub(super) fn remove(&mut self, hash: &TxHash) {
        let _ = self.take(hash);
    }

    fn take(&mut self, hash: &TxHash) -> Option<Sent> {
        let sent = self.by_hash.remove(hash)?;
        self.load.txs -= 1;
        self.load.bytes -= sent.bytes;
        self.load.gas = self.load.gas.saturating_sub(sent.gas.unwrap_or(0));
        Some(sent)
    }

    /// A block of the node that takes the writes.
    pub(super) fn block(&mut self, hashes: &[TxHash]) -> Committed {
        let mut committed = Committed::default();
        let mut latest = None;
        for sent in hashes.iter().filter_map(|hash| self.take(hash)) {
            latest = latest.max(Some(sent.era));
            let ours = &mut committed.ours;
            ours.txs += 1;
            ours.bytes += sent.bytes;
            committed.gas_txs += usize::from(sent.gas.is_some());
            ours.gas = ours.gas.saturating_add(sent.gas.unwrap_or(0));
        }
        self.era += u64::from(!hashes.is_empty());
        while let Some((era, bytes)) = self.unread.front().copied()
            && era + UNREAD <= self.era
        {
            self.unread.pop_front();
            self.load.txs -= 1;
            self.load.bytes -= bytes;
        }
        if let Some(latest) = latest {
            committed.overtaken = self.overtake(latest);
        }
        committed
    }

    /// A block has shown one of the era `latest`: those that were overtaken often enough are forgotten.
    fn overtake(&mut self, latest: u64) -> Vec<TxHash> {
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
        let dropped = |sent: &Sent| sent.era < overtaken;
        let hashes: Vec<TxHash> = (self.by_hash.iter())
            .filter_map(|(hash, sent)| dropped(sent).then_some(*hash))
            .collect();
        for hash in &hashes {
            self.remove(hash);
        }
        let left = self.by_hash.values().map(|sent| sent.era);
        self.oldest = left.min().unwrap_or(self.era);
        hashes
    }

    /// All of them.
    pub(super) const fn load(&self) -> Load {
        self.load
    }

    /// How many more may be counted.
    pub(super) fn free(&self) -> usize {
        MOST.saturating_sub(self.by_hash.len() + self.unread.len())
    }
}

/// Blocks with later own transactions after which one must have been dropped: with fewer, a mempool by
/// priority may still hold it (`LOST` in `control` had the same number of blocks).
const OVERTAKEN: usize = 16;
/// Blocks after which one that cannot be read here is taken for committed or dropped: the window is about two blocks' worth.
const UNREAD: u64 = 2;
/// Own transactions in no block: nothing more is sent beyond it, so that none has to be forgotten. Some 100 bytes
/// each, 13 MB; 26 of CometBFT's default mempools.
const MOST: usize = 1 << 17;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::testing::write;

    fn add(uncommitted: &mut Uncommitted, name: u8) -> TxHash {
        let job = write(vec![name; 10]);
        let hash = job.hash().unwrap();
        uncommitted.add(hash, &job);
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
        assert_eq!(uncommitted.by_hash.len(), 0);
    }

    /// At 2b52556 a flood of them filled the mempool: they were in no window.
    #[test]
    fn case_99_what_cannot_be_read_is_own_for_two_blocks() {
        let mut uncommitted = Uncommitted::default();
        uncommitted.add_unread(100);
        uncommitted.block(&[]);
        uncommitted.block(&[[7; 32]]);
        uncommitted.add_unread(10);
        assert_eq!(uncommitted.load().bytes, 110);
        uncommitted.block(&[[8; 32]]);
        assert_eq!((uncommitted.load().txs, uncommitted.load().bytes), (1, 10));
        uncommitted.block(&[[9; 32]]);
        assert_eq!(uncommitted.load(), Load::default());
    }

    #[test]
    fn case_99_what_many_later_ones_overtook_was_dropped() {
        let mut uncommitted = Uncommitted::default();
        let [lost, same_era] = [200, 201].map(|name| add(&mut uncommitted, name));
        // One that was sent after the same block overtakes nobody.
        assert!(uncommitted.block(&[same_era]).overtaken.is_empty());
        for block in 1..=OVERTAKEN {
            let later = add(&mut uncommitted, block as u8);
            let overtaken = uncommitted.block(&[later]).overtaken;
            assert_eq!(overtaken == [lost], block == OVERTAKEN, "{block}");
        }
        assert_eq!(uncommitted.load(), Load::default());
    }
}
