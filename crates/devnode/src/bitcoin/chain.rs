//! The blocks, and how one is made.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::Builder;
use bitcoin::transaction::Version as TxVersion;
use bitcoin::{
    Amount, Block, BlockHash, CompactTarget, Network, OutPoint, ScriptBuf, Sequence, Transaction,
    TxIn, TxMerkleNode, TxOut, Witness,
};

use super::ledger::{Pooled, Undo};

/// Headers whose median is the least time of the next block (BIP 113).
const MEDIAN_OF: usize = 11;

/// A block with what it takes to disconnect it.
#[derive(Debug)]
pub(super) struct StoredBlock {
    pub(super) block: Block,
    pub(super) undo: Undo,
    bytes: usize,
}

/// All headers, and the newest blocks.
///
/// Its bound is that of kept blocks, and 152 bytes for each height.
#[derive(Debug)]
pub(super) struct Chain {
    /// Of every height, for peers that ask from the first block on.
    headers: Vec<(BlockHash, Header)>,
    heights: HashMap<BlockHash, u32>,
    /// The newest, with the tip last.
    kept: VecDeque<StoredBlock>,
    bytes: usize,
    retain_blocks: usize,
    retain_bytes: usize,
}

impl Chain {
    pub(super) fn new(retain_blocks: usize, retain_bytes: usize) -> Self {
        let mut chain = Self {
            headers: Vec::new(),
            heights: HashMap::new(),
            kept: VecDeque::new(),
            bytes: 0,
            retain_blocks: retain_blocks.max(MEDIAN_OF),
            retain_bytes,
        };
        chain.push(genesis_block(Network::Regtest), Undo::default());
        chain
    }

    pub(super) fn height(&self) -> u32 {
        u32::try_from(self.headers.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn tip(&self) -> BlockHash {
        self.headers[self.headers.len() - 1].0
    }

    /// The lowest height whose block is kept.
    pub(super) fn base(&self) -> u32 {
        let kept = u32::try_from(self.kept.len()).unwrap_or(u32::MAX);
        (self.height() + 1).saturating_sub(kept)
    }

    pub(super) fn hash_at(&self, height: u32) -> Option<BlockHash> {
        self.headers.get(height as usize).map(|(hash, _)| *hash)
    }

    pub(super) fn header_at(&self, height: u32) -> Option<Header> {
        self.headers.get(height as usize).map(|(_, header)| *header)
    }

    pub(super) fn height_of(&self, hash: &BlockHash) -> Option<u32> {
        self.heights.get(hash).copied()
    }

    /// A block that is kept.
    pub(super) fn at(&self, height: u32) -> Option<&StoredBlock> {
        self.kept.get(height.checked_sub(self.base())? as usize)
    }

    /// Median time of the newest blocks.
    pub(super) fn median_time(&self) -> u32 {
        let newest = self.kept.iter().rev().take(MEDIAN_OF);
        let mut times: Vec<u32> = newest.map(|kept| kept.block.header.time).collect();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    pub(super) fn push(&mut self, block: Block, undo: Undo) -> BlockHash {
        let hash = block.block_hash();
        let height = u32::try_from(self.headers.len()).unwrap_or(u32::MAX);
        self.heights.insert(hash, height);
        self.headers.push((hash, block.header));
        let bytes = block.total_size();
        self.bytes += bytes;
        self.kept.push_back(StoredBlock { block, undo, bytes });
        while self.kept.len() > self.retain_blocks
            || (self.bytes > self.retain_bytes && self.kept.len() > MEDIAN_OF)
        {
            let dropped = self.kept.pop_front().map_or(0, |kept| kept.bytes);
            self.bytes -= dropped;
        }
        hash
    }

    /// Takes out a block and all above it, the newest first; none if it is unknown, the first, or not
    /// kept.
    pub(super) fn pop_from(&mut self, hash: &BlockHash) -> Option<Vec<StoredBlock>> {
        let height = self.height_of(hash)?;
        if height == 0 || height < self.base() {
            return None;
        }
        let at = (height - self.base()) as usize;
        let popped: Vec<StoredBlock> = self.kept.drain(at..).rev().collect();
        self.bytes -= popped.iter().map(|kept| kept.bytes).sum::<usize>();
        for (hash, _) in self.headers.drain(height as usize..) {
            self.heights.remove(&hash);
        }
        Some(popped)
    }
}

/// The easiest target: every second hash meets it.
const BITS: u32 = 0x207f_ffff;
/// Version of BIP 9 without a signal.
const VERSION: i32 = 0x2000_0000;
/// A coinbase's first value.
const SUBSIDY: Amount = Amount::from_int_btc(50);
/// Blocks after which it is halved on the regression-test network (`chaincfg` of btcd).
const HALVING: u32 = 150;

/// A block of these transactions on top of the chain.
pub(super) fn mine(chain: &Chain, txs: Vec<Pooled>, payout: Option<ScriptBuf>, now: u64) -> Block {
    let height = chain.height() + 1;
    let fees: Amount = txs.iter().map(|pooled| pooled.fee).sum();
    let mut txdata = vec![coinbase(height, fees, payout)];
    txdata.extend(txs.into_iter().map(|pooled| pooled.tx));
    let now = u32::try_from(now).unwrap_or(u32::MAX);
    let header = Header {
        version: Version::from_consensus(VERSION),
        prev_blockhash: chain.tip(),
        merkle_root: TxMerkleNode::all_zeros(),
        time: now.max(chain.median_time() + 1),
        bits: CompactTarget::from_consensus(BITS),
        nonce: 0,
    };
    let mut block = Block { header, txdata };
    block.header.merkle_root = block
        .compute_merkle_root()
        .unwrap_or(TxMerkleNode::all_zeros());
    while block.header.validate_pow(block.header.target()).is_err() {
        block.header.nonce = block.header.nonce.wrapping_add(1);
    }
    block
}

fn coinbase(height: u32, fees: Amount, payout: Option<ScriptBuf>) -> Transaction {
    // So that no two chains, and no two blocks of a height, share the id of a coinbase.
    let extra_nonce = RandomState::new().hash_one(height).to_le_bytes();
    // The value is burnt.
    let burn = || Builder::new().push_opcode(OP_RETURN).into_script();
    Transaction {
        version: TxVersion::ONE,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            // BIP 34 wants the height first.
            script_sig: Builder::new()
                .push_int(height.into())
                .push_slice(extra_nonce)
                .into_script(),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: vec![TxOut {
            value: subsidy(height) + fees,
            script_pubkey: payout.unwrap_or_else(burn),
        }],
    }
}

fn subsidy(height: u32) -> Amount {
    let halvings = height / HALVING;
    Amount::from_sat(SUBSIDY.to_sat().checked_shr(halvings).unwrap_or(0))
}
