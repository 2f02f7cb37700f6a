//! The blocks that are kept, newest last, with an index by transaction hash.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::{Block, Previous};
use crate::app::Tx;
use crate::hash::{Hash, root};

/// Bounds of the history. The newest two blocks always stay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retention {
    pub(crate) blocks: usize,
    pub(crate) bytes: usize,
}

/// Where a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxPlace {
    /// Its block.
    pub height: u64,
    /// Its place there.
    pub index: u32,
}

/// The kept part of the chain.
#[derive(Debug)]
pub(crate) struct Store {
    retention: Retention,
    blocks: VecDeque<Arc<Block>>,
    bytes: usize,
    tx_places: Option<HashMap<Hash, TxPlace>>,
}

/// Blocks that stay whatever the retention: the last and the one whose commit it carries.
const LEAST_BLOCKS: usize = 2;

/// Memory of an empty block: the block, its hashes as heap values, its entry in the index.
const BLOCK_BYTES: usize = size_of::<Block>() + 512;
/// What an allocation takes beyond what it is asked for, rounding included: 8 to 24 bytes in glibc, and
/// the 24 bytes that clones of `Bytes` share.
const ALLOCATION_BYTES: usize = 24;

impl Store {
    pub(crate) fn new(retention: Retention, tx_index: bool) -> Self {
        Self {
            retention,
            blocks: VecDeque::new(),
            bytes: 0,
            tx_places: tx_index.then(HashMap::new),
        }
    }

    /// Lowest kept height; 0 before the first block.
    pub(crate) fn base(&self) -> u64 {
        self.blocks.front().map_or(0, |block| block.header.height)
    }

    /// Newest height; 0 before the first block.
    pub(crate) fn height(&self) -> u64 {
        self.blocks.back().map_or(0, |block| block.header.height)
    }

    pub(crate) fn latest(&self) -> Option<&Arc<Block>> {
        self.blocks.back()
    }

    pub(crate) fn earliest(&self) -> Option<&Arc<Block>> {
        self.blocks.front()
    }

    pub(crate) fn block(&self, height: u64) -> Option<&Arc<Block>> {
        let offset = height.checked_sub(self.base())?;
        self.blocks.get(usize::try_from(offset).ok()?)
    }

    /// Whether transactions are indexed.
    pub(crate) fn has_tx_index(&self) -> bool {
        self.tx_places.is_some()
    }

    pub(crate) fn tx_place(&self, hash: &[u8]) -> Option<TxPlace> {
        self.tx_places.as_ref()?.get(hash).copied()
    }

    /// What the next block builds on.
    pub(crate) fn previous(&self, first_app_hash: &[u8]) -> Previous {
        match self.latest() {
            Some(block) => Previous {
                hash: Some(block.hash),
                voted: Some(block.voted),
                app_hash: block.app_hash.clone(),
                results_hash: block.results_hash(),
            },
            None => Previous {
                hash: None,
                voted: None,
                app_hash: first_app_hash.to_vec(),
                results_hash: root::<Hash>(&[]),
            },
        }
    }

    /// Appends the next block and drops old ones past the bounds.
    pub(crate) fn push(&mut self, block: Arc<Block>) {
        let height = block.header.height;
        if let Some(places) = &mut self.tx_places {
            for (index, tx) in (0_u32..).zip(&block.txs) {
                places.insert(tx.hash, TxPlace { height, index });
            }
        }
        self.bytes += self.kept_bytes(&block);
        self.blocks.push_back(block);
        while self.blocks.len() > LEAST_BLOCKS
            && (self.blocks.len() > self.retention.blocks || self.bytes > self.retention.bytes)
        {
            self.drop_oldest();
        }
    }

    /// About how much memory a block takes: for each transaction its bytes, two allocations, its place
    /// in the block and, if there is an index, its entry, of which a hash table keeps up to twice as
    /// many as it has.
    fn kept_bytes(&self, block: &Block) -> usize {
        let entry = match self.tx_places {
            Some(_) => 2 * (size_of::<(Hash, TxPlace)>() + 1),
            None => 0,
        };
        let each = size_of::<Tx>() + 2 * ALLOCATION_BYTES + entry;
        let bytes: usize = block.txs.iter().map(|tx| tx.bytes.len()).sum();
        BLOCK_BYTES + block.txs.len() * each + bytes
    }

    fn drop_oldest(&mut self) {
        let Some(block) = self.blocks.pop_front() else {
            return;
        };
        self.bytes -= self.kept_bytes(&block);
        if let Some(places) = &mut self.tx_places {
            for tx in &block.txs {
                // A transaction that was committed again later belongs to the later block.
                if places
                    .get(&tx.hash)
                    .is_some_and(|place| place.height == block.header.height)
                {
                    places.remove(&tx.hash);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::chain::{BlockTime, Genesis, Proposal};
    use crate::config::Config;

    fn chain(retention: Retention, heights: u64) -> Store {
        let genesis = Genesis::new(&Config::default(), BlockTime::from_unix_nanos(1));
        let mut store = Store::new(retention, true);
        for height in 1..=heights {
            let txs = vec![Tx::new(Bytes::from(format!("k{height}=v")))];
            let previous = store.previous(&[0; 8]);
            let proposal = Proposal {
                height,
                txs,
                previous,
            };
            let mut block = Block::new(&genesis, proposal, BlockTime::from_unix_nanos(2));
            block.app_hash = vec![1; 8];
            store.push(Arc::new(block));
        }
        store
    }

    #[test]
    fn old_blocks_go_with_their_transactions() {
        let store = chain(
            Retention {
                blocks: 3,
                bytes: usize::MAX,
            },
            10,
        );
        assert_eq!((store.base(), store.height()), (8, 10));
        let gone = Tx::new(Bytes::from_static(b"k7=v"));
        let kept = Tx::new(Bytes::from_static(b"k8=v"));
        assert_eq!(store.tx_place(&gone.hash), None);
        assert_eq!(
            store.tx_place(&kept.hash),
            Some(TxPlace {
                height: 8,
                index: 0
            })
        );
    }

    /// What is counted is at least what the parts of a transaction take in memory, which is many times
    /// what it takes in the block's own encoding.
    #[test]
    fn the_bound_in_bytes_counts_the_memory_of_small_transactions() {
        let bytes = 400_000;
        let mut store = Store::new(
            Retention {
                blocks: usize::MAX,
                bytes,
            },
            true,
        );
        let genesis = Genesis::new(&Config::default(), BlockTime::from_unix_nanos(1));
        for height in 1..=60 {
            let tx = |number: u64| Tx::new(Bytes::from(format!("{height}={number}")));
            let proposal = Proposal {
                height,
                txs: (0..300).map(tx).collect(),
                previous: store.previous(&[0; 8]),
            };
            let now = BlockTime::from_unix_nanos(2);
            store.push(Arc::new(Block::new(&genesis, proposal, now)));
        }
        let kept: usize = store.blocks.iter().map(|block| block.txs.len()).sum();
        let least_each = size_of::<Tx>() + size_of::<(Hash, TxPlace)>();
        assert!(kept * least_each <= bytes, "{kept} transactions are kept");
        assert!(store.blocks.len() > LEAST_BLOCKS);
    }

    #[test]
    fn two_blocks_stay_whatever_the_bound() {
        let store = chain(
            Retention {
                blocks: 0,
                bytes: 0,
            },
            5,
        );
        assert_eq!((store.base(), store.height()), (4, 5));
    }

    #[test]
    fn block_times_rise_though_the_clock_stands_still() {
        let store = chain(
            Retention {
                blocks: 10,
                bytes: usize::MAX,
            },
            4,
        );
        let times: Vec<BlockTime> = store.blocks.iter().map(|block| block.header.time).collect();
        assert!(times.is_sorted_by(|a, b| a < b));
    }
}
