//! JSON-RPC over POST, methods over URI, and the page of endpoints.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wire::json;
use wire::jsonrpc::{self, PlainBroadcast, RequestFault, RequestId};

use super::methods::{self, Caller};
use super::table::{self, METHODS, Method};
use super::{params, uri};
use crate::faults::Garbage;
use crate::http::{Request, Response};
use crate::jsonrpc::{RpcError, failure, failure_body, success};
use crate::node::Node;

/// What a call without parameters gets from a method that has some: Go's reflection panics.
pub(crate) const TOO_FEW_ARGUMENTS: &str = "reflect: Call with too few input arguments";

/// An answer before it is an HTTP response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    status: u16,
    kind: ContentType,
    cacheable: bool,
    close: bool,
    /// Refused before the original stamps its time on answers.
    unstamped: bool,
    body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentType {
    Json,
    Html,
    /// Plain text of Go's `http.Error`.
    Text,
    /// Nothing was written at all.
    None,
}

impl HttpAnswer {
    fn json(status: u16, body: Vec<u8>) -> Self {
        Self {
            status,
            kind: ContentType::Json,
            cacheable: false,
            close: false,
            unstamped: false,
            body,
        }
    }

    fn error(status: u16, id: Option<&RequestId<'_>>, error: &RpcError) -> Self {
        Self::json(status, failure_body(id, error))
    }

    fn text(status: u16, text: &str) -> Self {
        Self {
            kind: ContentType::Text,
            ..Self::json(status, text.as_bytes().to_vec())
        }
    }
}

/// Answers one HTTP request.
pub(crate) async fn handle(node: &Node, peer: SocketAddr, request: &Request) -> Response {
    node.counters.requests.fetch_add(1, Ordering::Relaxed);
    node.faults.pass().await;
    let asked_at = SystemTime::now();
    let mut answer = answer(node, peer, request).await;
    if !node.faults.untouched() {
        node.faults.delay().await;
        node.faults.pass().await;
        match node.faults.now().garbage {
            Some(Garbage::Silence) => std::future::pending().await,
            Some(garbage) => answer.body = garbled(&answer.body, garbage),
            None => {}
        }
    }
    response(answer, asked_at)
}

/// The body that is sent instead of an answer's.
pub(crate) fn garbled(body: &[u8], garbage: Garbage) -> Vec<u8> {
    const WRONG_ID: &[u8] = b"\"id\":987654321";
    match garbage {
        Garbage::NotJson => b"<<< this is no JSON >>>".to_vec(),
        Garbage::Half => body[..body.len() / 2].to_vec(),
        Garbage::Silence => Vec::new(),
        Garbage::WrongId => match body.windows(5).position(|five| five == b"\"id\":") {
            Some(at) => {
                let rest = &body[at + 5..];
                let end = rest
                    .iter()
                    .position(|byte| matches!(byte, b',' | b'}'))
                    .unwrap_or(rest.len());
                [&body[..at], WRONG_ID, &rest[end..]].concat()
            }
            None => body.to_vec(),
        },
    }
}

async fn answer(node: &Node, peer: SocketAddr, request: &Request) -> HttpAnswer {
    if let Some(broken) = request.broken_body {
        let error = RpcError::InvalidRequest(format!("error reading request body: {broken}"));
        return HttpAnswer {
            close: true,
            unstamped: true,
            ..HttpAnswer::error(400, None, &error)
        };
    }
    let body = request.body.as_slice();
    let batch = if body
        .first()
        .is_some_and(|byte| matches!(byte, b'[' | b' ' | b'\t' | b'\r' | b'\n'))
    {
        batch_of(body)
    } else {
        None
    };
    let limit = node.config.rpc.max_request_batch_size;
    if let Some(batch) = &batch
        && limit > 0
        && batch.len() > limit
    {
        let text = format!("batch request exceeds maximum ({limit}) allowed number of requests");
        let error = RpcError::InvalidRequest(text);
        return HttpAnswer {
            unstamped: true,
            ..HttpAnswer::error(200, None, &error)
        };
    }
    let path = request.path();
    if path == "/" {
        return if body.is_empty() {
            endpoints(request)
        } else {
            post(node, peer, body, batch).await
        };
    }
    match path.strip_prefix('/').and_then(table::find) {
        Some(method) => by_uri(node, peer, method, request).await,
        None => HttpAnswer::text(404, "404 page not found\n"),
    }
}

/// The requests of a batch, if the body is one and every element is well formed.
fn batch_of(body: &[u8]) -> Option<Vec<jsonrpc::Request<'_>>> {
    let value = json::check(body)
        .ok()
        .filter(|value| value.first() == Some(&b'['))?;
    json::elements(value)
        .map(|element| jsonrpc::Request::decode(element).ok())
        .collect()
}

/// JSON-RPC in the body.
async fn post(
    node: &Node,
    peer: SocketAddr,
    body: &[u8],
    batch: Option<Vec<jsonrpc::Request<'_>>>,
) -> HttpAnswer {
    if let Some(found) = PlainBroadcast::whole(body)
        && let Some(tx) = found.transaction()
    {
        let result = methods::broadcast(node, found.method, tx, peer).await;
        return HttpAnswer::json(200, outcome(&found.id, result));
    }
    let requests = match batch {
        Some(requests) => requests,
        None => match json::check(body)
            .map_err(RequestFault::Json)
            .and_then(jsonrpc::Request::decode)
        {
            Ok(request) => vec![request],
            Err(fault) => {
                let error = RpcError::Parse(format!("error unmarshaling request: {fault}"));
                return HttpAnswer::error(500, None, &error);
            }
        },
    };
    let mut cacheable = true;
    let mut answers = Vec::new();
    for request in &requests {
        let Some(id) = &request.id else {
            continue;
        };
        match one(node, peer, id, request).await {
            Ok((answer, cached)) => {
                cacheable &= cached;
                answers.push(answer);
            }
            Err(panic) => {
                return HttpAnswer::error(500, Some(&RequestId::NONE), &panic);
            }
        }
    }
    let body = match answers.len() {
        0 => {
            return HttpAnswer {
                kind: ContentType::None,
                ..HttpAnswer::json(200, Vec::new())
            };
        }
        1 => answers.swap_remove(0),
        _ => [b"[", answers.join(&b',').as_slice(), b"]"].concat(),
    };
    HttpAnswer {
        cacheable,
        ..HttpAnswer::json(200, body)
    }
}

/// One request of a POST: its answer and whether that may be cached, or the error of a panic,
/// which ends the whole POST.
async fn one(
    node: &Node,
    peer: SocketAddr,
    id: &RequestId<'_>,
    request: &jsonrpc::Request<'_>,
) -> Result<(Vec<u8>, bool), RpcError> {
    let Some(method) = table::find(&request.method).filter(|method| !method.ws_only) else {
        return Ok((failure_body(Some(id), &RpcError::MethodNotFound), false));
    };
    let args = match request.params.map(|given| params::decode(method, given)) {
        Some(Ok(args)) => args,
        Some(Err(text)) => {
            let error = RpcError::InvalidParams(format!(
                "error converting json params to arguments: {text}"
            ));
            return Ok((failure_body(Some(id), &error), false));
        }
        None if method.params.is_empty() => params::Args::new(Vec::new()),
        None => return Err(RpcError::Internal(TOO_FEW_ARGUMENTS.to_owned())),
    };
    let cacheable = args.cacheable(method);
    let result = methods::call(
        node,
        method.name,
        args,
        Caller {
            address: peer,
            events: None,
        },
    )
    .await;
    Ok((outcome(id, result), cacheable))
}

/// The answer of a call that came through.
pub(crate) fn outcome(id: &RequestId<'_>, result: Result<Vec<u8>, String>) -> Vec<u8> {
    match result {
        Ok(result) => {
            let mut out = Vec::with_capacity(result.len() + 48);
            success(&mut out, id, &result);
            out
        }
        Err(text) => {
            let mut out = Vec::with_capacity(text.len() + 112);
            failure(&mut out, Some(id), &RpcError::Internal(text));
            out
        }
    }
}

async fn by_uri(node: &Node, peer: SocketAddr, method: &Method, request: &Request) -> HttpAnswer {
    if method.ws_only {
        return HttpAnswer::error(404, Some(&RequestId::NONE), &RpcError::MethodNotFound);
    }
    let form = String::from_utf8_lossy(if has_form(request) {
        &request.body
    } else {
        b""
    });
    let args = match uri::decode(method, request.query(), &form) {
        Ok(args) => args,
        Err(text) => {
            let error = RpcError::InvalidParams(format!(
                "error converting http params to arguments: {text}"
            ));
            return HttpAnswer::error(500, Some(&RequestId::NONE), &error);
        }
    };
    let cacheable = args.cacheable(method);
    match methods::call(
        node,
        method.name,
        args,
        Caller {
            address: peer,
            events: None,
        },
    )
    .await
    {
        Ok(result) => {
            let body = outcome(&RequestId::NONE, Ok(result));
            HttpAnswer {
                cacheable,
                ..HttpAnswer::json(200, body)
            }
        }
        Err(text) => HttpAnswer::error(500, Some(&RequestId::NONE), &RpcError::Internal(text)),
    }
}

fn has_form(request: &Request) -> bool {
    let kind = request.header("content-type");
    matches!(request.method(), "POST" | "PUT" | "PATCH")
        && kind.starts_with("application/x-www-form-urlencoded")
}

/// The HTML list of endpoints.
fn endpoints(request: &Request) -> HttpAnswer {
    let host = request.header("host");
    let mut page = String::from(
        "<html><body><br>Available endpoints:<br><br>Endpoints that require arguments:<br>",
    );
    for method in METHODS {
        let names: Vec<String> = method
            .params
            .iter()
            .map(|(name, _)| format!("{name}=_"))
            .collect();
        let link = format!("//{host}/{}?{}", method.text, names.join("&"));
        page.push_str(&format!("<a href=\"{link}\">{link}</a></br>"));
    }
    page.push_str("</body></html>");
    HttpAnswer {
        kind: ContentType::Html,
        ..HttpAnswer::json(200, page.into_bytes())
    }
}

fn response(answer: HttpAnswer, asked_at: SystemTime) -> Response {
    let HttpAnswer {
        status,
        kind,
        cacheable,
        close,
        unstamped,
        body,
    } = answer;
    let mut headers = Vec::with_capacity(4);
    if cacheable {
        headers.push(("Cache-Control", "public, max-age=86400".to_owned()));
    }
    match kind {
        ContentType::Json => headers.push(("Content-Type", "application/json".to_owned())),
        ContentType::Html => headers.push(("Content-Type", "text/html".to_owned())),
        ContentType::Text => headers.push(("Content-Type", "text/plain; charset=utf-8".to_owned())),
        ContentType::None => {}
    }
    if kind == ContentType::Text {
        headers.push(("X-Content-Type-Options", "nosniff".to_owned()));
    }
    if !unstamped {
        headers.push(server_time(asked_at));
    }
    Response {
        status,
        headers,
        body,
        close,
    }
}

/// The header with the time of a request's arrival.
pub(crate) fn server_time(at: SystemTime) -> (&'static str, String) {
    let seconds = at
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    ("X-Server-Time", seconds.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_what_it_says() {
        let body = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        assert_eq!(
            garbled(body, Garbage::WrongId),
            br#"{"jsonrpc":"2.0","id":987654321,"result":{}}"#
        );
        assert_eq!(garbled(body, Garbage::Half).len(), body.len() / 2);
        assert!(json::check(&garbled(body, Garbage::NotJson)).is_err());
    }
}
