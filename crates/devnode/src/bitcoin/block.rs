//! Making blocks.

use std::hash::{BuildHasher as _, RandomState};

use bitcoin::absolute::LockTime;
use bitcoin::block::{Block, Header, Version};
use bitcoin::hashes::Hash as _;
use bitcoin::opcodes::all::OP_RETURN;
use bitcoin::script::Builder;
use bitcoin::transaction::Version as TxVersion;
use bitcoin::{
    Amount, CompactTarget, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut,
    Witness,
};

use super::chain::Chain;
use super::ledger::Pooled;

/// The easiest target: every second hash meets it.
pub(super) const BITS: u32 = 0x207f_ffff;
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
    // Nobody is paid: the value is burnt.
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
