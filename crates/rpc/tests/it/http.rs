//! HTTP/1.1 against a server that behaves, and one that does not.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rpc::{BroadcastMethod, ConnectionError, ConnectionOptions, encode_broadcast};
use testkit::{ScriptedConnection, ScriptedServer, http_answer};

use crate::peer::Peer;

fn answering(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |connection| {
        while connection.read_request().is_some() {
            connection.send(&bytes);
        }
    })
}

/// Sends one request to a server that answers it with these bytes and closes; how it ends.
fn end_after(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> (Peer, ConnectionError) {
    let server = ScriptedServer::start(move |connection| {
        connection.read_request();
        connection.send(&bytes);
    });
    let mut peer = Peer::open(&server.http_url());
    peer.send(b"{}");
    let error = peer.until_error();
    (peer, error)
}

#[test]
fn a_request_arrives_as_queued() {
    let server = ScriptedServer::start(|connection| {
        while let Some(request) = connection.read_request() {
            let text = format!(
                "{}|{}",
                request.head,
                String::from_utf8_lossy(&request.body)
            );
            connection.send(http_answer(200, &text));
        }
    });
    let mut peer = Peer::open(&server.http_url());
    let first = peer.send(b"hello");
    peer.until(1).unwrap();
    let host = server.address();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 5"
    );
    assert_eq!(peer.texts(), [format!("{head}|hello")]);
    assert_eq!(first, (head.len() + 4 + 5) as u64);
    assert_eq!(peer.connection.written_to(), first);
    assert_eq!(
        (peer.connection.unwritten(), peer.connection.unanswered()),
        (0, 0)
    );

    let mut body = Vec::new();
    encode_broadcast(&mut body, 12, BroadcastMethod::Sync, b"key=value");
    let copied = peer.connection.queue(&body);
    let in_place = peer
        .connection
        .queue_broadcast(12, BroadcastMethod::Sync, b"key=value");
    assert_eq!(in_place - copied, copied - first);
    assert_eq!(peer.connection.unanswered(), 2);
    peer.connection.flush().unwrap();
    peer.until(3).unwrap();
    assert_eq!(peer.received[1], peer.received[2]);
    assert_eq!(peer.connection.counters().messages_out, 3);
    assert_eq!(peer.connection.counters().messages_in, 3);
}

#[test]
fn every_framing_of_an_answer() {
    let forms: [(&str, &[&str]); 6] = [
        ("HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabc", &["abc"]),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nT: x\r\n\r\n",
            &["abc"],
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
            &["x"],
        ),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", &[""]),
        ("HTTP/1.1 204 No Content\r\n\r\n", &[""]),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\ny",
            &["y"],
        ),
    ];
    for (bytes, bodies) in forms {
        let server = answering(bytes);
        let mut peer = Peer::open(&server.http_url());
        // Twice, so that the connection proves to be usable after the answer.
        for round in 1..=2 {
            peer.send(b"{}");
            peer.until(bodies.len() * round).unwrap();
        }
        let expected: Vec<_> = bodies
            .iter()
            .chain(bodies)
            .map(|body| (*body).to_owned())
            .collect();
        assert_eq!(peer.texts(), expected, "{bytes}");
    }
}

#[test]
fn answers_may_come_byte_by_byte() {
    let server = ScriptedServer::start(|connection| {
        connection.read_request();
        connection.send_bytewise("HTTP/1.1 100 Continue\r\n\r\n");
        connection.send_bytewise(http_answer(200, "plain"));
        connection.read_request();
        connection.send_bytewise(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nchu\r\n4\r\nnked\r\n0\r\n\r\n",
        );
    });
    let mut peer = Peer::open(&server.http_url());
    peer.send(b"{}");
    peer.until(1).unwrap();
    peer.send(b"{}");
    peer.until(2).unwrap();
    assert_eq!(peer.texts(), ["plain", "chunked"]);
}

#[test]
fn large_answers_and_small_ones_share_a_connection() {
    let server = ScriptedServer::start(|connection| {
        let large = "l".repeat(1 << 20);
        while let Some(request) = connection.read_request() {
            match request.body.as_slice() {
                b"large" => connection.send(http_answer(200, &large)),
                b"chunked" => {
                    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                    for part in large.as_bytes().chunks(70_000) {
                        connection.send(format!("{:x}\r\n", part.len()));
                        connection.send(part);
                        connection.send("\r\n");
                    }
                    connection.send("0\r\n\r\n");
                }
                _ => connection.send(http_answer(200, "small")),
            }
        }
    });
    let mut peer = Peer::open(&server.http_url());
    for (at, request) in [&b"large"[..], b"s", b"chunked", b"s", b"large", b"s"]
        .iter()
        .enumerate()
    {
        peer.send(request);
        peer.until(at + 1).unwrap();
    }
    let lengths: Vec<_> = peer.received.iter().map(|(_, body)| body.len()).collect();
    assert_eq!(lengths, [1 << 20, 5, 1 << 20, 5, 1 << 20, 5]);
    assert!(peer.received[2].1.iter().all(|byte| *byte == b'l'));
}

#[test]
fn pipelined_answers_come_in_one_read() {
    let server = ScriptedServer::start(|connection| {
        let mut together = Vec::new();
        for number in 0..3 {
            connection.read_request();
            together.extend(http_answer(200 + number, &format!("answer {number}")));
        }
        connection.send(together);
        connection.freeze();
    });
    let mut peer = Peer::open(&server.http_url());
    for _ in 0..3 {
        peer.connection.queue(b"{}");
    }
    peer.connection.flush().unwrap();
    peer.until(3).unwrap();
    assert_eq!(peer.texts(), ["answer 0", "answer 1", "answer 2"]);
    assert_eq!(peer.received[2].0, 202);
}

#[test]
fn the_last_answer_is_delivered_before_the_end() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nlast",
        "HTTP/1.0 200 OK\r\n\r\nlast",
        "HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nlast",
    ] {
        let (peer, error) = end_after(bytes);
        assert!(
            matches!(error, ConnectionError::ClosedAfterAnswer),
            "{error}"
        );
        assert_eq!(peer.texts(), ["last"]);
    }
}

#[test]
fn garbage_is_named() {
    let malformed: [(&str, &str); 6] = [
        (
            "SSH-2.0-OpenSSH_9.6\r\n",
            "check that the endpoint is its RPC",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "Content-Length is not a number",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "two lengths",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "not 'chunked'",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "no valid size",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "without being asked",
        ),
    ];
    for (bytes, words) in malformed {
        let (_, error) = end_after(bytes);
        assert!(
            matches!(error, ConnectionError::Malformed { .. }),
            "{bytes}: {error}"
        );
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn half_an_answer_is_not_an_answer() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let (peer, error) = end_after(bytes);
        assert!(
            matches!(error, ConnectionError::Closed { mid_message: true }),
            "{error}"
        );
        assert!(error.to_string().ends_with("in the middle of an answer"));
        assert!(peer.received.is_empty());
    }
    let (_, error) = end_after("");
    assert!(
        matches!(error, ConnectionError::Closed { mid_message: false }),
        "{error}"
    );
}

#[test]
fn an_answer_nobody_asked_for_is_refused() {
    let server = ScriptedServer::start(|connection| connection.send(http_answer(200, "{}")));
    let mut peer = Peer::open(&server.http_url());
    assert!(matches!(peer.until_error(), ConnectionError::Unsolicited));
}

#[test]
fn another_id_is_visible_to_the_caller() {
    let server = answering(http_answer(
        200,
        r#"{"jsonrpc":"2.0","id":99,"result":{"code":0,"hash":""}}"#,
    ));
    let mut peer = Peer::open(&server.http_url());
    peer.connection
        .queue_broadcast(1, BroadcastMethod::Sync, b"a=b");
    peer.until(1).unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&peer.received[0].1).unwrap();
    assert_eq!(answer["id"], 99);
}

#[test]
fn an_answer_carries_the_instant_of_its_arrival_when_that_is_asked_for() {
    let unix_ns = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        since.as_nanos() as u64
    };
    let server = answering(http_answer(200, "{}"));
    for arrival_stamps in [true, false] {
        let options = ConnectionOptions {
            arrival_stamps,
            ..Default::default()
        };
        let mut peer = Peer::open_with(&server.http_url(), &options);
        peer.until_ready().unwrap();
        let since = Instant::now();
        // The kernel begins to stamp a while after the first socket asked for it.
        loop {
            let before = unix_ns();
            peer.send(b"{}");
            assert!(peer.wait(Duration::from_secs(20)));
            let there = unix_ns();
            let mut arrived = None;
            let mut look = |message: rpc::Message<'_>| arrived = message.arrived_unix_ns;
            peer.connection.read(&mut look).unwrap();
            assert!(arrived.is_none_or(|at| (before..=there).contains(&at)));
            if arrived.is_some() == arrival_stamps {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(20));
        }
    }
}

/// An edge-triggered loop need not ask a socket again that gave less than there was room for.
#[test]
fn a_read_that_leaves_room_says_that_the_socket_has_no_more() {
    let server = answering(http_answer(200, "{}"));
    let mut peer = Peer::open(&server.http_url());
    peer.until_ready().unwrap();
    peer.send(b"{}");
    let mut messages = 0;
    while messages == 0 {
        assert!(peer.wait(Duration::from_secs(20)));
        let read = peer.connection.read(&mut |_| messages += 1).unwrap();
        assert!(read.bytes > 0 && !read.has_more, "{read:?}");
    }
    let nothing = peer.connection.read(&mut |_| messages += 1).unwrap();
    assert_eq!(nothing, rpc::ReadProgress::default());
}

#[test]
fn limits_hold() {
    let options = ConnectionOptions {
        max_head_bytes: 200,
        max_message_bytes: 1000,
        ..Default::default()
    };
    let long_header = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(300));
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n258\r\n{}\r\n258\r\n",
        "x".repeat(600)
    );
    let until_close = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1001));
    for (bytes, what) in [
        (long_header, "head"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".to_owned(),
            "message",
        ),
        (chunked, "message"),
        (until_close, "message"),
    ] {
        let server = ScriptedServer::start(move |connection: &mut ScriptedConnection| {
            connection.read_request();
            connection.send(&bytes);
            connection.freeze();
        });
        let mut peer = Peer::open_with(&server.http_url(), &options);
        peer.send(b"{}");
        match peer.until_error() {
            ConnectionError::TooLarge { what: named, .. } => assert_eq!(named, what),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_frozen_node_shows_as_silence() {
    let server = ScriptedServer::start(|connection| {
        connection.read_request();
        connection.freeze();
    });
    let mut peer = Peer::open(&server.http_url());
    peer.until_ready().unwrap();
    let offset = peer.send(b"{}");
    assert_eq!(peer.connection.written_to(), offset);
    assert!(!peer.wait(Duration::from_millis(50)));
    assert_eq!(peer.connection.unanswered(), 1);
}

#[test]
fn a_full_socket_blocks_and_goes_on() {
    let server = ScriptedServer::start(|connection| {
        // Nothing is read until the client has seen its socket full and said so on a second
        // connection, which ends with it.
        if connection.number() == 0 {
            connection.freeze_until_connections(2);
            let request = connection.read_request().unwrap();
            connection.send(http_answer(200, &request.body.len().to_string()));
        }
    });
    let mut peer = Peer::open(&server.http_url());
    peer.until_ready().unwrap();
    let body = vec![b'x'; 32 << 20];
    let offset = peer.connection.queue(&body);
    let mut flushed = peer.connection.flush().unwrap();
    while !flushed.blocked || peer.wait(Duration::from_millis(20)) {
        flushed = peer.connection.flush().unwrap();
    }
    assert!(flushed.written_to < offset);
    assert_eq!(
        peer.connection.unwritten() as u64,
        offset - flushed.written_to
    );
    assert!(peer.connection.interest().write);
    let second = Peer::open(&server.http_url());
    peer.until(1).unwrap();
    assert_eq!(peer.texts(), [body.len().to_string()]);
    assert_eq!(peer.connection.written_to(), offset);
    drop(second);
}

#[test]
fn a_closed_port_is_named() {
    // The port was free a moment ago, so it is closed.
    let port = testkit::free_port();
    let mut peer = Peer::open(&format!("http://127.0.0.1:{port}"));
    let error = peer.until_error();
    assert!(matches!(error, ConnectionError::Connect(_)), "{error}");
    assert!(error.to_string().contains("check that the node runs"));
}

#[test]
fn a_reset_is_named() {
    let server = ScriptedServer::start(|connection| {
        connection.read_request();
        connection.reset();
    });
    let mut peer = Peer::open(&server.http_url());
    peer.send(b"{}");
    let error = peer.until_error();
    assert!(matches!(error, ConnectionError::Broken(_)), "{error}");
}
