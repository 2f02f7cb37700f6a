//! Calls, however they travel.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value};
use wire::encoding::{decode_base64, decode_hex, pairs};
use wire::jsonrpc::{BroadcastMethod, PlainBroadcast, Request, RequestId};

use super::methods::{self, broadcast, check_tx};
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

/// The names of a method's parameters in order; none if there is no such method, or only over a WebSocket.
pub(super) fn parameters(method: &str, is_websocket: bool) -> Option<&'static [&'static str]> {
    Some(match method {
        "abci_query" => &["path", "data", "height", "prove"],
        "block" | "block_results" | "consensus_params" => &["height"],
        "blockchain" => &["minHeight", "maxHeight"],
        "broadcast_tx_async" | "broadcast_tx_commit" | "broadcast_tx_sync" | "check_tx" => &["tx"],
        "genesis" | "health" | "net_info" | "num_unconfirmed_txs" | "status" => &[],
        "subscribe" | "unsubscribe" if is_websocket => &["query"],
        "tx" => &["hash", "prove"],
        "unconfirmed_txs" => &["limit"],
        "unsubscribe_all" if is_websocket => &[],
        _ => return None,
    })
}

/// The parameters of a call; missing ones have their zero value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Args {
    values: Map<String, Value>,
    /// Whether they are from a URI, where bytes are a quoted text or hexadecimal digits behind `0x`.
    is_uri: bool,
}

impl Args {
    /// Those of a JSON-RPC request: an object, an array, or null.
    pub(super) fn of_json(names: &[&str], params: Option<&[u8]>) -> Result<Self, String> {
        let params = params.map_or(Ok(Value::Null), serde_json::from_slice);
        let values = match params.map_err(|error| error.to_string())? {
            Value::Null => Map::new(),
            Value::Object(values) => values,
            Value::Array(values) if values.len() == names.len() => {
                let names = names.iter().map(|name| (*name).to_owned());
                names.zip(values).collect()
            }
            Value::Array(values) => {
                let (wanted, count) = (names.len(), values.len());
                return Err(format!("expected {wanted} parameters, got {count}"));
            }
            _ => return Err("the parameters are no object and no array".to_owned()),
        };
        Ok(Self {
            values,
            is_uri: false,
        })
    }

    /// Those in the query of a URI.
    pub(super) fn of_uri(query: &str) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let given = pairs(query.as_bytes()).filter(|(_, value)| !value.is_empty());
        let given = given.map(|(name, value)| (text(&name), Value::from(text(&value))));
        Self {
            values: given.collect(),
            is_uri: true,
        }
    }

    fn find(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Result<String, RpcError> {
        match self.find(name) {
            None => Ok(String::new()),
            Some(Value::String(text)) if self.is_uri => {
                Ok(quoted(text).unwrap_or(text.as_str()).to_owned())
            }
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(wrong(name, "a text")),
        }
    }

    /// An integer, which JSON has as a text.
    pub(super) fn integer(&self, name: &str) -> Result<Option<i64>, RpcError> {
        let number = match self.find(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => quoted(text).unwrap_or(text.as_str()).parse().ok(),
            Some(_) => None,
        };
        number
            .map(Some)
            .ok_or_else(|| wrong(name, "an integer as a text"))
    }

    /// Bytes in base64: transactions and hashes.
    pub(super) fn tx(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        self.bytes(name, decode_base64)
    }

    /// Bytes in hexadecimal digits: the data of queries.
    pub(super) fn hex(&self, name: &str) -> Result<Vec<u8>, RpcError> {
        self.bytes(name, decode_hex)
    }

    fn bytes(&self, name: &str, decode: fn(&[u8]) -> Option<Vec<u8>>) -> Result<Vec<u8>, RpcError> {
        let text = match self.find(name) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => text,
            Some(_) => return Err(wrong(name, "a text")),
        };
        let decoded = if !self.is_uri {
            decode(text.as_bytes())
        } else if let Some(digits) = text.strip_prefix("0x") {
            decode_hex(digits.as_bytes())
        } else {
            let text =
                quoted(text).ok_or_else(|| wrong(name, "a quoted text, or 0x and digits"))?;
            Some(text.as_bytes().to_vec())
        };
        decoded.ok_or_else(|| wrong(name, "bytes in base64, or in hexadecimal digits"))
    }
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.strip_suffix('"')
}

fn wrong(name: &str, why: &str) -> RpcError {
    RpcError::InvalidParams(format!("parameter {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(method: &str, params: &str) -> Result<Args, String> {
        Args::of_json(parameters(method, true).unwrap(), Some(params.as_bytes()))
    }

    #[test]
    fn parameters_have_names_or_places() {
        for params in [r#"{"height":"7"}"#, r#"["7"]"#, r#"{"height":7}"#] {
            let args = json("block", params).unwrap();
            assert_eq!(args.integer("height"), Ok(Some(7)), "{params}");
        }
        assert_eq!(json("block", "null").unwrap().integer("height"), Ok(None));
        assert!(json("block", r#"["1","2"]"#).is_err());
        assert!(json("block", "true").is_err());
        let wrong = json("block", r#"{"height":"x"}"#).unwrap();
        assert!(wrong.integer("height").is_err());
    }

    #[test]
    fn bytes_are_base64_in_json_and_quoted_or_hex_in_a_uri() {
        let tx = json("check_tx", r#"{"tx":"YT0x"}"#).unwrap().tx("tx");
        assert_eq!(tx, Ok(b"a=1".to_vec()));
        for query in ["tx=%22a%3D1%22", "tx=\"a=1\"", "tx=0x613d31"] {
            assert_eq!(Args::of_uri(query).tx("tx"), Ok(b"a=1".to_vec()), "{query}");
        }
        assert!(Args::of_uri("tx=abc").tx("tx").is_err());
        let data = json("abci_query", r#"{"data":"613d31"}"#).unwrap();
        assert_eq!(data.hex("data"), Ok(b"a=1".to_vec()));
        let height = Args::of_uri("height=%225%22").integer("height");
        assert_eq!(height, Ok(Some(5)));
    }
}
