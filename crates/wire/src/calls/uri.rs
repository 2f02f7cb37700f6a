//! What a request target asks for: `/broadcast_tx_sync?tx="a=1"`, with the rules of Go's `net/url`
//! and of `rpc/jsonrpc/server/http_uri_handler.go` of CometBFT 0.38.

use std::borrow::Cow;

use crate::encoding::decode_hex;
use crate::json;
use crate::jsonrpc::BroadcastMethod;
use crate::query::{Plus, pairs, unescape};
use bytes::Bytes;

/// What a request target asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct UriTarget<'a> {
    /// The path without its first slash, the prefix `v1` and percent escapes: the method's name, if
    /// it is one. Empty for `/`.
    pub method: Cow<'a, str>,
    /// Whether it stood under `/v1`, where CometBFT 1.x serves every route a second time.
    pub is_v1: bool,
    /// What to do with it.
    pub kind: UriRoute,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UriRoute {
    /// JSON-RPC in the body, if there is one: whatever the HTTP method is, the node reads it. With
    /// an empty body a read.
    Root,
    /// A broadcast.
    Write {
        /// How it is broadcast.
        method: BroadcastMethod,
        /// The transaction, decoded; none where it is not in the query, or in a form that is not read here.
        tx: Option<Bytes>,
    },
    /// The way to a WebSocket, if the request is a handshake.
    WebSocket,
    /// Anything else, to be forwarded as it came.
    Read,
}

/// Reads a request target in any form: a path, a whole URL, or something odd. The HTTP method does
/// not matter to the node, so it does not matter here.
pub fn classify_uri(target: &[u8]) -> UriTarget<'_> {
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    let path = match path.first() {
        Some(b'/') => path,
        _ => path_of_url(path),
    };
    let decoded = decode_path(path);
    let (start, is_v1) = start_of_method(&decoded);
    let method = behind(decoded, start);
    let kind = match BroadcastMethod::of(method.as_bytes()) {
        Some(method) => tx_of(query).map_or(UriRoute::Read, |tx| UriRoute::Write { method, tx }),
        None if method.is_empty() => UriRoute::Root,
        None if method == "websocket" => UriRoute::WebSocket,
        None => in_doubt(&method),
    };
    UriTarget {
        method,
        is_v1,
        kind,
    }
}

/// The path of `scheme://authority/path` or `scheme:/path`; Go takes any scheme. A URL without a
/// path means `/`.
fn path_of_url(url: &[u8]) -> &[u8] {
    let Some(colon) = memchr::memchr(b':', url) else {
        return url;
    };
    let rest = &url[colon + 1..];
    match rest.strip_prefix(b"//") {
        Some(rest) => memchr::memchr(b'/', rest).map_or(b"/", |at| &rest[at..]),
        None => rest,
    }
}

/// A path without escapes. Escapes that are none stay: the node refuses them.
fn decode_path(path: &[u8]) -> Cow<'_, str> {
    match unescape(path, Plus::Literal) {
        Some(Cow::Owned(decoded)) => Cow::Owned(String::from_utf8_lossy(&decoded).into_owned()),
        _ => String::from_utf8_lossy(path),
    }
}

/// Where the method's name begins in a path: behind its slash and `v1/`, and whether that was there
/// (`RegisterRPCFuncs` in `rpc/jsonrpc/server/rpc_func.go`, v1.0.1: `/v1` and `/v1/` are roots too).
fn start_of_method(path: &str) -> (usize, bool) {
    let rest = path.strip_prefix('/').unwrap_or(path);
    let slash = path.len() - rest.len();
    match rest.strip_prefix("v1") {
        Some("") => (slash + 2, true),
        Some(rest) if rest.starts_with('/') => (slash + 3, true),
        _ => (slash, false),
    }
}

fn behind(text: Cow<'_, str>, start: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[start..]),
        Cow::Owned(text) => Cow::Owned(text[start..].to_owned()),
    }
}

/// Paths that have a broadcast's name in them, such as `//broadcast_tx_sync`. The node redirects
/// them or does not know them; should another version clean them up itself, they still take the
/// write lane.
fn in_doubt(method: &str) -> UriRoute {
    BroadcastMethod::ALL
        .into_iter()
        .find(|broadcast| method.contains(broadcast.name()))
        .map_or(UriRoute::Read, |method| UriRoute::Write {
            method,
            tx: None,
        })
}

/// The transaction in a query: `tx="text"`, a JSON string, or `tx=0xHEX`; none in a form that is not read here, and
/// nothing if the node refuses it (`nonJSONStringToArg` and `jsonStringToArg`).
fn tx_of(query: &[u8]) -> Option<Option<Bytes>> {
    // Of several pairs with that key Go looks up the first; an empty value makes the node look into
    // the body.
    let value = pairs(query).find(|(key, _)| key.as_ref() == b"tx");
    let value = value.map(|(_, value)| value).unwrap_or_default();
    let text = match (std::str::from_utf8(&value), value.first()) {
        (Ok(text), Some(b'"')) => text,
        (_, Some(b'0')) if matches!(value.get(1), Some(b'x' | b'X')) => {
            return decode_hex(&value[2..]).ok().map(|tx| Some(tx.into()));
        }
        // JSON that may be a list of numbers, null, or a string with replaced letters.
        (_, None | Some(b'[' | b'n' | b'"' | b' ' | b'\t' | b'\r' | b'\n')) => return Some(None),
        _ => return None,
    };
    let is_whole = json::check(text.as_bytes()).is_ok_and(|checked| checked.len() == text.len());
    is_whole.then(|| Some(json::unquote(text.as_bytes()).into_owned().into()))
}

#[cfg(test)]
mod tests;
