//! Makes blocks: header, parts, hash, and the commit that makes them final.

use std::sync::Arc;

use bigchain::Effect;
use bytes::Bytes;

use super::genesis::Genesis;
use super::header::{BlockId, Commit, CommitSignature, Header};
use super::merkle::{self, Hash, sha256};
use super::validator::Vote;
use crate::chain::proto;
use crate::chain::time::BlockTime;
use crate::config::Application;

/// Bytes of a block part (`BlockPartSizeBytes` in `types/params.go`).
const PART_BYTES: usize = 65_536;

/// A transaction with its key.
#[derive(Debug, Clone)]
pub(crate) struct Tx {
    pub(crate) bytes: Bytes,
    pub(crate) hash: Hash,
    /// What its check learnt for the block: with BigchainDB, what it does to the ledger. None of a
    /// transaction in a committed block.
    pub(crate) effect: Option<Arc<Effect>>,
}

impl Tx {
    pub(crate) fn new(bytes: Bytes) -> Self {
        let hash = sha256(&bytes);
        Self {
            bytes,
            hash,
            effect: None,
        }
    }
}

/// What executing a transaction gave beside its code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) data: Vec<u8>,
    pub(crate) log: String,
    /// Of its code.
    pub(crate) codespace: &'static str,
    pub(crate) gas_wanted: u64,
    pub(crate) gas_used: u64,
    /// Whether it paid its fee, of an application that takes one.
    pub(crate) paid: bool,
}

impl Outcome {
    /// Of applications that give none.
    const NONE: &Self = &Self {
        data: Vec::new(),
        log: String::new(),
        codespace: "",
        gas_wanted: 0,
        gas_used: 0,
        paid: false,
    };
}

/// A final block with everything a query may ask about it.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) header: Header,
    pub(crate) id: BlockId,
    /// Bytes of the block's protobuf form.
    pub(crate) size: usize,
    pub(crate) txs: Vec<Tx>,
    /// Transactions in the chain up to this block.
    pub(crate) total_txs: u64,
    /// Result codes of transactions that failed, by index in ascending order; all others are 0.
    pub(crate) failed: Vec<(u32, u32)>,
    /// Outcomes of the transactions, of an application that gives any; else empty.
    pub(crate) outcomes: Vec<Outcome>,
    /// The commit of the height before, which this block carries.
    pub(crate) last_commit: Commit,
    /// The commit of this block itself.
    pub(crate) commit: Commit,
    /// Hash of the application after this block; the next header carries it.
    pub(crate) app_hash: Vec<u8>,
    /// Validator updates that the application asked for: public key and power.
    pub(crate) validator_updates: Vec<(Vec<u8>, i64)>,
    /// The application that executed it: the results of its transactions depend on it.
    pub(crate) app: Application,
}

impl Block {
    /// Result code of a transaction.
    pub(crate) fn code(&self, index: usize) -> u32 {
        let place = self
            .failed
            .binary_search_by_key(&index, |(failed, _)| *failed as usize);
        place.map_or(0, |at| self.failed[at].1)
    }

    /// What executing a transaction gave beside its code.
    pub(crate) fn outcome(&self, index: usize) -> &Outcome {
        self.outcomes.get(index).unwrap_or(Outcome::NONE)
    }

    /// Root over the results (`ABCIResults.Hash`): only code, data and gas count.
    pub(crate) fn results_hash(&self) -> Hash {
        let result = |index| {
            let outcome = self.outcome(index);
            let mut result = Vec::new();
            proto::int_field(&mut result, 1, i64::from(self.code(index)));
            proto::bytes_field(&mut result, 2, &outcome.data);
            proto::int_field(&mut result, 5, outcome.gas_wanted.cast_signed());
            proto::int_field(&mut result, 6, outcome.gas_used.cast_signed());
            result
        };
        let results: Vec<Vec<u8>> = (0..self.txs.len()).map(result).collect();
        merkle::root(&results)
    }
}

/// What the next block needs to know of the one before.
#[derive(Debug, Clone)]
pub(crate) struct Previous {
    pub(crate) id: BlockId,
    pub(crate) commit: Commit,
    pub(crate) app_hash: Vec<u8>,
    pub(crate) results_hash: Hash,
    pub(crate) total_txs: u64,
}

/// What the first block, or the next, is made of.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) app: Application,
    pub(crate) height: u64,
    pub(crate) txs: Vec<Tx>,
    pub(crate) previous: Previous,
}

impl Block {
    /// Builds, hashes and signs the block of a proposal. What its execution does is not in it yet.
    pub(crate) fn new(genesis: &Genesis, proposal: Proposal, now: BlockTime) -> Self {
        let Proposal {
            app,
            height,
            txs,
            previous,
        } = proposal;
        let header = header(genesis, height, &txs, &previous);
        let encoded = encode(&header, &txs, &previous.commit);
        let parts: Vec<&[u8]> = encoded.chunks(PART_BYTES).collect();
        let id = BlockId {
            hash: Some(header.hash()),
            parts_total: u32::try_from(parts.len()).unwrap_or(u32::MAX),
            parts_hash: Some(merkle::root(&parts)),
        };
        // The vote's time is now, but later than the block's.
        let time = now.max(header.time.next_millisecond());
        Self {
            commit: commit(genesis, height, id, time),
            header,
            id,
            size: encoded.len(),
            total_txs: previous.total_txs + txs.len() as u64,
            txs,
            failed: Vec::new(),
            outcomes: Vec::new(),
            last_commit: previous.commit,
            app_hash: Vec::new(),
            validator_updates: Vec::new(),
            app,
        }
    }
}

fn header(genesis: &Genesis, height: u64, txs: &[Tx], previous: &Previous) -> Header {
    // The time of a block is when the one before was voted for; the first has that of the genesis.
    let voted = previous.commit.signature.map(|signature| signature.time);
    let hashes: Vec<Hash> = txs.iter().map(|tx| tx.hash).collect();
    Header {
        chain_id: genesis.chain_id.clone(),
        height,
        time: voted.unwrap_or(genesis.time),
        last_block_id: previous.id,
        last_commit_hash: previous.commit.hash(),
        data_hash: merkle::root(&hashes),
        validators_hash: genesis.validator.set_hash(),
        consensus_hash: genesis.consensus_hash(),
        app_hash: previous.app_hash.clone(),
        last_results_hash: previous.results_hash,
        evidence_hash: sha256(&[]),
        proposer: genesis.validator.address,
    }
}

/// The commit of a block, signed by the one validator.
fn commit(genesis: &Genesis, height: u64, block_id: BlockId, time: BlockTime) -> Commit {
    let vote = Vote {
        chain_id: &genesis.chain_id,
        height,
        block_id: &block_id,
        time,
    };
    let signature = CommitSignature {
        address: genesis.validator.address,
        time,
        signature: genesis.validator.sign(&vote),
    };
    Commit {
        height,
        block_id,
        signature: Some(signature),
    }
}

/// Bytes that transactions of these lengths take in a block's data.
pub(crate) fn data_bytes(tx_len: usize) -> usize {
    proto::message_len(tx_len)
}

/// `Block` of CometBFT 0.38.
fn encode(header: &Header, txs: &[Tx], last_commit: &Commit) -> Vec<u8> {
    let data_len: usize = txs.iter().map(|tx| data_bytes(tx.bytes.len())).sum();
    let mut data = Vec::with_capacity(data_len);
    for tx in txs {
        proto::message(&mut data, 1, &tx.bytes);
    }
    let mut out = Vec::with_capacity(data_len + 1024);
    proto::message(&mut out, 1, &header.proto());
    proto::message(&mut out, 2, &data);
    proto::message(&mut out, 3, &[]);
    proto::message(&mut out, 4, &last_commit.proto());
    out
}
