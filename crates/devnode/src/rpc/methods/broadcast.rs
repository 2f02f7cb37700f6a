//! Broadcasts and the mempool.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;
use wire::json::write as json;
use wire::jsonrpc::BroadcastMethod;

use crate::chain::block::Tx;
use crate::chain::render;
use crate::chain::tendermint;
use crate::dialect::Dialect;
use crate::events::bus::Committed;
use crate::mempool::{Depth, Refusal};
use crate::node::Node;
use crate::results;

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
    node.counters.broadcasts.fetch_add(1, Ordering::Relaxed);
    let tx = Tx::new(Bytes::from(tx));
    if method == BroadcastMethod::Commit {
        return commit(node, tx, client).await;
    }
    let hash = tx.hash;
    let dialect = node.config.rpc.dialect;
    let code = submit(node, tx, method)
        .await
        .map_err(|refusal| text_of(&refusal, dialect))?;
    if code != 0
        && let Some(refusal) = node.app.refusal(&hash)
    {
        return Ok(json::filled(
            r#"{"code":?,"data":"","log":?,"codespace":?,"hash":?}"#,
            &[
                &json::Int(code),
                &json::Text(&refusal.log),
                &json::Text(refusal.codespace),
                &json::Hex(&hash),
            ],
        ));
    }
    let template = match dialect {
        Dialect::Comet038 => r#"{"code":?,"data":"","log":"","codespace":"","hash":?}"#,
        Dialect::Tendermint031 => r#"{"code":?,"data":"","log":"","hash":?}"#,
    };
    let values = [&json::Int(code) as _, &json::Hex(&hash) as _];
    Ok(json::filled(template, &values))
}

fn text_of(refusal: &Refusal, dialect: Dialect) -> String {
    match refusal {
        Refusal::InCache if dialect.is_0_31() => "Tx already exists in cache".to_owned(),
        refusal => refusal.to_string(),
    }
}

/// Hands a transaction to the mempool, which finishes its check also if the client goes. Returns the
/// application's code, 0 for `async`.
///
/// `async` waits for the check of an application inside the node, but not for that of one behind a
/// socket, whose requests are queued (`abci/client` of CometBFT 0.38).
async fn submit(node: &Arc<Node>, tx: Tx, method: BroadcastMethod) -> Result<u32, Refusal> {
    let is_async = method == BroadcastMethod::Async;
    let code = if node.mempool.checks_at_once(&node.app) {
        take_in(node, tx, || ()).await
    } else {
        let (tell, queued) = oneshot::channel();
        let own = Arc::clone(node);
        let check = async move {
            // Whoever waits for it may have gone.
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
pub(crate) async fn take_in(
    node: &Node,
    tx: Tx,
    queued: impl FnOnce() + Send,
) -> Result<u32, Refusal> {
    let answer = if !node.faults.untouched() && node.faults.now().mempool_full {
        Err(node.mempool.full(node.mempool.depth()))
    } else {
        node.mempool.submit(tx, &node.app, queued).await
    };
    if answer.is_err() {
        node.counters.refused.fetch_add(1, Ordering::Relaxed);
    }
    answer
}

/// Broadcasts and waits for the block.
async fn commit(node: &Arc<Node>, tx: Tx, client: SocketAddr) -> Result<Vec<u8>, String> {
    let mut wait = node.bus.wait_for(client, &tx.hash)?;
    let code = submit(node, tx.clone(), BroadcastMethod::Commit)
        .await
        .map_err(|refusal| match node.config.rpc.dialect {
            Dialect::Comet038 => format!("error on broadcastTxCommit: {refusal}"),
            dialect => format!("Error on broadcastTxCommit: {}", text_of(&refusal, dialect)),
        })?;
    if code != 0 {
        return Ok(commit_answer(node, &tx, code, None));
    }
    match tokio::time::timeout(
        node.config.rpc.timeout_broadcast_tx_commit,
        wait.committed(),
    )
    .await
    {
        Ok(Some(committed)) => Ok(commit_answer(node, &tx, code, Some(&committed))),
        Ok(None) => Err("txSub was canceled (reason: CometBFT exited)".to_owned()),
        Err(_) => Err("timed out waiting for tx to be included in a block".to_owned()),
    }
}

fn commit_answer(node: &Node, tx: &Tx, check_code: u32, committed: Option<&Committed>) -> Vec<u8> {
    let (app, is_0_31) = (node.app.kind(), node.config.rpc.dialect.is_0_31());
    let checked = |out: &mut Vec<u8>| match is_0_31 {
        true => tendermint::result(out, &check_code),
        false => results::check_tx(out, (check_code, &node.app.checked(tx, check_code))),
    };
    let result = |out: &mut Vec<u8>| match committed {
        Some(committed) if is_0_31 => tendermint::result(out, &committed.code),
        None if is_0_31 => tendermint::result(out, &0),
        Some(Committed { code, outcome, .. }) => {
            results::executed(out, app, &tx.bytes, (*code, outcome));
        }
        None => results::no_tx_result(out),
    };
    let name = if is_0_31 { "deliver_tx" } else { "tx_result" };
    let mut out = Vec::with_capacity(900);
    json::fill(
        &mut out,
        r#"{"check_tx":?,"?":?,"hash":?,"height":?}"#,
        &[
            &checked,
            &json::Raw(name),
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
        let code = own.app.check(&mut tx).await;
        (code, own.app.checked(&tx, code))
    };
    let (code, outcome) = node.finish(check).await;
    let mut out = Vec::with_capacity(140);
    results::check_tx(&mut out, (code, &outcome));
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
