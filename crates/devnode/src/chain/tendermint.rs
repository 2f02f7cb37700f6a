//! Blocks and results in the shapes of Tendermint 0.31.5: results of zero are left out, a block's results
//! are called `DeliverTx`, headers count transactions, commits hold votes.

use wire::json::write as json;

use super::block::Block;
use super::header::{BlockId, Commit, CommitSignature, optional};
use super::merkle::{Hash, sha256};
use super::render;

/// Appends the code of a result, if it is not 0.
pub(crate) fn result(out: &mut Vec<u8>, code: &u32) {
    match *code {
        0 => json::raw(out, "{}"),
        code => json::fill(out, r#"{"code":?}"#, &[&json::Int(code)]),
    }
}

/// Appends the results of a block; those of code 0 are `null`.
pub(crate) fn block_results(out: &mut Vec<u8>, block: &Block) {
    let txs = |out: &mut Vec<u8>| {
        let codes = (0..block.txs.len()).map(|index| block.code(index));
        json::array(out, codes, |out, code| match code {
            0 => json::raw(out, "null"),
            code => result(out, &code),
        });
    };
    let none = json::Raw("null");
    let txs: &dyn json::Value = if block.txs.is_empty() { &none } else { &txs };
    json::fill(
        out,
        r#"{"height":?,"results":{"DeliverTx":?,"EndBlock":{"validator_updates":null},"BeginBlock":{}}}"#,
        &[&json::IntText(block.header.height), txs],
    );
}

/// Appends a block's summary.
pub(crate) fn block_meta(out: &mut Vec<u8>, block: &Block) {
    let values = [
        &json::With(block_id, &block.id) as _,
        &json::With(header, block) as _,
    ];
    json::fill(out, r#"{"block_id":?,"header":?}"#, &values);
}

/// Appends a block.
pub(crate) fn block(out: &mut Vec<u8>, block: &Block) {
    let txs: &dyn json::Value = match &block.txs[..] {
        [] => &json::Raw("null"),
        txs => &json::With(render::txs, txs),
    };
    let values = [
        &json::With(header, block) as _,
        txs,
        &json::With(commit, &block.last_commit) as _,
    ];
    let template = r#"{"header":?,"data":{"txs":?},"evidence":{"evidence":null},"last_commit":?}"#;
    json::fill(out, template, &values);
}

/// Appends a block's header.
pub(crate) fn header(out: &mut Vec<u8>, block: &Block) {
    let header = &block.header;
    json::fill(
        out,
        r#"{"version":{"block":"10","app":"0"},"chain_id":?,"height":?,"time":?,"num_txs":?,"total_txs":?,"last_block_id":?,"last_commit_hash":?,"data_hash":?,"validators_hash":?,"next_validators_hash":?,"consensus_hash":?,"app_hash":?,"last_results_hash":?,"evidence_hash":"","proposer_address":?}"#,
        &[
            &json::Text(&header.chain_id),
            &json::IntText(header.height),
            &json::Text(&header.time.text()),
            &json::IntText(block.txs.len()),
            &json::IntText(block.total_txs),
            &json::With(block_id, &header.last_block_id),
            &json::Hex(root(&header.last_commit_hash)),
            &json::Hex(root(&header.data_hash)),
            &json::Hex(&header.validators_hash),
            &json::Hex(&header.validators_hash),
            &json::Hex(&header.consensus_hash),
            &json::Hex(&header.app_hash),
            &json::Hex(root(&header.last_results_hash)),
            &json::Hex(&header.proposer),
        ],
    );
}

/// A Merkle root; that of nothing is empty.
fn root(hash: &Hash) -> &[u8] {
    if *hash == sha256(&[]) { &[] } else { hash }
}

fn block_id(out: &mut Vec<u8>, id: &BlockId) {
    json::fill(
        out,
        r#"{"hash":?,"parts":{"total":?,"hash":?}}"#,
        &[
            &json::Hex(optional(&id.hash)),
            &json::IntText(id.parts_total),
            &json::Hex(optional(&id.parts_hash)),
        ],
    );
}

fn commit(out: &mut Vec<u8>, commit: &Commit) {
    let votes = |out: &mut Vec<u8>| match &commit.signature {
        None => json::raw(out, "null"),
        Some(signature) => vote(out, commit, signature),
    };
    let values = [&json::With(block_id, &commit.block_id) as _, &votes as _];
    json::fill(out, r#"{"block_id":?,"precommits":?}"#, &values);
}

fn vote(out: &mut Vec<u8>, commit: &Commit, signature: &CommitSignature) {
    json::fill(
        out,
        r#"[{"type":2,"height":?,"round":"0","block_id":?,"timestamp":?,"validator_address":?,"validator_index":"0","signature":?}]"#,
        &[
            &json::IntText(commit.height),
            &json::With(block_id, &commit.block_id),
            &json::Text(&signature.time.text()),
            &json::Hex(&signature.address),
            &json::Base64(&signature.signature),
        ],
    );
}
