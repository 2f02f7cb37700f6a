//! Broadcasts in every spelling, and what is none.

use proptest::prelude::*;

use super::*;

const WRITE: &str = "/cosmos.tx.v1beta1.Service/BroadcastTx";

proptest! {
    #[test]
    fn any_bytes_are_a_broadcast_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..60), path in "[/.%:a-f0-9?]{0,30}", kind in "[a-z/+;-]{0,30}"
    ) {
        let _ = (rest_broadcast(&body), decode_pieces(&body));
        if let Ok((_, tx)) = grpc_broadcast(&body) {
            prop_assert!(!tx.is_empty() && tx.len() < body.len());
        }
        let _ = route(true, &path, kind.as_bytes());
        // It is as plain as it gets.
        let plain = plain_path(&path.replace('%', ""));
        prop_assert_eq!(plain_path(&plain), plain);
    }

    #[test]
    fn no_detour_on_the_way_to_a_broadcast_hides_it(
        detours in prop::collection::vec(prop_oneof![Just("/"), Just("/./"), Just("//"), Just("/x/../"), Just("%2f"), Just("%2F.%2f")], 5),
        end in "[/:]{0,2}"
    ) {
        let segments = ["cosmos", "tx", "v1beta1", "txs"];
        let path: String = detours.iter().zip(segments).map(|(detour, segment)| format!("{detour}{segment}")).collect();
        let path = path + &end;
        prop_assert_eq!(route(true, &path, b""), DoorRoute::RestWrite);
    }

    #[test]
    fn pieces_of_base64_are_put_together(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..5)) {
        let text: String = pieces.iter().map(|piece| base64_simd::STANDARD.encode_to_string(piece)).collect();
        prop_assert_eq!(decode_pieces(text.as_bytes()), Some(pieces.concat()));
    }
}

#[test]
fn no_spelling_of_a_broadcast_is_a_read() {
    let rest = |path: &str| route(true, path, b"application/json");
    for path in [
        "/cosmos/tx/v1beta1/txs",
        "/cosmos/tx/v1beta1/txs/",
        "//cosmos/./tx/v1beta1/txs",
        "/cosmos/tx/x/../v1beta1/txs",
        "/cosmos/tx/v1beta1/%74x%73",
        "/cosmos%2ftx/v1beta1/txs",
        "/cosmos/tx/v1beta1/txs:",
        "/cosmos/tx/v1beta1/txs%3A",
    ] {
        assert_eq!(rest(path), DoorRoute::RestWrite, "{path}");
    }
    for path in ["/cosmos/tx/v1beta1/txs", "/cosmos/tx/v1beta1/txs:"] {
        assert_eq!(route(false, path, b""), DoorRoute::Search);
    }
    let simulation = rest("/cosmos/tx/v1beta1/simulate:");
    assert_eq!(simulation, DoorRoute::Simulation);
    assert_eq!(plain_path("/:"), "/");
    assert!(matches!(rest("/txs"), DoorRoute::Unserved(_)));
    for kind in [
        &b"application/grpc"[..],
        b"application/grpc+proto",
        b"application/grpc-web+proto",
        b"application/grpc-web-text",
    ] {
        assert_eq!(route(true, WRITE, kind), DoorRoute::GrpcWrite);
    }
    for kind in [&b"application/json"[..], b"application/grpc-webs", b""] {
        let unserved = route(true, WRITE, kind);
        assert!(matches!(unserved, DoorRoute::Unserved(_)));
    }
}

#[test]
fn the_type_of_the_content_says_what_it_is() {
    for (kind, web) in [
        ("application/grpc-web", Some(GrpcWeb::Binary)),
        ("application/grpc-web+proto", Some(GrpcWeb::Binary)),
        ("application/grpc-web-text", Some(GrpcWeb::Text)),
        ("application/grpc-web-text+proto", Some(GrpcWeb::Text)),
        ("application/grpc-web;charset=utf-8", Some(GrpcWeb::Binary)),
        ("application/grpc-webs", None),
        ("application/grpc", None),
        ("application/grpc+proto", None),
        ("", None),
    ] {
        assert_eq!(GrpcWeb::of(kind.as_bytes()), web, "{kind}");
    }
}

fn call(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &len, message].concat()
}

#[test]
fn a_broadcast_over_grpc_is_read_whole_or_refused() {
    let body = call(b"\x0a\x02hi\x10\x02");
    let read = grpc_broadcast(&body);
    assert_eq!(read, Ok((BroadcastMethod::Sync, &b"hi"[..])));
    let refused = |body: &[u8]| grpc_broadcast(body).unwrap_err();
    assert_eq!(refused(&call(b"\x0a\x02hi")), NoBroadcast::Mode);
    assert_eq!(refused(b"\x01\0\0\0\x01a"), NoBroadcast::Compressed);
    for body in [
        call(b"\x10\x02"),
        call(b"\x0a\x09hi"),
        // The mode with four bytes, and with eight.
        call(b"\x0a\x02hi\x15\x02\0\0\0"),
        call(b"\x0a\x02hi\x11\x02\0\0\0\0\0\0\0"),
        b"\0\0\0".to_vec(),
        b"\0\0\0\0\x01ab".to_vec(),
    ] {
        assert!(matches!(refused(&body), NoBroadcast::Invalid(_)));
    }
}

#[test]
fn a_broadcast_over_rest_is_read_as_the_gateway_reads_it() {
    for (body, method) in [
        (
            r#"{"tx_bytes":"aGk=","mode":"BROADCAST_MODE_SYNC"}"#,
            BroadcastMethod::Sync,
        ),
        (r#"{"txBytes":"aGk=","mode":3}"#, BroadcastMethod::Async),
        (
            r#"{"tx_bytes":"aGk=","mode":"BROADCAST_MODE_BLOCK"}"#,
            BroadcastMethod::Commit,
        ),
        (
            r#"{"tx_bytes":"eA==","mode":1,"txBytes":"aGk=","mode":2}"#,
            BroadcastMethod::Sync,
        ),
    ] {
        let read = rest_broadcast(body.as_bytes());
        assert_eq!(read, Ok((method, b"hi".to_vec())), "{body}");
    }
    let refused = |body: &str| rest_broadcast(body.as_bytes()).unwrap_err();
    assert_eq!(refused(r#"{"tx_bytes":"aGk="}"#), NoBroadcast::Mode);
    for body in [
        "{",
        "{}",
        r#"["aGk=",2]"#,
        r#"{"tx_bytes":"!","mode":2}"#,
        r#"{"tx_bytes":["a"],"mode":2}"#,
        r#"{"tx_bytes":"aGk=","mode":"SYNC"}"#,
        r#"{"tx_bytes":"aGk=","mode":2.5}"#,
    ] {
        assert!(matches!(refused(body), NoBroadcast::Invalid(_)), "{body}");
    }
}
