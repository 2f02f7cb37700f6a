//! What a request target asks for: `/broadcast_tx_sync?tx="a=1"`, with the rules of Go's `net/url`
//! and of `rpc/jsonrpc/server/http_uri_handler.go` of CometBFT 0.38.

use std::borrow::Cow;

use bytes::Bytes;

use super::bytes_of;
use crate::encoding::{Plus, decode_hex, pairs, unescape};
use crate::json;
use crate::jsonrpc::BroadcastMethod;

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
        /// The transaction in the query, decoded, empty where it is not there: a node looks into a body then. None where it
        /// is in doubt whether the node knows the path.
        tx: Option<Bytes>,
    },
    /// The way to a WebSocket, if the request is a handshake.
    WebSocket,
    /// Anything else, to be forwarded as it came: also a broadcast by its exact name whose `tx` the node refuses, for
    /// the node's words.
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
        Some(method) => tx_of(query).map_or(UriRoute::Read, |tx| UriRoute::Write {
            method,
            tx: path.starts_with(b"/").then_some(tx),
        }),
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

/// The transaction in a query: `tx="text"`, a JSON string, `tx=0xHEX`, or other JSON, empty where there is none; nothing
/// if the node refuses it (`nonJSONStringToArg` and `jsonStringToArg`).
fn tx_of(query: &[u8]) -> Option<Bytes> {
    // Of several pairs with that key Go looks up the first.
    let value = pairs(query).find(|(key, _)| key.as_ref() == b"tx");
    let value = value.map(|(_, value)| value).unwrap_or_default();
    match value.as_ref() {
        [] => Some(Bytes::new()),
        [b'0', b'x' | b'X', digits @ ..] => decode_hex(digits).map(Bytes::from),
        [b'"', .., b'"'] => {
            let text = json::unquote(json::check(&value).ok()?);
            Some(text.into_owned().into())
        }
        json => bytes_of(json::check(json).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(target: &str) -> UriRoute {
        classify_uri(target.as_bytes()).kind
    }

    fn tx(target: &str) -> Option<Vec<u8>> {
        match kind(target) {
            UriRoute::Write { tx, .. } => tx.map(Vec::from),
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn case_40_transactions_are_quoted_or_hex() {
        let broadcast = |query: &str| tx(&format!("/broadcast_tx_sync?{query}"));
        for (query, expected) in [
            ("tx=\"a=1\"", &b"a=1"[..]),
            ("tx=%22a%3D1%22", b"a=1"),
            ("tx=\"a+b\"", b"a b"),
            ("tx=\"a%2Bb\"", b"a+b"),
            ("tx=\"\u{fc}\"", "\u{fc}".as_bytes()),
            ("tx=\"\"", b""),
            ("tx=0x613d31", b"a=1"),
            ("tx=0X613D31", b"a=1"),
            ("tx=0x", b""),
            ("x=1&tx=\"a\"&tx=\"b\"", b"a"),
            ("a;b&tx=\"a\"", b"a"),
            ("tx=%zz&tx=\"a\"", b"a"),
            ("%74x=\"a\"", b"a"),
            ("tx=\"a\\u0062\"", b"ab"),
            ("tx=\"%ff\"", "\u{fffd}".as_bytes()),
            ("tx=[97, null]", b"a\0"),
            ("tx=+\"YQ==\"", b"a"),
            ("tx=null", b""),
            ("tx=&tx=\"a\"", b""),
            ("TX=\"a\"", b""),
            ("tx=\"a\";x", b""),
            ("tx", b""),
            ("", b""),
            ("tx=\"{\\\"a\\\":1}\"", b"{\"a\":1}"),
        ] {
            assert_eq!(broadcast(query).as_deref(), Some(expected), "{query}");
        }
        // What the node refuses.
        for query in [
            "tx=abc",
            "tx=5",
            "tx=[256]",
            "tx=+\"a\"",
            "tx=\"",
            "tx=\"a",
            "tx=a\"",
            "tx=\"a\"b\"",
            "tx=\"a%0Ab\"",
            "tx=0x6",
            "tx=0xzz",
            "??&A\0v:broadcast_tx_ausync??broadcast_tx_async??\x01&&tx=0",
        ] {
            for method in BroadcastMethod::ALL {
                let path = format!("/{}", method.name());
                for spelled in [
                    path.clone(),
                    path.replace('_', "%5F"),
                    format!("/v1{path}"),
                    format!("x:{path}"),
                    path[1..].to_owned(),
                    format!("\0\u{e9}\x1b:{}", &path[1..]),
                ] {
                    let target = format!("{spelled}?{query}");
                    assert_eq!(kind(&target), UriRoute::Read, "{target}");
                    assert_eq!(
                        classify_uri(target.as_bytes()).method,
                        method.name(),
                        "{target}"
                    );
                }
                // A path that the node may or may not take for the name is a write whatever its query is.
                let target = format!("/.{path}?{query}");
                let expected = UriRoute::Write { method, tx: None };
                assert_eq!(kind(&target), expected, "{target}");
            }
        }
    }

    #[test]
    fn case_41_a_path_is_what_it_means() {
        for target in [
            "/broadcast_tx_sync?tx=\"a\"",
            "/broadcast%5Ftx_sync?tx=\"a\"",
            "/%62roadcast_tx_sync?tx=\"a\"",
        ] {
            assert_eq!(tx(target), Some(b"a".to_vec()), "{target}");
        }
        for target in [
            "http://h/broadcast_tx_sync?tx=\"a\"",
            "http://u@h:1/broadcast_tx_sync?tx=\"a\"",
            "foo:/broadcast_tx_sync?tx=\"a\"",
            "FOO://h/broadcast%5Ftx_sync?tx=\"a\"",
        ] {
            assert_eq!(tx(target), Some(b"a".to_vec()), "{target}");
        }
        // Not executed by this version, but near enough to be watched.
        for target in [
            "//broadcast_tx_sync",
            "/./broadcast_tx_sync",
            "/x/../broadcast_tx_sync",
            "/%2E/broadcast_tx_sync",
            "/broadcast_tx_sync/",
            "/broadcast_tx_sync%zz",
            "/broadcast_tx_sync#x",
            "foo:broadcast_tx_sync",
            "broadcast_tx_sync",
        ] {
            assert_eq!(tx(target), None, "{target}");
        }
        for target in [
            "/Broadcast_tx_sync",
            "/broadcast_tx",
            "/status?x=/broadcast_tx_sync",
            "/status",
            "*",
            "/check_tx?tx=\"a\"",
        ] {
            assert_eq!(kind(target), UriRoute::Read, "{target}");
        }
    }

    #[test]
    fn the_root_and_the_socket_have_many_spellings() {
        for target in [
            "/",
            "/?x=1",
            "http://h/",
            "http://h",
            "http://h?x=/y",
            "x:",
            "",
        ] {
            assert_eq!(kind(target), UriRoute::Root, "{target}");
        }
        for target in [
            "/websocket",
            "/websocket?x",
            "/web%73ocket",
            "ws://h/websocket",
        ] {
            assert_eq!(kind(target), UriRoute::WebSocket, "{target}");
        }
    }

    #[test]
    fn methods_are_named_without_escapes() {
        for (target, method) in [
            ("/unsafe_flush_mempool", "unsafe_flush_mempool"),
            ("/unsafe%5fflush_mempool?x", "unsafe_flush_mempool"),
            ("x:/unsafe_flush_mempool", "unsafe_flush_mempool"),
            ("http://h/dial_peers", "dial_peers"),
            ("/", ""),
        ] {
            assert_eq!(classify_uri(target.as_bytes()).method, method, "{target}");
        }
    }

    #[test]
    fn versions_57_every_route_of_cometbft_1_is_the_same_under_both_prefixes() {
        for target in ["/v1", "/v1/", "/%761", "http://h/v1/"] {
            let found = classify_uri(target.as_bytes());
            assert_eq!(
                (found.kind, found.is_v1),
                (UriRoute::Root, true),
                "{target}"
            );
        }
        assert_eq!(tx("/v1/broadcast_tx_sync?tx=\"a\""), Some(b"a".to_vec()));
        let found = classify_uri(b"/v1/websocket");
        assert_eq!((found.kind, found.is_v1), (UriRoute::WebSocket, true));
        let found = classify_uri(b"/v1/unsafe_flush_mempool");
        assert_eq!(
            (found.method.as_ref(), found.kind),
            ("unsafe_flush_mempool", UriRoute::Read)
        );
        // What only looks like it is no prefix, but a broadcast in it is watched.
        for target in [
            "/v10/broadcast_tx_sync",
            "/v1//broadcast_tx_sync",
            "/v1/v1/broadcast_tx_sync",
        ] {
            let kind = classify_uri(target.as_bytes()).kind;
            assert!(matches!(kind, UriRoute::Write { tx: None, .. }), "{target}");
        }
        assert!(!classify_uri(b"/v1x").is_v1);
    }
}
