//! Blocks, headers, commits, validators and parameters.

use std::sync::Arc;

use wire::json::write as json;

use crate::chain::block::Block;
use crate::chain::render;
use crate::chain::store::Store;
use crate::chain::validator::POWER;
use crate::node::Node;
use crate::results;
use crate::rpc::params::Args;

/// Most headers that `blockchain` lists.
const BLOCKCHAIN_LIMIT: i64 = 20;

/// A height that a call may ask for, the latest if it does not say.
///
/// # Errors
/// The wire's text.
fn height(store: &Store, latest: u64, wanted: Option<i64>) -> Result<u64, String> {
    let Some(wanted) = wanted else {
        return Ok(latest);
    };
    let height = u64::try_from(wanted).ok().filter(|height| *height > 0);
    let Some(height) = height else {
        return Err(format!("height must be greater than 0, but got {wanted}"));
    };
    if height > latest {
        return Err(format!(
            "height {height} must be less than or equal to the current blockchain height {latest}"
        ));
    }
    let base = store.base();
    if height < base {
        return Err(format!(
            "height {height} is not available, lowest height is {base}"
        ));
    }
    Ok(height)
}

/// The block at a height that a call asks for; none before the first.
fn find(node: &Node, wanted: Option<i64>) -> Result<(u64, Option<Arc<Block>>), String> {
    let store = node.store();
    let height = height(&store, store.height(), wanted)?;
    Ok((height, store.block(height).cloned()))
}

pub(super) fn block(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    find(node, wanted).map(|(_, block)| block_answer(block.as_deref()))
}

pub(super) fn block_by_hash(node: &Node, hash: &[u8]) -> Vec<u8> {
    let block = node.store().block_by_hash(hash).cloned();
    block_answer(block.as_deref())
}

fn block_answer(block: Option<&Block>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    render::block_with_id(&mut out, block);
    out
}

pub(super) fn header(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    find(node, wanted).map(|(_, block)| header_answer(block.as_deref()))
}

pub(super) fn header_by_hash(node: &Node, hash: &[u8]) -> Vec<u8> {
    let block = node.store().block_by_hash(hash).cloned();
    header_answer(block.as_deref())
}

fn header_answer(block: Option<&Block>) -> Vec<u8> {
    let header: &dyn json::Value = match block {
        Some(block) => &json::With(render::header, &block.header),
        None => &json::Raw("null"),
    };
    json::filled(r#"{"header":?}"#, &[header])
}

pub(super) fn commit(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let (height, block) = find(node, wanted)?;
    let Some(block) = block else {
        return Ok(b"null".to_vec());
    };
    let is_canonical = height != node.store().height();
    Ok(json::filled(
        r#"{"signed_header":{"header":?,"commit":?},"canonical":?}"#,
        &[
            &json::With(render::header, &block.header),
            &json::With(render::commit, &block.commit),
            &json::Raw(if is_canonical { "true" } else { "false" }),
        ],
    ))
}

pub(super) fn block_results(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let (height, block) = find(node, wanted)?;
    let Some(block) = block else {
        return Err(format!("could not find results for height #{height}"));
    };
    let updates: &dyn json::Value = if block.validator_updates.is_empty() {
        &json::Raw("null")
    } else {
        &json::With(results::validator_updates, &*block)
    };
    let mut out = Vec::with_capacity(256 + block.txs.len() * 640);
    json::fill(
        &mut out,
        r#"{"height":?,"txs_results":?,"finalize_block_events":null,"validator_updates":?,"consensus_param_updates":null,"app_hash":?}"#,
        &[
            &json::IntText(height),
            &json::With(results::tx_results, &*block),
            updates,
            &json::Base64(&block.app_hash),
        ],
    );
    Ok(out)
}

pub(super) fn blockchain(
    node: &Node,
    args: &Args,
    meta: fn(&mut Vec<u8>, &Block),
) -> Result<Vec<u8>, String> {
    let store = node.store();
    let (base, last) = (store.base().cast_signed(), store.height().cast_signed());
    let (min, max) = range(base, last, args.int(0), args.int(1))?;
    let metas = |out: &mut Vec<u8>| {
        let heights = (min..=max).rev();
        let blocks = heights.filter_map(|height| store.block(height.cast_unsigned()));
        json::array(out, blocks, |out, block| meta(out, block));
    };
    let template = r#"{"last_height":?,"block_metas":?}"#;
    Ok(json::filled(template, &[&json::IntText(last), &metas]))
}

/// The heights that `blockchain` lists (`filterMinMax` in `rpc/core/blocks.go`).
fn range(base: i64, height: i64, min: i64, max: i64) -> Result<(i64, i64), String> {
    if min < 0 || max < 0 {
        return Err("heights must be non-negative".to_owned());
    }
    let min = if min == 0 { 1 } else { min };
    let max = if max == 0 { height } else { max.min(height) };
    let min = min.max(base).max(max - BLOCKCHAIN_LIMIT + 1);
    if min > max {
        return Err(format!(
            "min height {min} can't be greater than max height {max}"
        ));
    }
    Ok((min, max))
}

pub(super) fn consensus_params(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let store = node.store();
    let height = height(&store, store.height() + 1, wanted)?;
    let params = |out: &mut Vec<u8>| node.genesis.write_params_json(out);
    let template = r#"{"block_height":?,"consensus_params":?}"#;
    Ok(json::filled(template, &[&json::IntText(height), &params]))
}

pub(super) fn validators(node: &Node, args: &Args) -> Result<Vec<u8>, String> {
    let store = node.store();
    let height = height(&store, store.height() + 1, args.maybe(0))?;
    super::page(args.maybe(1), super::per_page(args.maybe(2)), 1)?;
    Ok(json::filled(
        r#"{"block_height":?,"validators":[?],"count":"1","total":"1"}"#,
        &[&json::IntText(height), &json::With(validator, node)],
    ))
}

/// Appends the one validator.
pub(super) fn validator(out: &mut Vec<u8>, node: &Node) {
    json::fill(
        out,
        r#"{"address":?,"pub_key":?,"voting_power":?,"proposer_priority":"0"}"#,
        &[
            &json::Hex(&node.genesis.validator.address),
            &|out: &mut Vec<u8>| node.genesis.write_public_key_json(out),
            &json::IntText(POWER),
        ],
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_headers_has_at_most_twenty() {
        assert_eq!(range(1, 100, 0, 0), Ok((81, 100)));
        assert_eq!(range(1, 100, 10, 12), Ok((10, 12)));
        assert_eq!(range(1, 100, 1, 50), Ok((31, 50)));
        assert_eq!(range(40, 100, 1, 50), Ok((40, 50)));
        assert_eq!(range(1, 5, 0, 0), Ok((1, 5)));
        assert_eq!(range(1, 5, 3, 900), Ok((3, 5)));
        assert_eq!(
            range(1, 100, 60, 50).unwrap_err(),
            "min height 60 can't be greater than max height 50"
        );
        assert_eq!(
            range(1, 100, -1, 0).unwrap_err(),
            "heights must be non-negative"
        );
    }
}
