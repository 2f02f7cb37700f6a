//! What the methods answer that only read.

use std::sync::Arc;

use wire::encoding::hex_text;
use wire::json::write as json;

use super::calls::Args;
use crate::chain::block::{Block, POWER};
use crate::chain::render;
use crate::chain::store::Store;
use crate::host::RPC;
use crate::jsonrpc::RpcError;
use crate::mempool::Depth;
use crate::node::Node;

/// The version this node stands in for.
const VERSION: &str = "0.38.17";
/// Most headers that `blockchain` lists.
const BLOCKCHAIN_LIMIT: u64 = 20;
/// Transactions that `unconfirmed_txs` shows without a limit, and at most.
const UNCONFIRMED: [usize; 2] = [30, 100];

/// The result of a method as JSON.
pub(super) fn read(node: &Node, method: &str, args: &Args) -> Result<Vec<u8>, RpcError> {
    match method {
        "abci_query" => abci_query(node, args),
        "block" => block(node, args),
        "block_results" => block_results(node, args),
        "blockchain" => blockchain(node, args),
        "consensus_params" => consensus_params(node, args),
        "genesis" => {
            let genesis = |out: &mut Vec<u8>| node.genesis.write_json(out);
            Ok(json::filled(r#"{"genesis":?}"#, &[&genesis]))
        }
        "net_info" => Ok(NET_INFO.as_bytes().to_vec()),
        "num_unconfirmed_txs" => {
            let depth = node.mempool.depth();
            Ok(mempool(depth.txs, depth, &json::Raw("null")))
        }
        "status" => Ok(status(node)),
        "tx" => tx(node, args),
        "unconfirmed_txs" => {
            let [usual, most] = UNCONFIRMED;
            let limit = args.integer("limit")?.map(usize::try_from);
            let limit = limit.and_then(Result::ok).unwrap_or(usual).min(most);
            let txs = node.mempool.oldest(limit);
            let shown = json::With(render::txs, txs.as_slice());
            Ok(mempool(txs.len(), node.mempool.depth(), &shown))
        }
        // `health`.
        _ => Ok(b"{}".to_vec()),
    }
}

const NET_INFO: &str = r#"{"listening":true,"listeners":["Listener(@)"],"n_peers":"0","peers":[]}"#;

/// A height that a call may ask for, the latest if it names none.
fn height(store: &Store, latest: u64, args: &Args) -> Result<u64, RpcError> {
    let Some(wanted) = args.integer("height")? else {
        return Ok(latest);
    };
    let height = u64::try_from(wanted).unwrap_or_default();
    let base = store.base();
    let problem = if height == 0 {
        format!("height must be greater than 0, but got {wanted}")
    } else if height > latest {
        format!(
            "height {height} must be less than or equal to the current blockchain height {latest}"
        )
    } else if height < base {
        format!("height {height} is not available, lowest height is {base}")
    } else {
        return Ok(height);
    };
    Err(RpcError::Internal(problem))
}

/// The block at a height that a call asks for; none before the first.
fn find(node: &Node, args: &Args) -> Result<(u64, Option<Arc<Block>>), RpcError> {
    let store = node.store();
    let height = height(&store, store.height(), args)?;
    Ok((height, store.block(height).cloned()))
}

fn block(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let (_, block) = find(node, args)?;
    let mut out = Vec::with_capacity(4096);
    render::block_with_id(&mut out, block.as_deref());
    Ok(out)
}

fn block_results(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let (height, block) = find(node, args)?;
    let none = || RpcError::Internal(format!("could not find results for height #{height}"));
    let block = block.ok_or_else(none)?;
    let mut out = Vec::with_capacity(256 + block.txs.len() * 640);
    let results = |out: &mut Vec<u8>| render::tx_results(out, &*node.app, &block);
    json::fill(
        &mut out,
        r#"{"height":?,"txs_results":?,"finalize_block_events":null,"validator_updates":null,"consensus_param_updates":null,"app_hash":?}"#,
        &[
            &json::IntText(height),
            &results,
            &json::Base64(&block.app_hash),
        ],
    );
    Ok(out)
}

/// The newest first, as `filterMinMax` in `rpc/core/blocks.go` selects them.
fn blockchain(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let store = node.store();
    let last = store.height();
    let bound = |name| {
        let bound = args.integer(name)?.unwrap_or_default();
        let negative = |_| RpcError::Internal("heights must be non-negative".to_owned());
        u64::try_from(bound).map_err(negative)
    };
    let (min, max) = (bound("minHeight")?.max(1), bound("maxHeight")?);
    let max = if max == 0 { last } else { max.min(last) };
    let lowest = (max + 1).saturating_sub(BLOCKCHAIN_LIMIT);
    let min = min.max(store.base()).max(lowest);
    if min > max {
        let problem = format!("min height {min} can't be greater than max height {max}");
        return Err(RpcError::Internal(problem));
    }
    let metas = |out: &mut Vec<u8>| {
        let blocks = (min..=max).rev().filter_map(|height| store.block(height));
        json::array(out, blocks, |out, block| render::block_meta(out, block));
    };
    let template = r#"{"last_height":?,"block_metas":?}"#;
    Ok(json::filled(template, &[&json::IntText(last), &metas]))
}

fn consensus_params(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let store = node.store();
    let height = height(&store, store.height() + 1, args)?;
    let params = |out: &mut Vec<u8>| node.genesis.write_params_json(out);
    let template = r#"{"block_height":?,"consensus_params":?}"#;
    Ok(json::filled(template, &[&json::IntText(height), &params]))
}

fn tx(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let hash = args.tx("hash")?;
    let problem = |text: &str| Err(RpcError::Internal(text.to_owned()));
    if !node.store().has_tx_index() {
        return problem("transaction indexing is disabled");
    }
    let found = {
        let store = node.store();
        let place = store.tx_place(&hash);
        place.and_then(|place| Some((store.block(place.height)?.clone(), place.index as usize)))
    };
    let Some((block, index)) = found else {
        return problem(&format!("tx ({}) not found", hex_text(&hash)));
    };
    let tx = &block.txs[index];
    let result = |out: &mut Vec<u8>| render::tx_result(out, &*node.app, &block, index);
    Ok(json::filled(
        r#"{"hash":?,"height":?,"index":?,"tx_result":?,"tx":?}"#,
        &[
            &json::Hex(&tx.hash),
            &json::IntText(block.header.height),
            &json::Int(index),
            &result,
            &json::Base64(&tx.bytes),
        ],
    ))
}

fn mempool(count: usize, depth: Depth, txs: &dyn json::Value) -> Vec<u8> {
    json::filled(
        r#"{"n_txs":?,"total":?,"total_bytes":?,"txs":?}"#,
        &[
            &json::IntText(count),
            &json::IntText(depth.txs),
            &json::IntText(depth.bytes),
            txs,
        ],
    )
}

fn abci_query(node: &Node, args: &Args) -> Result<Vec<u8>, RpcError> {
    let answer = node.app.query(&args.text("path")?, &args.hex("data")?);
    Ok(json::filled(
        r#"{"response":{"code":?,"log":?,"info":"","index":"0","key":null,"value":?,"proofOps":null,"height":?,"codespace":?}}"#,
        &[
            &json::Int(answer.code),
            &json::Text(&answer.log),
            &|out: &mut Vec<u8>| json::base64_or_null(out, answer.value.as_deref()),
            &json::IntText(answer.height),
            &json::Text(answer.codespace),
        ],
    ))
}

fn status(node: &Node) -> Vec<u8> {
    let (latest, earliest) = {
        let store = node.store();
        (store.latest().cloned(), store.earliest().cloned())
    };
    let rpc_address = node.host.address(RPC);
    let rpc_address = rpc_address.map_or_else(String::new, |bound| format!("tcp://{bound}"));
    let tx_index = if node.host.config.tx_index {
        "on"
    } else {
        "off"
    };
    json::filled(
        r#"{"node_info":{"protocol_version":{"p2p":"8","block":"11","app":"1"},"id":?,"listen_addr":"tcp://127.0.0.1:0","network":?,"version":?,"channels":"40202122233038606100","moniker":?,"other":{"tx_index":?,"rpc_address":?}},"sync_info":{?,?,"catching_up":false},"validator_info":{"address":?,"pub_key":?,"voting_power":?}}"#,
        &[
            &json::Text(&node.node_id),
            &json::Text(&node.genesis.chain_id),
            &json::Text(VERSION),
            &json::Text(&node.host.config.moniker),
            &json::Text(tx_index),
            &json::Text(&rpc_address),
            &|out: &mut Vec<u8>| sync_block(out, "latest", latest.as_deref()),
            &|out: &mut Vec<u8>| sync_block(out, "earliest", earliest.as_deref()),
            &json::Hex(&node.genesis.address()),
            &|out: &mut Vec<u8>| node.genesis.write_public_key_json(out),
            &json::IntText(POWER),
        ],
    )
}

/// Appends the four members about a block.
fn sync_block(out: &mut Vec<u8>, which: &str, block: Option<&Block>) {
    let (hash, app_hash, height, time) = match block {
        Some(block) => (
            &block.hash[..],
            &block.header.app_hash[..],
            block.header.height,
            block.header.time.text(),
        ),
        None => (&[][..], &[][..], 0, "1970-01-01T00:00:00Z".to_owned()),
    };
    let which = json::Raw(which);
    json::fill(
        out,
        r#""?_block_hash":?,"?_app_hash":?,"?_block_height":?,"?_block_time":?"#,
        &[
            &which,
            &json::Hex(hash),
            &which,
            &json::Hex(app_hash),
            &which,
            &json::IntText(height),
            &which,
            &json::Text(&time),
        ],
    );
}
