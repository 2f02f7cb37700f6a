//! The RPC of CometBFT 0.38, as far as the contract of the built-in node goes: requests, answers, and the three
//! ways they travel.

mod calls;
mod methods;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::net::TcpStream;
use wire::json;
use wire::jsonrpc::{self, RequestFault, RequestId};

use self::calls::{Args, Caller, answer, call, outcome, parameters, plain_broadcast};
pub use self::methods::take_in;
pub use self::ws::handshake;
use crate::host::{Endpoint, RPC, Setup, Work};
use crate::http::{Handler, Limits, Request, Response};
use crate::jsonrpc::{RpcError, failure_body};
use crate::node::Node;

#[cfg(test)]
pub(crate) use methods::broadcast;

#[cfg(test)]
pub(crate) use calls::get;

/// CometBFT's RPC of a node.
pub(crate) struct Rpc(pub(crate) Arc<Node>);

/// A connection of the RPC.
struct Connection<'a> {
    node: &'a Arc<Node>,
    peer: SocketAddr,
}

/// Where WebSockets are.
const WEBSOCKET_PATH: &str = "/websocket";

impl Node {
    /// The node behind CometBFT's RPC alone.
    pub fn setup(self: Arc<Self>) -> Setup {
        Setup {
            endpoints: vec![(RPC, Arc::new(Rpc(Arc::clone(&self))))],
            maker: self,
        }
    }
}

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
    async fn answer(&self, request: &Request) -> Response {
        let host = &self.node.host;
        if request.path() == WEBSOCKET_PATH {
            host.faults.pass().await;
            return handshake(request);
        }
        host.answered(handle(self.node, self.peer, request)).await
    }
}

/// Answers one HTTP request.
pub(crate) async fn handle(node: &Arc<Node>, peer: SocketAddr, request: &Request) -> Response {
    let asked_at = SystemTime::now();
    if let Some(broken) = request.broken_body {
        let text = format!("error reading request body: {broken}");
        return Response {
            close: true,
            ..error(400, None, &RpcError::InvalidRequest(text))
        };
    }
    let caller = Caller {
        address: peer,
        outbox: None,
    };
    let answer = match request.path() {
        "/" if request.body.is_empty() => {
            let host = request.header("host");
            let text = format!("the built-in node: POST JSON-RPC here, or GET //{host}/status\n");
            Response::text(200, text)
        }
        "/" => post(node, caller, &request.body).await,
        path => by_uri(node, caller, &path[1..], request.query()).await,
    };
    stamped(answer, asked_at)
}

fn json_body(status: u16, body: Vec<u8>) -> Response {
    Response::new(status, "application/json", body)
}

fn error(status: u16, id: Option<&RequestId<'_>>, error: &RpcError) -> Response {
    json_body(status, failure_body(id, error))
}

/// JSON-RPC in the body.
async fn post(node: &Arc<Node>, caller: Caller<'_>, body: &[u8]) -> Response {
    if let Some(answer) = plain_broadcast(node, caller.address, body).await {
        return json_body(200, answer);
    }
    let requests = match requests_of(body) {
        Ok(requests) => requests,
        Err(fault) => {
            let fault = RpcError::Parse(format!("error unmarshaling request: {fault}"));
            return error(500, None, &fault);
        }
    };
    let limit = node.host.config.rpc.max_request_batch_size;
    if limit > 0 && requests.len() > limit {
        let text = format!("batch request exceeds maximum ({limit}) allowed number of requests");
        return error(200, None, &RpcError::InvalidRequest(text));
    }
    let mut answers = Vec::new();
    for request in &requests {
        answers.extend(answer(node, caller, request).await);
    }
    let body = match answers.len() {
        // Not even a content type.
        0 => {
            return Response {
                headers: Vec::new(),
                ..json_body(200, Vec::new())
            };
        }
        1 => answers.swap_remove(0),
        _ => [b"[", answers.join(&b',').as_slice(), b"]"].concat(),
    };
    json_body(200, body)
}

/// The requests of a body: one, or those of a batch.
fn requests_of(body: &[u8]) -> Result<Vec<jsonrpc::Request<'_>>, RequestFault> {
    let value = json::check(body).map_err(RequestFault::Json)?;
    if value.first() == Some(&b'[') {
        return json::elements(value)
            .map(jsonrpc::Request::decode)
            .collect();
    }
    jsonrpc::Request::decode(value).map(|request| vec![request])
}

async fn by_uri(node: &Arc<Node>, caller: Caller<'_>, method: &str, query: &str) -> Response {
    if parameters(method, false).is_none() {
        return Response::text(404, "404 page not found\n")
            .with("X-Content-Type-Options", "nosniff");
    }
    let id = RequestId::NONE;
    let result = call(node, method, Args::of_uri(query), (caller, &id)).await;
    let status = if result.is_ok() { 200 } else { 500 };
    json_body(status, outcome(&id, result))
}

/// The same answer with the time of the request's arrival.
fn stamped(answer: Response, asked_at: SystemTime) -> Response {
    let since = asked_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    answer.with("X-Server-Time", since.as_secs().to_string())
}
