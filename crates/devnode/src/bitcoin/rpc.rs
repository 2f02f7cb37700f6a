//! JSON-RPC over HTTP as btcd's server answers it: one answer for each connection, batches in one array,
//! nothing for a request without an id.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::error::RpcError;
use super::methods::{self, BROADCAST};
use super::node::Bitcoin;
use crate::host::{Endpoint, Work};
use crate::http::{self, Handler, Limits, Request, Response};

/// The RPC of a node.
pub(super) struct Rpc(pub(super) Arc<Bitcoin>);

impl Endpoint for Rpc {
    fn connections(&self) -> usize {
        self.0.host.config.rpc.max_open_connections
    }

    fn serve(self: Arc<Self>, stream: TcpStream, _peer: SocketAddr) -> Work<'static, ()> {
        let limits = Limits::of_rpc(&self.0.host.config);
        Box::pin(http::serve_plainly(self, limits, stream))
    }
}

impl Handler for Rpc {
    async fn answer(&self, request: &Request) -> Response {
        self.0.host.answered(handle(&self.0, request)).await
    }
}

/// A request; other members are ignored.
#[derive(Debug, Deserialize)]
struct Call {
    #[serde(default)]
    jsonrpc: String,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Option<Vec<Value>>,
}

impl Call {
    fn params(&self) -> &[Value] {
        self.params.as_deref().unwrap_or_default()
    }

    /// The answer; none for a version that btcd does not know, whose answers it cannot write.
    fn reply(&self, answer: Result<Value, RpcError>) -> Option<Value> {
        reply(&self.jsonrpc, &self.id, answer)
    }
}

fn reply(version: &str, id: &Value, answer: Result<Value, RpcError>) -> Option<Value> {
    let is_id = matches!(id, Value::Null | Value::Number(_) | Value::String(_));
    if !matches!(version, "1.0" | "2.0") || !is_id {
        return None;
    }
    let (result, error) = match answer {
        Ok(result) => (result, Value::Null),
        Err(RpcError { code, message }) => {
            (Value::Null, json!({ "code": code, "message": message }))
        }
    };
    Some(json!({ "jsonrpc": version, "result": result, "error": error, "id": id }))
}

/// Answers one HTTP request; the connection ends with it.
async fn handle(app: &Arc<Bitcoin>, request: &Request) -> Response {
    let mut response = if request.header("authorization") == app.authorization {
        let mut body = answer(app, request).await;
        // As the reference has it.
        body.push(b'\n');
        Response::new(200, "application/json", body)
    } else {
        Response::text(401, "401 Unauthorized.\n")
            .with("WWW-Authenticate", r#"Basic realm="btcd RPC""#)
    };
    response.close = true;
    response
}

async fn answer(app: &Arc<Bitcoin>, request: &Request) -> Vec<u8> {
    let is_batch = request.body.starts_with(b"[");
    let version = if is_batch { "2.0" } else { "1.0" };
    let calls = match calls_of(request, is_batch) {
        Ok(calls) => calls,
        Err(error) => return text(reply(version, &Value::Null, Err(error))),
    };
    let mut replies = answer_all(app, calls).await;
    match replies.len() {
        0 => Vec::new(),
        _ if is_batch => text(Some(Value::from(replies))),
        _ => text(replies.pop()),
    }
}

/// The calls of a request, as btcd reads them: what is no call in a batch has no answer.
fn calls_of(request: &Request, is_batch: bool) -> Result<Vec<Call>, RpcError> {
    let unreadable =
        |why: &dyn fmt::Display| RpcError::parse(format!("Failed to parse request: {why}"));
    if let Some(broken) = request.broken_body {
        return Err(unreadable(&broken));
    }
    if !is_batch {
        let call = serde_json::from_slice(&request.body);
        return call
            .map(|call| vec![call])
            .map_err(|error| unreadable(&error));
    }
    let calls: Result<Vec<Value>, _> = serde_json::from_slice(&request.body);
    let calls = calls.map_err(|error| unreadable(&error))?;
    if calls.is_empty() {
        return Err(RpcError::invalid_request("Invalid request: empty batch"));
    }
    let calls = calls.into_iter();
    Ok(calls
        .filter_map(|call| Call::deserialize(call).ok())
        .collect())
}

fn text(reply: Option<Value>) -> Vec<u8> {
    reply.map_or_else(Vec::new, |reply| reply.to_string().into_bytes())
}

/// Answers requests in their order. Broadcasts that follow one another are handed over together, so that
/// they can be checked on several threads.
async fn answer_all(app: &Arc<Bitcoin>, calls: Vec<Call>) -> Vec<Value> {
    let calls: Vec<Call> = calls
        .into_iter()
        .filter(|call| !call.id.is_null())
        .collect();
    let mut replies = Vec::with_capacity(calls.len());
    for run in calls.chunk_by(|one, next| one.method == BROADCAST && next.method == BROADCAST) {
        if run.first().is_some_and(|call| call.method == BROADCAST) {
            let params: Vec<&[Value]> = run.iter().map(Call::params).collect();
            let answers = methods::broadcast(app, &params).await;
            replies.extend(
                run.iter()
                    .zip(answers)
                    .filter_map(|(call, answer)| call.reply(answer)),
            );
            continue;
        }
        for call in run {
            let answer = match call.method.as_str() {
                "" => Err(RpcError::invalid_request("Invalid request: malformed")),
                method => methods::answer(app, method, call.params()).await,
            };
            replies.extend(call.reply(answer));
        }
    }
    replies
}
