//! WebSocket against a server that behaves, and one that does not.

use rpc::{BroadcastMethod, ConnectionError, ConnectionOptions};
use testkit::{FrameKind, ScriptedConnection, ScriptedServer, frame};

use crate::peer::Peer;

fn upgraded(script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        if connection.accept_websocket() {
            script(connection);
        }
    })
}

/// What becomes of a connection on which the server says this after the upgrade.
fn end_after(bytes: Vec<u8>) -> (Peer, ConnectionError) {
    let server = upgraded(move |connection| connection.send(&bytes));
    let mut peer = Peer::open(&server.ws_url());
    let error = peer.until_error();
    (peer, error)
}

#[test]
fn messages_of_every_length_go_and_come() {
    let server = upgraded(|connection| {
        let mut keys = Vec::new();
        while let Some(frame) = connection.read_frame() {
            assert_eq!(frame.opcode, 1);
            assert!(!keys.contains(&frame.key), "a fresh key for every frame");
            keys.push(frame.key);
            connection.send_text(&frame.payload);
        }
    });
    let mut peer = Peer::open(&server.ws_url());
    let mut expected = Vec::new();
    for len in [0, 1, 7, 8, 125, 126, 127, 1000, 65_535, 65_536, 1 << 20] {
        let body: Vec<_> = (0..len).map(|at| (at % 251) as u8).collect();
        peer.send(&body);
        expected.push((200, body));
        peer.until(expected.len()).unwrap();
    }
    assert_eq!(peer.received, expected);
}

#[test]
fn messages_queued_before_the_upgrade_follow_it() {
    let server = upgraded(|connection| {
        while let Some(frame) = connection.read_frame() {
            connection.send_text(&frame.payload);
        }
    });
    let mut peer = Peer::open(&server.ws_url());
    for id in 0..100 {
        peer.connection
            .queue_broadcast(id, BroadcastMethod::Async, b"tx");
    }
    peer.until(100).unwrap();
    let first: serde_json::Value = serde_json::from_slice(&peer.received[0].1).unwrap();
    assert_eq!(
        (&first["id"], &first["method"]),
        (&0.into(), &"broadcast_tx_async".into())
    );
    assert_eq!(peer.connection.unwritten(), 0);
}

#[test]
fn fragments_are_put_together_around_pings() {
    let server = upgraded(|connection| {
        connection.send(frame(FrameKind::First(1), b"one "));
        connection.send(frame(FrameKind::Whole(9), b"ping"));
        connection.send(frame(FrameKind::Middle, b"two "));
        connection.send(frame(FrameKind::Middle, b""));
        connection.send(frame(FrameKind::Last, b"three"));
        let pong = connection.read_frame().unwrap();
        assert_eq!(pong.opcode, 10);
        connection.send_text(pong.payload);
        connection.send_bytewise(frame(FrameKind::Whole(2), b"bytes"));
        connection.send_bytewise(frame(FrameKind::Whole(1), &[b'l'; 300]));
        connection.freeze();
    });
    let mut peer = Peer::open(&server.ws_url());
    peer.until(4).unwrap();
    assert_eq!(peer.texts()[..3], ["one two three", "ping", "bytes"]);
    assert_eq!(peer.received[3].1.len(), 300);
    assert_eq!(peer.connection.counters().pings, 1);
}

#[test]
fn bytes_that_come_with_the_upgrade_are_not_lost() {
    let server = ScriptedServer::start(|connection| {
        let request = connection.read_request().unwrap();
        connection.agree_and_send(&request, &frame(FrameKind::Whole(1), b"at once"));
        connection.freeze();
    });
    let mut peer = Peer::open(&server.ws_url());
    peer.until(1).unwrap();
    assert_eq!(peer.texts(), ["at once"]);
}

#[test]
fn a_close_frame_gives_code_and_reason_and_is_answered() {
    let server = upgraded(|connection| {
        connection.send_text("last words");
        connection.send(frame(FrameKind::Whole(8), b"\x03\xe9going away"));
        let answer = connection.read_frame().unwrap();
        assert_eq!(
            (answer.opcode, answer.payload.as_slice()),
            (8, &b"\x03\xe9"[..])
        );
    });
    let mut peer = Peer::open(&server.ws_url());
    match peer.until_error() {
        ConnectionError::CloseFrame { code, reason } => {
            assert_eq!((code, reason.as_str()), (Some(1001), "going away"));
        }
        other => panic!("{other}"),
    }
    assert_eq!(peer.texts(), ["last words"]);
    let (_, error) = end_after(frame(FrameKind::Whole(8), b""));
    assert!(error.to_string().contains("code none"), "{error}");
}

#[test]
fn broken_frames_are_named() {
    let mut masked = frame(FrameKind::Whole(1), b"x");
    masked[1] |= 0x80;
    let mut extended = frame(FrameKind::Whole(1), b"x");
    extended[0] |= 0x40;
    let begun_twice = [
        frame(FrameKind::First(1), b"x"),
        frame(FrameKind::Whole(1), b"y"),
    ]
    .concat();
    for (bytes, words) in [
        (masked, "masked"),
        (extended, "extension"),
        (begun_twice, "inside another"),
        (frame(FrameKind::Last, b"x"), "continues nothing"),
        (frame(FrameKind::Whole(9), &[0; 126]), "too long"),
        (frame(FrameKind::First(9), b""), "in fragments"),
        (frame(FrameKind::Whole(3), b""), "opcode 3"),
        (frame(FrameKind::Whole(11), b""), "opcode 11"),
        (
            [&[0x81, 127][..], &u64::MAX.to_be_bytes()].concat(),
            "first bit",
        ),
    ] {
        let (_, error) = end_after(bytes);
        assert!(
            matches!(error, ConnectionError::Malformed { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_connection_that_ends_mid_frame_says_so() {
    let mut half = frame(FrameKind::Whole(1), b"a whole message");
    half.truncate(6);
    for bytes in [half, vec![0x81], frame(FrameKind::First(1), b"begun")] {
        let (_, error) = end_after(bytes);
        assert!(
            matches!(error, ConnectionError::Closed { mid_message: true }),
            "{error}"
        );
    }
    let (_, error) = end_after(Vec::new());
    assert!(
        matches!(error, ConnectionError::Closed { mid_message: false }),
        "{error}"
    );
}

#[test]
fn limits_hold() {
    let whole = frame(FrameKind::Whole(1), &[b'x'; 1001]);
    let fragments = [
        frame(FrameKind::First(1), &[b'x'; 600]),
        frame(FrameKind::Last, &[b'x'; 600]),
    ]
    .concat();
    let absurd = [&[0x81, 127][..], &i64::MAX.to_be_bytes()].concat();
    for bytes in [whole, fragments, absurd] {
        let server = upgraded(move |connection| {
            connection.send(&bytes);
            connection.freeze();
        });
        let options = ConnectionOptions {
            max_message_bytes: 1000,
            ..Default::default()
        };
        let mut peer = Peer::open_with(&server.ws_url(), &options);
        let error = peer.until_error();
        assert!(
            matches!(
                error,
                ConnectionError::TooLarge {
                    what: "message",
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_refused_upgrade_is_named() {
    let cases = [
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP 404 Not Found",
        ),
        (
            "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n",
            "does not fit",
        ),
        ("HTTP/1.1 101 Yes\r\nUpgrade: h2c\r\n\r\n", "something else"),
        ("+PONG\r\n", "not HTTP"),
    ];
    for (bytes, words) in cases {
        let server = ScriptedServer::start(move |connection| {
            connection.read_request();
            connection.send(bytes);
            connection.freeze();
        });
        let error = Peer::open(&server.ws_url()).until_error();
        assert!(matches!(error, ConnectionError::Upgrade { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.to_string().contains("/websocket"), "{error}");
    }
}
