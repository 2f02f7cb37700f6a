//! The RPC of CometBFT 0.38, as far as the contract of the built-in node goes: requests, answers, and the three
//! ways they travel.

mod args;
mod broadcast;
pub(crate) mod http;
mod methods;
pub(crate) mod ws;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use wire::jsonrpc::{BroadcastMethod, PlainBroadcast, Request, RequestId};

use crate::events::Outbox;
use crate::host::Work;
use crate::http::{Handler, Limits, Response};
use crate::jsonrpc::{RpcError, failure, failure_body, success};
use crate::node::Node;
use crate::server::Endpoint;
use args::{Args, parameters};

pub(crate) use broadcast::{broadcast, take_in};

/// CometBFT's RPC of a node.
pub(crate) struct Rpc(pub(crate) Arc<Node>);

/// A connection of the RPC.
struct Connection<'a> {
    node: &'a Arc<Node>,
    peer: SocketAddr,
}

/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

impl Endpoint for Rpc {
    fn connections(&self) -> usize {
        self.0.host.config.rpc.max_open_connections
    }

    fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) -> Work<'static, ()> {
        Box::pin(async move {
            let node = &self.0;
            let limits = Limits::of_rpc(&node.host.config);
            // A broken connection needs no action of the node.
            if let Ok(Some(upgrade)) =
                crate::http::serve(stream, limits, &Connection { node, peer }).await
            {
                ws::serve(node, peer, upgrade).await;
            }
        })
    }
}

impl Handler for Connection<'_> {
    async fn answer(&self, request: &crate::http::Request) -> Response {
        let host = &self.node.host;
        if request.path() == WEBSOCKET_PATH {
            host.faults.pass().await;
            return ws::handshake(request);
        }
        host.answered(http::handle(self.node, self.peer, request))
            .await
    }
}

/// The client of a call and its transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) address: SocketAddr,
    /// Where events go, if the caller has a WebSocket.
    pub(crate) outbox: Option<&'a Outbox>,
}

/// The answer to a broadcast in the form that clients usually write, which is read without a general reader; none
/// for any other request.
async fn plain_broadcast(node: &Arc<Node>, client: SocketAddr, text: &[u8]) -> Option<Vec<u8>> {
    let found = PlainBroadcast::whole(text)?;
    let tx = found.transaction()?;
    let result = broadcast(node, found.method, tx, client).await;
    Some(outcome(&found.id, result.map_err(RpcError::Internal)))
}

/// The answer to a request; none to one without an id, which is not executed.
async fn answer(node: &Arc<Node>, caller: Caller<'_>, request: &Request<'_>) -> Option<Vec<u8>> {
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
async fn call(
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
            return Ok(broadcast::check_tx(node, tx).await);
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
fn outcome(id: &RequestId<'_>, result: Result<Vec<u8>, RpcError>) -> Vec<u8> {
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
