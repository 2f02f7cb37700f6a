//! JSON-RPC over HTTP as btcd's server answers it: one answer for each connection, batches in one array,
//! nothing for a request without an id.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::RpcError;
use super::methods::{self, BROADCAST};
use super::node::Bitcoin;
use crate::faults::Faults;
use crate::http::{Request, Response};

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
pub(crate) async fn handle(app: &Arc<Bitcoin>, faults: &Faults, request: &Request) -> Response {
    let mut response = if request.header("authorization") == app.authorization {
        let mut body = answer(app, faults, request).await;
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

async fn answer(app: &Arc<Bitcoin>, faults: &Faults, request: &Request) -> Vec<u8> {
    if let Some(broken) = request.broken_body {
        let error = RpcError::parse(format!("Failed to parse request: {broken}"));
        return text(reply("1.0", &Value::Null, Err(error)));
    }
    if !request.body.starts_with(b"[") {
        return match serde_json::from_slice::<Call>(&request.body) {
            Ok(call) => text(answer_all(app, faults, vec![call]).await.pop()),
            Err(error) => {
                let error = RpcError::parse(format!("Failed to parse request: {error}"));
                text(reply("1.0", &Value::Null, Err(error)))
            }
        };
    }
    let error = match serde_json::from_slice::<Vec<Value>>(&request.body) {
        Err(error) => RpcError::parse(format!("Failed to parse request: {error}")),
        Ok(calls) if calls.is_empty() => RpcError::invalid_request("Invalid request: empty batch"),
        Ok(calls) => {
            // btcd has no answer for what is no request.
            let calls = calls
                .into_iter()
                .filter_map(|call| Call::deserialize(call).ok());
            let replies = answer_all(app, faults, calls.collect()).await;
            return match replies.is_empty() {
                true => Vec::new(),
                false => text(Some(Value::from(replies))),
            };
        }
    };
    text(reply("2.0", &Value::Null, Err(error)))
}

fn text(reply: Option<Value>) -> Vec<u8> {
    reply.map_or_else(Vec::new, |reply| reply.to_string().into_bytes())
}

/// Answers requests in their order. Broadcasts that follow one another are handed over together, so that
/// they can be checked on several threads.
async fn answer_all(app: &Arc<Bitcoin>, faults: &Faults, calls: Vec<Call>) -> Vec<Value> {
    let calls: Vec<Call> = calls
        .into_iter()
        .filter(|call| !call.id.is_null())
        .collect();
    let mut replies = Vec::with_capacity(calls.len());
    for run in calls.chunk_by(|one, next| one.method == BROADCAST && next.method == BROADCAST) {
        if run.first().is_some_and(|call| call.method == BROADCAST) {
            let params: Vec<&[Value]> = run.iter().map(Call::params).collect();
            let answers = methods::broadcast(app, faults, &params).await;
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
