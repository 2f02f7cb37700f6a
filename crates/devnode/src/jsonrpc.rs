//! JSON-RPC answers and errors, the only place where their codes and messages are written.

use wire::json::write as json;
use wire::jsonrpc::RequestId;

/// An error answer: code and message belong together, `data` describes what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RpcError {
    /// −32700: the request is no JSON.
    Parse(String),
    /// −32600: the request cannot be taken.
    InvalidRequest(String),
    /// −32601: no such method.
    MethodNotFound,
    /// −32602: the parameters do not fit.
    InvalidParams(String),
    /// −32603: the method failed.
    Internal(String),
    /// −32000: a subscription ended.
    Server(String),
}

impl RpcError {
    fn parts(&self) -> (i32, &'static str, &str) {
        match self {
            Self::Parse(data) => (-32_700, "Parse error. Invalid JSON", data),
            Self::InvalidRequest(data) => (-32_600, "Invalid Request", data),
            Self::MethodNotFound => (-32_601, "Method not found", ""),
            Self::InvalidParams(data) => (-32_602, "Invalid params", data),
            Self::Internal(data) => (-32_603, "Internal error", data),
            Self::Server(data) => (-32_000, "Server error", data),
        }
    }
}

/// Appends the start of an answer: everything before its result or error.
pub(crate) fn begin(out: &mut Vec<u8>, id: Option<&RequestId<'_>>) {
    json::raw(out, r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        json::raw(out, r#","id":"#);
        json::raw(out, id.as_str());
    }
}

/// Appends a whole answer with a result that is JSON already.
pub(crate) fn success(out: &mut Vec<u8>, id: &RequestId<'_>, result: &[u8]) {
    begin(out, Some(id));
    json::raw(out, r#","result":"#);
    out.extend_from_slice(result);
    out.push(b'}');
}

/// Appends a whole error answer; without an id if the request's could not be read.
pub(crate) fn failure(out: &mut Vec<u8>, id: Option<&RequestId<'_>>, error: &RpcError) {
    let (code, message, data) = error.parts();
    begin(out, id);
    let data = |out: &mut Vec<u8>| {
        if !data.is_empty() {
            json::fill(out, r#","data":?"#, &[&json::Text(data)]);
        }
    };
    json::fill(
        out,
        r#","error":{"code":?,"message":??}}"#,
        &[&json::Int(code), &json::Text(message), &data],
    );
}

/// A whole error answer.
pub(crate) fn failure_body(id: Option<&RequestId<'_>>, error: &RpcError) -> Vec<u8> {
    let mut out = Vec::with_capacity(160);
    failure(&mut out, id, error);
    out
}

#[cfg(test)]
mod tests {
    use wire::jsonrpc::Request;

    use super::*;

    #[test]
    fn errors_are_written_as_the_node_writes_them() {
        let request = Request::decode(br#"{"id":"a\""}"#).unwrap();
        let id = request.id.unwrap();
        let text = |id: Option<&RequestId<'_>>, error| {
            String::from_utf8(failure_body(id, &error)).unwrap()
        };
        assert_eq!(
            text(None, RpcError::Parse("x".to_owned())),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error. Invalid JSON","data":"x"}}"#
        );
        assert_eq!(
            text(Some(&id), RpcError::MethodNotFound),
            r#"{"jsonrpc":"2.0","id":"a\"","error":{"code":-32601,"message":"Method not found"}}"#
        );
    }
}
