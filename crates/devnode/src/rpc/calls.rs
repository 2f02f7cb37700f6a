//! Calls, however they travel.

use std::net::SocketAddr;
use std::sync::Arc;

use wire::jsonrpc::{BroadcastMethod, PlainBroadcast, Request, RequestId};

use super::args::{Args, parameters};
use super::broadcast::{broadcast, check_tx};
use super::methods;
use crate::events::Outbox;
use crate::jsonrpc::{RpcError, failure, failure_body, success};
use crate::node::Node;

/// The client of a call and its transport.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) address: SocketAddr,
    /// Where events go, if the caller has a WebSocket.
    pub(super) outbox: Option<&'a Outbox>,
}

/// The answer to a broadcast in the form that clients usually write, which is read without a general reader; none
/// for any other request.
pub(super) async fn plain_broadcast(
    node: &Arc<Node>,
    client: SocketAddr,
    text: &[u8],
) -> Option<Vec<u8>> {
    let found = PlainBroadcast::whole(text)?;
    let tx = found.transaction()?;
    let result = broadcast(node, found.method, tx, client).await;
    Some(outcome(&found.id, result.map_err(RpcError::Internal)))
}

/// The answer to a request; none to one without an id, which is not executed.
pub(super) async fn answer(
    node: &Arc<Node>,
    caller: Caller<'_>,
    request: &Request<'_>,
) -> Option<Vec<u8>> {
    let id = request.id.as_ref()?;
    let method = &*request.method;
    let Some(names) = parameters(method, caller.outbox.is_some()) else {
        return Some(failure_body(Some(id), &RpcError::MethodNotFound));
    };
    let result = match Args::of_json(names, request.params) {
        Ok(args) => call(node, method, args, (caller, id)).await,
        Err(text) => Err(RpcError::InvalidParams(text)),
    };
    Some(outcome(id, result))
}

/// Calls a method. Returns its result as JSON.
pub(super) async fn call(
    node: &Arc<Node>,
    method: &str,
    args: Args,
    (caller, id): (Caller<'_>, &RequestId<'_>),
) -> Result<Vec<u8>, RpcError> {
    let client = caller.address;
    if let Some(method) = BroadcastMethod::of(method.as_bytes()) {
        let tx = args.tx("tx")?;
        let sent = broadcast(node, method, tx, client).await;
        return sent.map_err(RpcError::Internal);
    }
    match method {
        "check_tx" => {
            let tx = args.tx("tx")?;
            return Ok(check_tx(node, tx).await);
        }
        "subscribe" => {
            let outbox = caller.outbox.ok_or(RpcError::MethodNotFound)?;
            let query = args.text("query")?;
            let subscribed = node.bus.subscribe(client, &query, id, outbox);
            subscribed.map_err(RpcError::Internal)?;
        }
        "unsubscribe" => {
            let ended = node.bus.unsubscribe(client, &args.text("query")?);
            ended.map_err(RpcError::Internal)?;
        }
        "unsubscribe_all" => {
            let ended = node.bus.unsubscribe_all(client);
            ended.map_err(RpcError::Internal)?;
        }
        // These go through whole blocks.
        "block" | "block_results" | "tx" => {
            let method = method.to_owned();
            return node
                .read(move |node| methods::read(node, &method, &args))
                .await;
        }
        _ => return methods::read(node, method, &args),
    }
    Ok(b"{}".to_vec())
}

/// The answer of a call.
pub(super) fn outcome(id: &RequestId<'_>, result: Result<Vec<u8>, RpcError>) -> Vec<u8> {
    match result {
        Ok(result) => {
            let mut out = Vec::with_capacity(result.len() + 48);
            success(&mut out, id, &result);
            out
        }
        Err(error) => {
            let mut out = Vec::with_capacity(160);
            failure(&mut out, Some(id), &error);
            out
        }
    }
}

/// The answer to a method over URI without parameters.
#[cfg(test)]
pub(crate) async fn get(node: &Arc<Node>, address: SocketAddr, method: &str) -> Vec<u8> {
    let caller = Caller {
        address,
        outbox: None,
    };
    let id = RequestId::NONE;
    let result = call(node, method, Args::of_uri(""), (caller, &id)).await;
    outcome(&id, result)
}
