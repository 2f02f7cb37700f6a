//! JSON-RPC over POST, methods over URI, and the page of endpoints.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wire::json;
use wire::jsonrpc::{self, PlainBroadcast, RequestFault, RequestId};

use super::methods::{self, Caller};
use super::table::{self, METHODS, Method};
use super::{params, uri};
use crate::http::{Request, Response};
use crate::jsonrpc::{RpcError, failure, failure_body, success};
use crate::node::Node;

/// What a call without parameters gets from a method that has some: Go's reflection panics.
pub(crate) const TOO_FEW_ARGUMENTS: &str = "reflect: Call with too few input arguments";

fn json_body(status: u16, body: Vec<u8>) -> Response {
    Response::new(status, "application/json", body)
}

fn error(status: u16, id: Option<&RequestId<'_>>, error: &RpcError) -> Response {
    json_body(status, failure_body(id, error))
}

/// The same answer, which may be cached for a day.
fn cached(mut answer: Response) -> Response {
    let header = ("Cache-Control", "public, max-age=86400".to_owned());
    answer.headers.insert(0, header);
    answer
}

/// Answers one HTTP request.
pub(crate) async fn handle(node: &Arc<Node>, peer: SocketAddr, request: &Request) -> Response {
    let asked_at = SystemTime::now();
    let dialect = node.config.rpc.dialect;
    match batch_of(node, request) {
        Ok(batch) => {
            let mut answer = answer(node, peer, request, batch).await;
            if matches!(answer.body.first(), Some(b'{' | b'[')) {
                answer.body = dialect.formatted(answer.body);
            }
            stamped(answer, asked_at)
        }
        // The original stamps its time on answers after these checks.
        Err(refusal) => refusal,
    }
}

/// The requests of a batch, if the body is one and every element is well formed.
///
/// # Errors
/// The answer to a body that could not be read, or to a batch that is too long.
fn batch_of<'a>(
    node: &Node,
    request: &'a Request,
) -> Result<Option<Vec<jsonrpc::Request<'a>>>, Response> {
    let invalid = |status, text| error(status, None, &RpcError::InvalidRequest(text));
    if let Some(broken) = request.broken_body {
        return Err(Response {
            close: true,
            ..invalid(400, format!("error reading request body: {broken}"))
        });
    }
    let body = request.body.as_slice();
    if !matches!(body.first(), Some(b'[' | b' ' | b'\t' | b'\r' | b'\n')) {
        return Ok(None);
    }
    let array = json::check(body)
        .ok()
        .filter(|value| value.first() == Some(&b'['));
    let batch: Option<Vec<_>> = array.and_then(|array| {
        json::elements(array)
            .map(|element| jsonrpc::Request::decode(element).ok())
            .collect()
    });
    let limit = node.config.rpc.max_request_batch_size;
    if limit > 0 && batch.as_ref().is_some_and(|batch| batch.len() > limit) {
        let text = format!("batch request exceeds maximum ({limit}) allowed number of requests");
        return Err(invalid(200, text));
    }
    Ok(batch)
}

async fn answer(
    node: &Arc<Node>,
    peer: SocketAddr,
    request: &Request,
    batch: Option<Vec<jsonrpc::Request<'_>>>,
) -> Response {
    let path = request.path();
    if path == "/" {
        return if request.body.is_empty() {
            endpoints(request)
        } else {
            post(node, peer, &request.body, batch).await
        };
    }
    match path.strip_prefix('/').and_then(table::find) {
        Some(method) => by_uri(node, peer, method, request).await,
        None => {
            Response::text(404, "404 page not found\n").with("X-Content-Type-Options", "nosniff")
        }
    }
}

/// JSON-RPC in the body.
async fn post(
    node: &Arc<Node>,
    peer: SocketAddr,
    body: &[u8],
    batch: Option<Vec<jsonrpc::Request<'_>>>,
) -> Response {
    if let Some(found) = PlainBroadcast::whole(body)
        && let Some(tx) = found.transaction()
    {
        let result = methods::broadcast(node, found.method, tx, peer).await;
        return json_body(200, outcome(&found.id, result));
    }
    let requests = match batch {
        Some(requests) => requests,
        None => match json::check(body)
            .map_err(RequestFault::Json)
            .and_then(jsonrpc::Request::decode)
        {
            Ok(request) => vec![request],
            Err(fault) => {
                let fault = RpcError::Parse(format!("error unmarshaling request: {fault}"));
                return error(500, None, &fault);
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
            Err(panic) => return error(500, Some(&RequestId::NONE), &panic),
        }
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
    let answer = json_body(200, body);
    if cacheable { cached(answer) } else { answer }
}

/// One request of a POST: its answer and whether that may be cached, or the error of a panic,
/// which ends the whole POST.
async fn one(
    node: &Arc<Node>,
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
            let error = node.config.rpc.dialect.error();
            let error = RpcError::InvalidParams(format!(
                "{error} converting json params to arguments: {text}"
            ));
            return Ok((failure_body(Some(id), &error), false));
        }
        None if method.params.is_empty() => params::Args::none(),
        None => return Err(RpcError::Internal(TOO_FEW_ARGUMENTS.to_owned())),
    };
    let cacheable = args.cacheable(method);
    let result = methods::call(node, method.name, args, Caller::over_http(peer)).await;
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

async fn by_uri(
    node: &Arc<Node>,
    peer: SocketAddr,
    method: &Method,
    request: &Request,
) -> Response {
    let id = RequestId::NONE;
    if method.ws_only {
        return error(404, Some(&id), &RpcError::MethodNotFound);
    }
    let form: &[u8] = if has_form(request) {
        &request.body
    } else {
        &[]
    };
    let args = match uri::decode(method, request.query(), &String::from_utf8_lossy(form)) {
        Ok(args) => args,
        Err(text) => {
            let word = node.config.rpc.dialect.error();
            let text = format!("{word} converting http params to arguments: {text}");
            return error(500, Some(&id), &RpcError::InvalidParams(text));
        }
    };
    let cacheable = args.cacheable(method);
    let result = methods::call(node, method.name, args, Caller::over_http(peer)).await;
    let is_ok = result.is_ok();
    let answer = json_body(if is_ok { 200 } else { 500 }, outcome(&id, result));
    if is_ok && cacheable {
        cached(answer)
    } else {
        answer
    }
}

fn has_form(request: &Request) -> bool {
    let kind = request.header("content-type");
    matches!(request.method(), "POST" | "PUT" | "PATCH")
        && kind.starts_with("application/x-www-form-urlencoded")
}

/// The HTML list of endpoints.
fn endpoints(request: &Request) -> Response {
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
    Response::new(200, "text/html", page.into_bytes())
}

/// The same answer with the time of the request's arrival.
pub(crate) fn stamped(answer: Response, asked_at: SystemTime) -> Response {
    let since = asked_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    answer.with("X-Server-Time", since.as_secs().to_string())
}
