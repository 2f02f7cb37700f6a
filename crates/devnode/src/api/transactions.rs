//! Transactions: how they come in, and how they are found again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bigchain::{Error, Id, json};
use bytes::Bytes;
use tokio::sync::oneshot;
use wire::jsonrpc::BroadcastMethod;

use super::arguments::{self, Arguments};
use super::{Answer, answer};
use crate::app::bigchaindb::{Bigchaindb, Rejection};
use crate::chain::block::Tx;
use crate::chain::store::TxPlace;
use crate::events::bus::Wait;
use crate::http::{Request, Response};
use crate::mempool::Refusal;
use crate::node::Node;
use crate::rpc::methods::take_in;

/// `POST /api/v1/transactions?mode=`. What is posted is checked and handed over also if the client
/// goes: the original's workers do not see that.
pub(super) async fn post(node: &Arc<Node>, request: &Request) -> Answer {
    let mode = Arguments::of(request).optional("mode", arguments::mode)?;
    let mode = mode.unwrap_or(BroadcastMethod::Async);
    node.counters.broadcasts.fetch_add(1, Ordering::Relaxed);
    let (tell, queued) = oneshot::channel();
    let body = Bytes::copy_from_slice(&request.body);
    let check = check_and_hand_over(Arc::clone(node), body, mode, tell);
    let handed_over = tokio::select! {
        biased;
        // As the original's `async`, which returns before `CheckTx`.
        Ok(text) = queued, if mode == BroadcastMethod::Async => {
            return Ok(answer::json_text(202, text.to_vec()));
        }
        handed_over = node.finish(check) => handed_over?,
    };
    if let Some(mut wait) = handed_over.wait {
        let limit = node.config.rpc.timeout_broadcast_tx_commit;
        match tokio::time::timeout(limit, wait.committed()).await {
            Ok(Some(committed)) => passed(committed.code)?,
            Ok(None) => return Err(internal("the node is stopping")),
            Err(_) => {
                let why = "Timed out waiting for tx to be included in a block";
                return Err(internal(why));
            }
        }
    }
    Ok(answer::json_text(202, handed_over.text.to_vec()))
}

/// A transaction that is in the mempool.
struct HandedOver {
    /// Its text in the original's form.
    text: Bytes,
    /// Until it is in a block, if the mode asks for that.
    wait: Option<Wait>,
}

/// Checks a body and puts its transaction into the mempool. `queued` gets the text when only the
/// check by Tendermint is left.
async fn check_and_hand_over(
    node: Arc<Node>,
    body: Bytes,
    mode: BroadcastMethod,
    queued: oneshot::Sender<Bytes>,
) -> Result<HandedOver, Response> {
    let app = node.app.bigchaindb().ok_or_else(answer::no_such_page)?;
    let checked = app.validate(body.clone()).await.map_err(|rejection| {
        node.counters.refused.fetch_add(1, Ordering::Relaxed);
        refused(&rejection, &body)
    })?;
    let tx = Tx {
        effect: Some(checked.effect),
        ..Tx::new(checked.text)
    };
    let text = tx.bytes.clone();
    let waits = mode == BroadcastMethod::Commit;
    let wait = waits.then(|| node.bus.wait_inside(&tx.hash));
    let tell = || drop(queued.send(text.clone()));
    let context = if waits {
        "Error on broadcastTxCommit: "
    } else {
        ""
    };
    let code = take_in(&node, tx, tell).await;
    passed(code.map_err(|refusal| not_taken(&refusal, context))?)?;
    Ok(HandedOver { text, wait })
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
pub(super) async fn of_asset(node: &Arc<Node>, app: &Bigchaindb, request: &Request) -> Answer {
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
    let texts = |node: &Node| list(places.into_iter().filter_map(|place| stored(node, place)));
    let texts = node.read(texts).await;
    Ok(answer::json_text(200, texts.into_bytes()))
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
