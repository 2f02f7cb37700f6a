//! Transactions: how they come in, and how they are found again.

use std::sync::atomic::Ordering;

use bigchain::{Error, Id, json};
use bytes::Bytes;
use wire::jsonrpc::BroadcastMethod;

use super::arguments::{self, Arguments};
use super::{Answer, answer};
use crate::app::bigchaindb::{Bigchaindb, Rejection};
use crate::chain::block::Tx;
use crate::chain::store::TxPlace;
use crate::http::{Request, Response};
use crate::mempool::Refusal;
use crate::node::Node;
use crate::rpc::methods::submit;

/// `POST /api/v1/transactions?mode=`.
pub(super) async fn post(node: &Node, app: &Bigchaindb, request: &Request) -> Answer {
    let mode = Arguments::of(request).optional("mode", arguments::mode)?;
    node.counters.broadcasts.fetch_add(1, Ordering::Relaxed);
    let checked = app.validate(Bytes::copy_from_slice(&request.body)).await;
    let checked = checked.map_err(|rejection| {
        node.counters.refused.fetch_add(1, Ordering::Relaxed);
        refused(&rejection, &request.body)
    })?;
    let text = checked.text.to_vec();
    let tx = Tx {
        effect: Some(checked.effect),
        ..Tx::new(checked.text)
    };
    hand_over(node, tx, mode.unwrap_or(BroadcastMethod::Async)).await?;
    Ok(answer::json_text(202, text))
}

fn refused(rejection: &Rejection, body: &[u8]) -> Response {
    match rejection {
        Rejection::Refused(Error::Json { .. }) => {
            // What the original can read and this node will not, has words of its own.
            let original = str::from_utf8(body).ok().and_then(json::python_error);
            answer::undecodable(original.unwrap_or_else(|| rejection.to_string()))
        }
        Rejection::Refused(_) => answer::error(400, rejection.to_string()),
        Rejection::Abandoned => answer::error(500, rejection.to_string()),
    }
}

/// Puts a transaction into the mempool and waits until the point that the mode names.
async fn hand_over(node: &Node, tx: Tx, mode: BroadcastMethod) -> Result<(), Response> {
    if mode != BroadcastMethod::Commit {
        let code = submit(node, tx)
            .await
            .map_err(|refusal| not_taken(&refusal, ""))?;
        // As the original's `async`, which returns before the check.
        return passed(if mode == BroadcastMethod::Async {
            0
        } else {
            code
        });
    }
    let mut wait = node.bus.wait_inside(&tx.hash);
    let code = submit(node, tx)
        .await
        .map_err(|refusal| not_taken(&refusal, "Error on broadcastTxCommit: "))?;
    passed(code)?;
    let limit = node.config.rpc.timeout_broadcast_tx_commit;
    match tokio::time::timeout(limit, wait.committed()).await {
        Ok(Some(committed)) => passed(committed.code),
        Ok(None) => Err(internal("the node is stopping")),
        Err(_) => Err(internal(
            "Timed out waiting for tx to be included in a block",
        )),
    }
}

fn passed(code: u32) -> Result<(), Response> {
    if code == 0 {
        Ok(())
    } else {
        Err(answer::error(500, "Transaction validation failed"))
    }
}

/// The mempool's refusal, with the texts of the Tendermint that the original runs on.
fn not_taken(refusal: &Refusal, context: &str) -> Response {
    match refusal {
        Refusal::InCache => {
            let message = format!("Internal error - {context}Tx already exists in cache");
            answer::error(400, message)
        }
        other => internal(&format!("{context}{other}")),
    }
}

fn internal(why: &str) -> Response {
    answer::error(500, format!("Internal error - {why}"))
}

/// `GET /api/v1/transactions/ID`.
pub(super) fn by_id(node: &Node, app: &Bigchaindb, id: &str) -> Answer {
    let place = id.parse::<Id>().ok().and_then(|id| app.state().place(&id));
    let text = place.and_then(|place| stored(node, place));
    let text = text.ok_or_else(answer::not_found)?;
    Ok(answer::json_text(200, text.into_bytes()))
}

/// Transactions in one answer at most: 10 MB of common ones.
const MOST_TRANSACTIONS: usize = 10_000;

/// `GET /api/v1/transactions?asset_id=`.
pub(super) fn of_asset(node: &Node, app: &Bigchaindb, request: &Request) -> Answer {
    let arguments = Arguments::of(request);
    let asset = arguments.required("asset_id", arguments::id)?;
    let operation = arguments.optional("operation", arguments::operation)?;
    let last = arguments.optional("last_tx", arguments::truth)?;
    let mut places = app.state().of_asset(&asset, operation);
    if last == Some(true) {
        places.drain(..places.len().saturating_sub(1));
    }
    let count = places.len();
    if count > MOST_TRANSACTIONS {
        let instead = "ask with last_tx=true, or follow the blocks";
        let refusal = answer::too_many("transactions", count, MOST_TRANSACTIONS, instead);
        return Err(refusal);
    }
    let texts = places.into_iter().filter_map(|place| stored(node, place));
    Ok(answer::json_text(200, list(texts).into_bytes()))
}

/// The text of a committed transaction; none if its block is not kept.
fn stored(node: &Node, place: TxPlace) -> Option<String> {
    let block = node.store().block(place.height).cloned()?;
    let tx = block.txs.get(usize::try_from(place.index).ok()?)?;
    text_of(tx)
}

/// The text of a transaction in the original's form, however it came.
pub(super) fn text_of(tx: &Tx) -> Option<String> {
    let body = json::parse(&tx.bytes).ok()?;
    Some(json::default_text(&body))
}

/// A JSON list of texts that are JSON.
pub(super) fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    format!("[{}]", texts.join(", "))
}
