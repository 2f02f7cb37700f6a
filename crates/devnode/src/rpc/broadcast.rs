//! Broadcasts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::oneshot;
use wire::json::write as json;
use wire::jsonrpc::BroadcastMethod;

use crate::app::{Outcome, Tx};
use crate::chain::render;
use crate::events::Committed;
use crate::mempool::Refusal;
use crate::node::Node;

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
