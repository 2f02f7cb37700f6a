//! Broadcasts and the mempool.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use wire::json::write as json;
use wire::jsonrpc::BroadcastMethod;

use crate::chain::block::Tx;
use crate::chain::render;
use crate::config::Application;
use crate::events::bus::Committed;
use crate::mempool::{Depth, Refusal};
use crate::node::Node;
use crate::results;

/// Broadcasts a transaction. Returns the result as JSON.
///
/// # Errors
/// The wire's text.
pub(crate) async fn broadcast(
    node: &Node,
    method: BroadcastMethod,
    tx: Vec<u8>,
    client: SocketAddr,
) -> Result<Vec<u8>, String> {
    node.counters.broadcasts.fetch_add(1, Ordering::Relaxed);
    let tx = Tx::new(Bytes::from(tx));
    if method == BroadcastMethod::Commit {
        return commit(node, tx, client).await;
    }
    let hash = tx.hash;
    let code = submit(node, tx)
        .await
        .map_err(|refusal| refusal.to_string())?;
    // `async` returns before the check: its answer has code 0 always.
    let code = if method == BroadcastMethod::Sync {
        code
    } else {
        0
    };
    Ok(json::filled(
        r#"{"code":?,"data":"","log":"","codespace":"","hash":?}"#,
        &[&json::Int(code), &json::Hex(&hash)],
    ))
}

/// Hands a transaction to the mempool; the application's code.
pub(crate) async fn submit(node: &Node, tx: Tx) -> Result<u32, Refusal> {
    let answer = if !node.faults.untouched() && node.faults.now().mempool_full {
        Err(node.mempool.full(node.mempool.depth()))
    } else {
        node.mempool.submit(tx, &node.app).await
    };
    if answer.is_err() {
        node.counters.refused.fetch_add(1, Ordering::Relaxed);
    }
    answer
}

/// Broadcasts and waits for the block.
async fn commit(node: &Node, tx: Tx, client: SocketAddr) -> Result<Vec<u8>, String> {
    let mut wait = node.bus.wait_for(client, &tx.hash)?;
    let code = submit(node, tx.clone())
        .await
        .map_err(|refusal| format!("error on broadcastTxCommit: {refusal}"))?;
    if code != 0 {
        return Ok(commit_answer(node.app.kind(), &tx, code, None));
    }
    match tokio::time::timeout(
        node.config.rpc.timeout_broadcast_tx_commit,
        wait.committed(),
    )
    .await
    {
        Ok(Some(committed)) => Ok(commit_answer(node.app.kind(), &tx, code, Some(committed))),
        Ok(None) => Err("txSub was canceled (reason: CometBFT exited)".to_owned()),
        Err(_) => Err("timed out waiting for tx to be included in a block".to_owned()),
    }
}

fn commit_answer(
    app: Application,
    tx: &Tx,
    check_code: u32,
    committed: Option<Committed>,
) -> Vec<u8> {
    let checked = |out: &mut Vec<u8>| results::check_tx(out, app, check_code);
    let result = |out: &mut Vec<u8>| match committed {
        Some(committed) => results::tx_result(out, app, &tx.bytes, committed.code),
        None => results::no_tx_result(out),
    };
    let mut out = Vec::with_capacity(900);
    json::fill(
        &mut out,
        r#"{"check_tx":?,"tx_result":?,"hash":?,"height":?}"#,
        &[
            &checked,
            &result,
            &json::Hex(&tx.hash),
            &json::IntText(committed.map_or(0, |committed| committed.height)),
        ],
    );
    out
}

pub(super) async fn check_tx(node: &Node, tx: Vec<u8>) -> Vec<u8> {
    let code = node.app.check(&mut Tx::new(Bytes::from(tx))).await;
    let mut out = Vec::with_capacity(140);
    results::check_tx(&mut out, node.app.kind(), code);
    out
}

pub(super) fn num_unconfirmed_txs(node: &Node) -> Vec<u8> {
    let depth = node.mempool.depth();
    mempool_answer(depth.txs, depth, &json::Raw("null"))
}

pub(super) fn unconfirmed_txs(node: &Node, limit: Option<i64>) -> Vec<u8> {
    // The original takes one transaction more than its limit (`ReapMaxTxs`).
    let txs = node.mempool.oldest(super::per_page(limit) + 1);
    let depth = node.mempool.depth();
    mempool_answer(txs.len(), depth, &json::With(render::txs, txs.as_slice()))
}

fn mempool_answer(count: usize, depth: Depth, txs: &dyn json::Value) -> Vec<u8> {
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
