//! What the methods answer: those that only read, and broadcasts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;
use wire::encoding::hex_text;
use wire::json::write as json;
use wire::jsonrpc::BroadcastMethod;

use super::calls::Args;
use crate::app::{Outcome, Tx};
use crate::chain::store::Store;
use crate::chain::{Block, POWER, render};
use crate::events::Committed;
use crate::host::RPC;
use crate::jsonrpc::RpcError;
use crate::mempool::{Depth, Refusal};
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

/// Broadcasts a transaction. Returns the result as JSON.
///
/// # Errors
/// The wire's text.
pub(crate) async fn broadcast(
    node: &Arc<Node>,
    method: BroadcastMethod,
    tx: Vec<u8>,
    client: SocketAddr,
) -> Result<Vec<u8>, String> {
    node.host
        .counters
        .broadcasts
        .fetch_add(1, Ordering::Relaxed);
    let tx = Tx::new(Bytes::from(tx));
    if method == BroadcastMethod::Commit {
        return commit(node, tx, client).await;
    }
    let hash = tx.hash;
    let code = submit(node, tx, method)
        .await
        .map_err(|refusal| refusal.to_string())?;
    if code == 0 {
        let template = r#"{"code":0,"data":"","log":"","codespace":"","hash":?}"#;
        return Ok(json::filled(template, &[&json::Hex(&hash)]));
    }
    let Outcome { log, codespace, .. } = node.app.refused(&hash);
    Ok(json::filled(
        r#"{"code":?,"data":"","log":?,"codespace":?,"hash":?}"#,
        &[
            &json::Int(code),
            &json::Text(&log),
            &json::Text(codespace),
            &json::Hex(&hash),
        ],
    ))
}

/// Hands a transaction to the mempool, which finishes its check also if the client goes. Returns the
/// application's code, 0 for `async`.
///
/// `async` waits for the check of an application inside the node, but not for that of one behind a
/// socket, whose requests are queued (`abci/client` of CometBFT 0.38).
async fn submit(node: &Arc<Node>, tx: Tx, method: BroadcastMethod) -> Result<u32, Refusal> {
    let is_async = method == BroadcastMethod::Async;
    let code = if node.mempool.checks_at_once(&*node.app) {
        take_in(node, tx, || ()).await
    } else {
        let (tell, queued) = oneshot::channel();
        let own = Arc::clone(node);
        let check = async move {
            // The client that waits for it may have gone.
            let tell = || _ = tell.send(());
            take_in(&own, tx, tell).await
        };
        tokio::select! {
            biased;
            Ok(()) = queued, if is_async && node.app.is_behind_socket() => Ok(0),
            code = node.finish(check) => code,
        }
    }?;
    Ok(if is_async { 0 } else { code })
}

/// Checks a transaction and puts it into the mempool; the application's code. `queued` is called when
/// only the application can still refuse it.
///
/// # Errors
/// Why it is refused.
pub async fn take_in(node: &Node, tx: Tx, queued: impl FnOnce() + Send) -> Result<u32, Refusal> {
    let answer = if node.host.faults.has_full_mempool() {
        Err(node.mempool.full(node.mempool.depth()))
    } else {
        node.mempool.submit(tx, &*node.app, queued).await
    };
    if answer.is_err() {
        node.host.counters.refused.fetch_add(1, Ordering::Relaxed);
    }
    answer
}

/// Broadcasts and waits for the block.
async fn commit(node: &Arc<Node>, tx: Tx, client: SocketAddr) -> Result<Vec<u8>, String> {
    let mut wait = node.bus.wait_for(client, &tx.hash)?;
    let code = submit(node, tx.clone(), BroadcastMethod::Commit)
        .await
        .map_err(|refusal| format!("error on broadcastTxCommit: {refusal}"))?;
    if code != 0 {
        return Ok(commit_answer(node, &tx, code, None));
    }
    let limit = node.host.config.rpc.timeout_broadcast_tx_commit;
    match tokio::time::timeout(limit, wait.committed()).await {
        Ok(Some(committed)) => Ok(commit_answer(node, &tx, code, Some(&committed))),
        Ok(None) => Err("txSub was canceled (reason: CometBFT exited)".to_owned()),
        Err(_) => Err("timed out waiting for tx to be included in a block".to_owned()),
    }
}

fn commit_answer(node: &Node, tx: &Tx, check_code: u32, committed: Option<&Committed>) -> Vec<u8> {
    let checked = node.app.checked(tx, check_code);
    let result = |out: &mut Vec<u8>| match committed {
        Some(Committed { code, outcome, .. }) => {
            render::executed(out, &*node.app, &tx.bytes, (*code, outcome));
        }
        None => render::result(out, (0, Outcome::NONE), &[]),
    };
    let mut out = Vec::with_capacity(900);
    json::fill(
        &mut out,
        r#"{"check_tx":?,"tx_result":?,"hash":?,"height":?}"#,
        &[
            &|out: &mut Vec<u8>| render::result(out, (check_code, &checked), &[]),
            &result,
            &json::Hex(&tx.hash),
            &json::IntText(committed.map_or(0, |committed| committed.height)),
        ],
    );
    out
}

pub(super) async fn check_tx(node: &Arc<Node>, tx: Vec<u8>) -> Vec<u8> {
    let own = Arc::clone(node);
    let check = async move {
        let mut tx = Tx::new(Bytes::from(tx));
        let code = own.app.check_later(&mut tx).await;
        (code, own.app.checked(&tx, code))
    };
    let (code, outcome) = node.finish(check).await;
    let mut out = Vec::with_capacity(140);
    render::result(&mut out, (code, &outcome), &[]);
    out
}
