//! Transactions and blocks found by hash or by query.

use std::sync::Arc;

use wire::encoding::decode_hex;
use wire::encoding::hex_text;
use wire::json::write as json;

use crate::app::{events, events_of};
use crate::chain::block::Block;
use crate::chain::merkle::{Hash, prove};
use crate::chain::render;
use crate::events::bus::MAX_QUERY_LEN;
use crate::events::query::{Argument, Operator, Query};
use crate::node::Node;
use crate::results;
use crate::rpc::params::Args;

const INDEX_OFF: &str = "transaction indexing is disabled";

/// A transaction in a block.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) block: Arc<Block>,
    pub(super) index: usize,
}

pub(super) fn tx(node: &Node, hash: &[u8], with_proof: bool) -> Result<Vec<u8>, String> {
    if !node.store().has_tx_index() {
        return Err(INDEX_OFF.to_owned());
    }
    if hash.is_empty() {
        return Err("transaction hash cannot be empty".to_owned());
    }
    let found = find(node, hash).ok_or_else(|| format!("tx ({}) not found", hex_text(hash)))?;
    let mut out = Vec::with_capacity(1024);
    write_tx(&mut out, &found, with_proof);
    Ok(out)
}

/// A transaction by its hash, if its block is kept.
pub(super) fn find(node: &Node, hash: &[u8]) -> Option<Found> {
    let store = node.store();
    let place = store.tx_place(hash)?;
    Some(Found {
        block: Arc::clone(store.block(place.height)?),
        index: place.index as usize,
    })
}

fn write_tx(out: &mut Vec<u8>, found: &Found, with_proof: bool) {
    let Found { block, index } = found;
    let tx = &block.txs[*index];
    let result = |out: &mut Vec<u8>| results::tx_result(out, block, *index);
    let proof = |out: &mut Vec<u8>| {
        if with_proof {
            let hashes: Vec<Hash> = block.txs.iter().map(|tx| tx.hash).collect();
            let (root, proof) = prove(&hashes, *index);
            json::raw(out, r#","proof":"#);
            render::tx_proof(out, &root, &tx.bytes, &proof);
        }
    };
    json::fill(
        out,
        r#"{"hash":?,"height":?,"index":?,"tx_result":?,"tx":??}"#,
        &[
            &json::Hex(&tx.hash),
            &json::IntText(block.header.height),
            &json::Int(*index),
            &result,
            &json::Base64(&tx.bytes),
            &proof,
        ],
    );
}

pub(super) fn tx_search(node: &Node, args: &Args) -> Result<Vec<u8>, String> {
    if !node.store().has_tx_index() {
        return Err(INDEX_OFF.to_owned());
    }
    if args.text(0).len() > MAX_QUERY_LEN {
        return Err("maximum query length exceeded".to_owned());
    }
    let query = Query::parse(args.text(0))?;
    let mut found = matching_txs(node, &query)?;
    if descending(args.text(4), false)? {
        found.reverse();
    }
    let (skip, take) = super::page(args.maybe(2), super::per_page(args.maybe(3)), found.len())?;
    let txs = |out: &mut Vec<u8>| {
        json::array(out, &found[skip..skip + take], |out, found| {
            write_tx(out, found, args.flag(1));
        });
    };
    let template = r#"{"txs":?,"total_count":?}"#;
    Ok(json::filled(template, &[&txs, &json::IntText(found.len())]))
}

pub(super) fn block_search(node: &Node, args: &Args) -> Result<Vec<u8>, String> {
    if !node.store().has_tx_index() {
        return Err("block indexing is disabled".to_owned());
    }
    let query = Query::parse(args.text(0))?;
    let mut found: Vec<Arc<Block>> = {
        let store = node.store();
        store
            .blocks()
            .filter(|block| block_matches(&query, block))
            .cloned()
            .collect()
    };
    if descending(args.text(3), true)? {
        found.reverse();
    }
    let (skip, take) = super::page(args.maybe(1), super::per_page(args.maybe(2)), found.len())?;
    let blocks = |out: &mut Vec<u8>| {
        json::array(out, &found[skip..skip + take], |out, block| {
            render::block_with_id(out, Some(block));
        });
    };
    let template = r#"{"blocks":?,"total_count":?}"#;
    Ok(json::filled(
        template,
        &[&blocks, &json::IntText(found.len())],
    ))
}

fn descending(order: &str, default: bool) -> Result<bool, String> {
    match order {
        "" => Ok(default),
        "asc" => Ok(false),
        "desc" => Ok(true),
        _ => Err("expected order_by to be either `asc` or `desc` or empty".to_owned()),
    }
}

fn block_matches(query: &Query, block: &Block) -> bool {
    let height = block.header.height.to_string();
    query.matches(&[("block.height", vec![height.as_str()])])
}

/// All kept transactions that match, in the order of the chain.
fn matching_txs(node: &Node, query: &Query) -> Result<Vec<Found>, String> {
    let by_hash = query
        .conditions
        .iter()
        .find(|condition| condition.tag == "tx.hash" && condition.operator == Operator::Equal);
    if let Some(Argument::Text(text)) = by_hash.and_then(|condition| condition.argument.as_ref()) {
        // A query for a hash looks at nothing else, as in the original (`state/txindex/kv`).
        let hash = decode_hex(text.as_bytes())
            .map_err(|fault| format!("error during searching for a hash in the query: {fault}"))?;
        return Ok(find(node, &hash).into_iter().collect());
    }
    let blocks: Vec<Arc<Block>> = node.store().blocks().cloned().collect();
    let mut found = Vec::new();
    for block in blocks {
        let height = block.header.height.to_string();
        let height_fits = query
            .conditions
            .iter()
            .filter(|condition| condition.tag == "tx.height")
            .all(|condition| condition.accepts(&height));
        if height_fits {
            let matches = |index: &usize| tx_matches(query, &block, *index, &height);
            found.extend((0..block.txs.len()).filter(matches).map(|index| Found {
                block: Arc::clone(&block),
                index,
            }));
        }
    }
    Ok(found)
}

/// Whether a transaction matches by what is indexed of it.
fn tx_matches(query: &Query, block: &Block, index: usize, height: &str) -> bool {
    let executed = (block.code(index), block.outcome(index));
    let events = events_of(block.app, &block.txs[index].bytes, executed);
    let mut tags = events::tags(&events, events::is_indexed);
    tags.push(("tx.height", vec![height]));
    query.matches(&tags)
}
