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
    let (_, block) = find(node, wanted)?;
    let mut out = Vec::with_capacity(4096);
    render::block_with_id(&mut out, block.as_deref());
    Ok(out)
}

pub(super) fn block_by_hash(node: &Node, hash: &[u8]) -> Vec<u8> {
    let block = node.store().block_by_hash(hash).cloned();
    let mut out = Vec::with_capacity(4096);
    render::block_with_id(&mut out, block.as_deref());
    out
}

pub(super) fn header(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let (_, block) = find(node, wanted)?;
    Ok(header_answer(block.as_deref()))
}

pub(super) fn header_by_hash(node: &Node, hash: &[u8]) -> Vec<u8> {
    let block = node.store().block_by_hash(hash).cloned();
    header_answer(block.as_deref())
}

fn header_answer(block: Option<&Block>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    json::raw(&mut out, r#"{"header":"#);
    match block {
        Some(block) => render::header(&mut out, &block.header),
        None => json::raw(&mut out, "null"),
    }
    out.push(b'}');
    out
}

pub(super) fn commit(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let (height, block) = find(node, wanted)?;
    let Some(block) = block else {
        return Ok(b"null".to_vec());
    };
    let mut out = Vec::with_capacity(1500);
    json::raw(&mut out, r#"{"signed_header":{"header":"#);
    render::header(&mut out, &block.header);
    json::raw(&mut out, r#","commit":"#);
    render::commit(&mut out, &block.commit);
    json::raw(&mut out, r#"},"canonical":"#);
    json::raw(
        &mut out,
        if height == node.store().height() {
            "false}"
        } else {
            "true}"
        },
    );
    Ok(out)
}

pub(super) fn block_results(node: &Node, wanted: Option<i64>) -> Result<Vec<u8>, String> {
    let (height, block) = find(node, wanted)?;
    let Some(block) = block else {
        return Err(format!("could not find results for height #{height}"));
    };
    let mut out = Vec::with_capacity(256 + block.txs.len() * 640);
    json::raw(&mut out, r#"{"height":"#);
    json::int_text(&mut out, height);
    json::raw(&mut out, r#","txs_results":"#);
    results::tx_results(&mut out, &block);
    json::raw(
        &mut out,
        r#","finalize_block_events":null,"validator_updates":"#,
    );
    if block.validator_updates.is_empty() {
        json::raw(&mut out, "null");
    } else {
        results::validator_updates(&mut out, &block);
    }
    json::raw(&mut out, r#","consensus_param_updates":null,"app_hash":"#);
    json::base64(&mut out, &block.app_hash);
    out.push(b'}');
    Ok(out)
}

pub(super) fn blockchain(node: &Node, min: i64, max: i64) -> Result<Vec<u8>, String> {
    let store = node.store();
    let (min, max) = range(
        store.base().cast_signed(),
        store.height().cast_signed(),
        min,
        max,
    )?;
    let mut out = Vec::with_capacity(24_000);
    json::raw(&mut out, r#"{"last_height":"#);
    json::int_text(&mut out, store.height());
    json::raw(&mut out, r#","block_metas":"#);
    let blocks = (min..=max)
        .rev()
        .filter_map(|height| store.block(height.cast_unsigned()));
    json::array(&mut out, blocks, |out, block| {
        render::block_meta(out, block);
    });
    out.push(b'}');
    Ok(out)
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
    let mut out = Vec::with_capacity(400);
    json::raw(&mut out, r#"{"block_height":"#);
    json::int_text(&mut out, height);
    json::raw(&mut out, r#","consensus_params":"#);
    node.genesis.write_params_json(&mut out);
    out.push(b'}');
    Ok(out)
}

pub(super) fn validators(node: &Node, args: &Args) -> Result<Vec<u8>, String> {
    let store = node.store();
    let height = height(&store, store.height() + 1, args.maybe(0))?;
    super::page(args.maybe(1), super::per_page(args.maybe(2)), 1)?;
    let mut out = Vec::with_capacity(300);
    json::raw(&mut out, r#"{"block_height":"#);
    json::int_text(&mut out, height);
    json::raw(&mut out, r#","validators":["#);
    validator(node, &mut out);
    json::raw(&mut out, r#"],"count":"1","total":"1"}"#);
    Ok(out)
}

/// Appends the one validator.
pub(super) fn validator(node: &Node, out: &mut Vec<u8>) {
    json::raw(out, r#"{"address":"#);
    json::hex(out, &node.genesis.validator.address);
    json::raw(out, r#","pub_key":"#);
    node.genesis.write_public_key_json(out);
    json::raw(out, r#","voting_power":"#);
    json::int_text(out, POWER);
    json::raw(out, r#","proposer_priority":"0"}"#);
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
