//! What a request target asks for: `/broadcast_tx_sync?tx="a=1"`, with the rules of Go's `net/url`
//! and of `rpc/jsonrpc/server/http_uri_handler.go` of CometBFT 0.38.

use std::borrow::Cow;

use bytes::Bytes;
use rpc::BroadcastMethod;

use super::broadcast_method;

/// What a request target asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The path without its first slash and without percent escapes: the method's name, if it is
    /// one. Empty for `/`.
    pub method: Cow<'a, str>,
    /// What to do with it.
    pub kind: TargetKind,
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// JSON-RPC in the body, if there is one: whatever the HTTP method is, the node reads it. With
    /// an empty body a read.
    Root,
    /// A broadcast in plain form.
    Write {
        /// How it is broadcast.
        method: BroadcastMethod,
        /// The transaction, decoded.
        tx: Bytes,
    },
    /// A broadcast in another form, for the node to judge; its transaction may be in the body.
    UnusualWrite {
        /// How it is broadcast.
        method: BroadcastMethod,
    },
    /// The way to a WebSocket, if the request is a handshake.
    WebSocket,
    /// Anything else, to be forwarded as it came.
    Read,
}

/// Reads a request target in any form: a path, a whole URL, or something odd. The HTTP method does
/// not matter to the node, so it does not matter here.
pub fn classify_uri(target: &[u8]) -> Target<'_> {
    let (path, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &[][..]),
    };
    let is_path = path.first() == Some(&b'/');
    let path = if is_path { path } else { path_of_url(path) };
    let decoded = decode_path(path);
    let method = without_slash(decoded);
    let kind = match broadcast_method(method.as_bytes()) {
        Some(broadcast) => match tx_of(query).filter(|_| is_path) {
            Some(tx) => TargetKind::Write {
                method: broadcast,
                tx,
            },
            None => TargetKind::UnusualWrite { method: broadcast },
        },
        None if method.is_empty() => TargetKind::Root,
        None if method == "websocket" => TargetKind::WebSocket,
        None => in_doubt(&method),
    };
    Target { method, kind }
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
    if memchr::memchr(b'%', path).is_none() {
        return String::from_utf8_lossy(path);
    }
    let decoded = unescape(path, Plus::Literal).unwrap_or_else(|| path.to_vec());
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

fn without_slash(path: Cow<'_, str>) -> Cow<'_, str> {
    match path {
        Cow::Borrowed(path) => Cow::Borrowed(path.strip_prefix('/').unwrap_or(path)),
        Cow::Owned(mut path) => {
            if path.starts_with('/') {
                path.remove(0);
            }
            Cow::Owned(path)
        }
    }
}

/// Paths that have a broadcast's name in them, such as `//broadcast_tx_sync`. The node redirects
/// them or knows them not; should another version clean them up itself, they are no way round the
/// write lane.
fn in_doubt(method: &str) -> TargetKind {
    BroadcastMethod::ALL
        .into_iter()
        .find(|broadcast| method.contains(broadcast.name()))
        .map_or(TargetKind::Read, |method| TargetKind::UnusualWrite {
            method,
        })
}

/// The transaction in a query, if it is in one of the two plain forms: `tx="text"` or `tx=0xHEX`.
fn tx_of(query: &[u8]) -> Option<Bytes> {
    let value = first_value(query, b"tx")?;
    if let [b'0', b'x' | b'X', digits @ ..] = value.as_ref() {
        return decode_hex(digits);
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

/// The value of the first pair with that key, which Go looks up when there are several. Pairs
/// with a semicolon or with a broken escape count for nothing. An empty value makes the node look
/// into the body.
fn first_value<'a>(query: &'a [u8], wanted: &[u8]) -> Option<Cow<'a, [u8]>> {
    for pair in query.split(|byte| *byte == b'&') {
        if memchr::memchr(b';', pair).is_some() {
            continue;
        }
        let (key, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &[][..]),
        };
        let (Some(key), Some(value)) = (decode_component(key), decode_component(value)) else {
            continue;
        };
        if key.as_ref() == wanted {
            return Some(value);
        }
    }
    None
}

fn decode_component(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Some(Cow::Borrowed(text));
    }
    unescape(text, Plus::Space).map(Cow::Owned)
}

/// What a plus sign stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plus {
    Literal,
    Space,
}

/// Undoes percent escapes; none if one is broken.
fn unescape(text: &[u8], plus: Plus) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' if plus == Plus::Space => decoded.push(b' '),
            b'%' => {
                let (digits, tail) = tail.split_first_chunk::<2>()?;
                decoded.push(hex_digit(digits[0])? << 4 | hex_digit(digits[1])?);
                rest = tail;
            }
            other => decoded.push(*other),
        }
    }
    Some(decoded)
}

fn decode_hex(digits: &[u8]) -> Option<Bytes> {
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let bytes: Option<Vec<u8>> = pairs
        .iter()
        .map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?))
        .collect();
    bytes.map(Bytes::from)
}

const fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
