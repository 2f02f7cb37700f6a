//! What a request target asks for: `/broadcast_tx_sync?tx="a=1"`, with the rules of Go's `net/url`
//! and of `rpc/jsonrpc/server/http_uri_handler.go` of CometBFT 0.38.

use std::borrow::Cow;

use crate::encoding::decode_hex;
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
        /// The transaction, decoded, of a plain form; none in another form, for the node to judge:
        /// it may be in the body.
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
    let is_path = path.first() == Some(&b'/');
    let path = if is_path { path } else { path_of_url(path) };
    let decoded = decode_path(path);
    let (start, is_v1) = start_of_method(&decoded);
    let method = behind(decoded, start);
    let kind = match BroadcastMethod::of(method.as_bytes()) {
        Some(method) => UriRoute::Write {
            method,
            tx: tx_of(query).filter(|_| is_path),
        },
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

/// The transaction in a query, if it is in one of the two plain forms: `tx="text"` or `tx=0xHEX`.
fn tx_of(query: &[u8]) -> Option<Bytes> {
    // Of several pairs with that key Go looks up the first; an empty value makes the node look into
    // the body.
    let (_, value) = pairs(query).find(|(key, _)| key.as_ref() == b"tx")?;
    if let [b'0', b'x' | b'X', digits @ ..] = value.as_ref() {
        return decode_hex(digits).ok().map(Bytes::from);
    }
    let [b'"', inner @ .., b'"'] = value.as_ref() else {
        return None;
    };
    let is_plain = inner
        .iter()
        .all(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f))
        && std::str::from_utf8(inner).is_ok();
    is_plain.then(|| Bytes::copy_from_slice(inner))
}

#[cfg(test)]
mod tests;
