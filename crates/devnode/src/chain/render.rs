//! Blocks, headers, commits and proofs as JSON.

use wire::json::write as json;

use super::block::{Block, Tx};
use super::header::{BLOCK_PROTOCOL, BlockId, Commit, CommitSignature, Header, optional};
use super::merkle::Proof;

/// Appends a block id.
pub(crate) fn block_id(out: &mut Vec<u8>, id: &BlockId) {
    json::raw(out, r#"{"hash":"#);
    json::hex(out, optional(&id.hash));
    json::raw(out, r#","parts":{"total":"#);
    json::int(out, id.parts_total);
    json::raw(out, r#","hash":"#);
    json::hex(out, optional(&id.parts_hash));
    json::raw(out, "}}");
}

/// Appends a header.
pub(crate) fn header(out: &mut Vec<u8>, header: &Header) {
    json::raw(out, r#"{"version":{"block":"#);
    json::int_text(out, BLOCK_PROTOCOL);
    json::raw(out, r#","app":"#);
    json::int_text(out, header.app_version);
    json::raw(out, r#"},"chain_id":"#);
    json::string(out, &header.chain_id);
    json::raw(out, r#","height":"#);
    json::int_text(out, header.height);
    json::raw(out, r#","time":"#);
    json::string(out, &header.time.text());
    json::raw(out, r#","last_block_id":"#);
    block_id(out, &header.last_block_id);
    for (name, value) in [
        ("last_commit_hash", header.last_commit_hash.as_slice()),
        ("data_hash", &header.data_hash),
        ("validators_hash", &header.validators_hash),
        ("next_validators_hash", &header.validators_hash),
        ("consensus_hash", &header.consensus_hash),
        ("app_hash", &header.app_hash),
        ("last_results_hash", &header.last_results_hash),
        ("evidence_hash", &header.evidence_hash),
        ("proposer_address", &header.proposer),
    ] {
        json::raw(out, ",\"");
        json::raw(out, name);
        json::raw(out, "\":");
        json::hex(out, value);
    }
    out.push(b'}');
}

/// Appends a commit.
pub(crate) fn commit(out: &mut Vec<u8>, commit: &Commit) {
    json::raw(out, r#"{"height":"#);
    json::int_text(out, commit.height);
    json::raw(out, r#","round":0,"block_id":"#);
    block_id(out, &commit.block_id);
    json::raw(out, r#","signatures":"#);
    json::array(out, commit.signature.iter(), |out, signature| {
        json::raw(out, r#"{"block_id_flag":"#);
        json::int(out, CommitSignature::FOR_BLOCK);
        json::raw(out, r#","validator_address":"#);
        json::hex(out, &signature.address);
        json::raw(out, r#","timestamp":"#);
        json::string(out, &signature.time.text());
        json::raw(out, r#","signature":"#);
        json::base64(out, &signature.signature);
        out.push(b'}');
    });
    out.push(b'}');
}

/// Appends a block.
pub(crate) fn block(out: &mut Vec<u8>, block: &Block) {
    json::raw(out, r#"{"header":"#);
    header(out, &block.header);
    json::raw(out, r#","data":{"txs":"#);
    txs(out, &block.txs);
    json::raw(out, r#"},"evidence":{"evidence":[]},"last_commit":"#);
    commit(out, &block.last_commit);
    out.push(b'}');
}

/// Appends transactions as a list of base64 strings.
pub(crate) fn txs(out: &mut Vec<u8>, txs: &[Tx]) {
    json::array(out, txs, |out, tx| json::base64(out, &tx.bytes));
}

/// Appends `{"block_id":…,"block":…}`.
pub(crate) fn block_with_id(out: &mut Vec<u8>, of: Option<&Block>) {
    json::raw(out, r#"{"block_id":"#);
    block_id(out, &of.map(|block| block.id).unwrap_or_default());
    json::raw(out, r#","block":"#);
    match of {
        Some(found) => block(out, found),
        None => json::raw(out, "null"),
    }
    out.push(b'}');
}

/// Appends a block's summary, as `blockchain` lists it.
pub(crate) fn block_meta(out: &mut Vec<u8>, block: &Block) {
    json::raw(out, r#"{"block_id":"#);
    block_id(out, &block.id);
    json::raw(out, r#","block_size":"#);
    json::int_text(out, block.size);
    json::raw(out, r#","header":"#);
    header(out, &block.header);
    json::raw(out, r#","num_txs":"#);
    json::int_text(out, block.txs.len());
    out.push(b'}');
}

/// Appends the proof that a transaction is in a block.
pub(crate) fn tx_proof(out: &mut Vec<u8>, root: &[u8], tx: &[u8], proof: &Proof) {
    json::raw(out, r#"{"root_hash":"#);
    json::hex(out, root);
    json::raw(out, r#","data":"#);
    json::base64(out, tx);
    json::raw(out, r#","proof":{"total":"#);
    json::int_text(out, proof.total);
    json::raw(out, r#","index":"#);
    json::int_text(out, proof.index);
    json::raw(out, r#","leaf_hash":"#);
    json::base64(out, &proof.leaf_hash);
    json::raw(out, r#","aunts":"#);
    json::array(out, &proof.aunts, |out, aunt| json::base64(out, aunt));
    json::raw(out, "}}");
}
