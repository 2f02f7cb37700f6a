//! Targets, each as a real CometBFT 0.38.17 took it.

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
