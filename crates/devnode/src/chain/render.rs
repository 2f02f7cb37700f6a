//! Blocks, headers, commits and proofs as JSON.

use wire::json::write as json;

use super::block::{Block, Tx};
use super::header::{
    APP_VERSION, BLOCK_PROTOCOL, BlockId, Commit, CommitSignature, Header, optional,
};
use super::merkle::Proof;

/// Appends a block id.
pub(crate) fn block_id(out: &mut Vec<u8>, id: &BlockId) {
    json::fill(
        out,
        r#"{"hash":?,"parts":{"total":?,"hash":?}}"#,
        &[
            &json::Hex(optional(&id.hash)),
            &json::Int(id.parts_total),
            &json::Hex(optional(&id.parts_hash)),
        ],
    );
}

/// Appends a header.
pub(crate) fn header(out: &mut Vec<u8>, header: &Header) {
    json::fill(
        out,
        r#"{"version":{"block":?,"app":?},"chain_id":?,"height":?,"time":?,"last_block_id":?,"last_commit_hash":?,"data_hash":?,"validators_hash":?,"next_validators_hash":?,"consensus_hash":?,"app_hash":?,"last_results_hash":?,"evidence_hash":?,"proposer_address":?}"#,
        &[
            &json::IntText(BLOCK_PROTOCOL),
            &json::IntText(APP_VERSION),
            &json::Text(&header.chain_id),
            &json::IntText(header.height),
            &json::Text(&header.time.text()),
            &json::With(block_id, &header.last_block_id),
            &json::Hex(&header.last_commit_hash),
            &json::Hex(&header.data_hash),
            &json::Hex(&header.validators_hash),
            &json::Hex(&header.validators_hash),
            &json::Hex(&header.consensus_hash),
            &json::Hex(&header.app_hash),
            &json::Hex(&header.last_results_hash),
            &json::Hex(&header.evidence_hash),
            &json::Hex(&header.proposer),
        ],
    );
}

/// Appends a commit.
pub(crate) fn commit(out: &mut Vec<u8>, commit: &Commit) {
    let signatures =
        |out: &mut Vec<u8>| json::array(out, commit.signature.iter(), commit_signature);
    json::fill(
        out,
        r#"{"height":?,"round":0,"block_id":?,"signatures":?}"#,
        &[
            &json::IntText(commit.height),
            &json::With(block_id, &commit.block_id),
            &signatures,
        ],
    );
}

fn commit_signature(out: &mut Vec<u8>, signature: &CommitSignature) {
    json::fill(
        out,
        r#"{"block_id_flag":?,"validator_address":?,"timestamp":?,"signature":?}"#,
        &[
            &json::Int(CommitSignature::FOR_BLOCK),
            &json::Hex(&signature.address),
            &json::Text(&signature.time.text()),
            &json::Base64(&signature.signature),
        ],
    );
}

/// Appends a block.
pub(crate) fn block(out: &mut Vec<u8>, block: &Block) {
    json::fill(
        out,
        r#"{"header":?,"data":{"txs":?},"evidence":{"evidence":[]},"last_commit":?}"#,
        &[
            &json::With(header, &block.header),
            &json::With(txs, &block.txs),
            &json::With(commit, &block.last_commit),
        ],
    );
}

/// Appends transactions as a list of base64 strings.
pub(crate) fn txs(out: &mut Vec<u8>, txs: &[Tx]) {
    json::array(out, txs, |out, tx| json::base64(out, &tx.bytes));
}

/// Appends `{"block_id":…,"block":…}`.
pub(crate) fn block_with_id(out: &mut Vec<u8>, of: Option<&Block>) {
    let id = of.map(|block| block.id).unwrap_or_default();
    let content: &dyn json::Value = match of {
        Some(found) => &json::With(block, found),
        None => &json::Raw("null"),
    };
    let values = [&json::With(block_id, &id), content];
    json::fill(out, r#"{"block_id":?,"block":?}"#, &values);
}

/// Appends a block's summary, as `blockchain` lists it.
pub(crate) fn block_meta(out: &mut Vec<u8>, block: &Block) {
    json::fill(
        out,
        r#"{"block_id":?,"block_size":?,"header":?,"num_txs":?}"#,
        &[
            &json::With(block_id, &block.id),
            &json::IntText(block.size),
            &json::With(header, &block.header),
            &json::IntText(block.txs.len()),
        ],
    );
}

/// Appends the proof that a transaction is in a block.
pub(crate) fn tx_proof(out: &mut Vec<u8>, root: &[u8], tx: &[u8], proof: &Proof) {
    let aunts = |out: &mut Vec<u8>| {
        json::array(out, &proof.aunts, |out, aunt| json::base64(out, aunt));
    };
    json::fill(
        out,
        r#"{"root_hash":?,"data":?,"proof":{"total":?,"index":?,"leaf_hash":?,"aunts":?}}"#,
        &[
            &json::Hex(root),
            &json::Base64(tx),
            &json::IntText(proof.total),
            &json::IntText(proof.index),
            &json::Base64(&proof.leaf_hash),
            &aunts,
        ],
    );
}
