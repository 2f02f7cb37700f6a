//! What others' servers understand of the bytes of a connection is what is understood here: Go's net/http, which
//! CometBFT serves with, and gorilla/websocket. Here more is refused; nothing that is understood means something else
//! there, so no request can be hidden in another.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde::Deserialize;
use wire::http::{BodyReader, HeadLimits, HeadReader};
use wire::ws::frame::mask;
use wire::ws::{Event, FrameReader, Step, WsLimits};

/// Connections of each kind.
const CONNECTIONS: usize = 10_000;
const LIMITS: HeadLimits = HeadLimits {
    bytes: 1 << 16,
    fields: 64,
    target: 1 << 13,
};
const BODY: usize = 1 << 16;
const MESSAGES: WsLimits = WsLimits {
    message: 1 << 16,
    fragments: 64,
};
const HANDSHAKE: &str = "GET /websocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A request, or a message of a WebSocket.
#[derive(Debug, Deserialize, PartialEq)]
struct Piece {
    /// The method, or the kind of message.
    kind: String,
    target: String,
    /// The body or the message, in hexadecimal digits.
    body: String,
}

#[derive(Deserialize)]
struct Theirs {
    pieces: Vec<Piece>,
    answers: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What Go understands of each connection, before whose bytes these come and are answered.
fn theirs(connections: &[Vec<u8>], before: &str) -> Vec<Theirs> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go");
    let mut program = Command::new("go")
        .args(["run", "."])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Go 1.23 or newer is needed");
    let (mut input, output) = (
        program.stdin.take().unwrap(),
        program.stdout.take().unwrap(),
    );
    let before = hex(before.as_bytes());
    let line = |it: &Vec<u8>| format!("{before} {}\n", hex(it));
    let lines: String = connections.iter().map(line).collect();
    let writing = thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let lines = BufReader::new(output).lines();
    let theirs: Vec<Theirs> = lines
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    writing.join().unwrap();
    assert!(program.wait().unwrap().success());
    assert_eq!(theirs.len(), connections.len());
    theirs
}

/// Whether Go takes the target for an address, which is not asked here: a path whose escapes are some.
fn is_path(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    let is_escape = |rest: &str| {
        rest.get(..2)
            .is_some_and(|it| u8::from_str_radix(it, 16).is_ok() && !it.starts_with('+'))
    };
    path.starts_with('/') && path.split('%').skip(1).all(is_escape)
}

/// The requests that are whole, up to the first that is refused.
fn requests(mut bytes: &[u8]) -> Vec<Piece> {
    let mut found = Vec::new();
    while let Ok(Some(head)) = HeadReader::new().read(bytes, &LIMITS) {
        let view = head.view(bytes);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (kind, target) = (text(view.method), text(view.target));
        if !is_path(&target) {
            break;
        }
        let Ok(mut reader) = BodyReader::new(head.framing, BODY) else {
            break;
        };
        let mut body = Vec::new();
        match reader.read(&bytes[head.len..], &mut body) {
            Ok(progress) if reader.is_done() => bytes = &bytes[head.len + progress.used..],
            _ => break,
        }
        let body = hex(&body);
        found.push(Piece { kind, target, body });
        if !head.keep_alive {
            break;
        }
    }
    found
}

/// The messages that are whole, up to the first error.
fn messages(mut bytes: Vec<u8>) -> Vec<Piece> {
    let (mut reader, mut at, mut found) = (FrameReader::new(MESSAGES), 0, Vec::new());
    while let Ok(Step::Event { used, event }) = reader.next(&mut bytes[at..]) {
        let (kind, message) = match event {
            Event::Text(message) => ("text", message),
            Event::Binary(message) => ("binary", message),
            Event::Close { .. } => break,
            Event::Fragment | Event::Ping(_) | Event::Pong => {
                at += used;
                continue;
            }
        };
        let piece = Piece {
            kind: kind.to_owned(),
            target: String::new(),
            body: hex(message),
        };
        found.push(piece);
        at += used;
    }
    found
}

/// Usually the first of these.
fn usually(common: &'static str, odd: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![30 => Just(common), 1 => select(odd)].prop_map(str::to_owned)
}

/// A header line that frames, or that something may take for one that does.
fn field() -> impl Strategy<Value = String> {
    const LINES: &[&str] = &[
        "Content-Length: 5",
        "Content-Length: 5",
        "content-length:5",
        "Content-Length: 0",
        "Content-Length: +5",
        "Content-Length: 05",
        "Content-Length: 5, 5",
        "Content-Length: 5,6",
        "Content-Length: 0x5",
        "Content-Length: ",
        "Content-Length: -1",
        "Content-Length: 5\t",
        "Content-Length: 18446744073709551617",
        "Content-Length : 5",
        "Content_Length: 5",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked",
        "transfer-encoding:chunked",
        "Transfer-Encoding: Chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding:\tchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding:",
        " Transfer-Encoding: chunked",
        "X: a\r\n Transfer-Encoding: chunked",
        "X: a\nTransfer-Encoding: chunked",
        "X: a\rTransfer-Encoding: chunked",
        "X: \u{0}",
        "X: \u{7f}",
        "X: \u{e9}",
        "X\u{e9}: a",
        "X Y: a",
        ": a",
        "no colon",
        "Host: y",
        "Connection: close",
        "Connection: keep-alive",
        "Connection: close, keep-alive",
        "Expect: 100-continue",
        "Expect: more",
        "Trailer: X",
        "Upgrade: h2c",
    ];
    select(LINES).prop_map(str::to_owned)
}

fn request() -> impl Strategy<Value = String> {
    const METHODS: &[&str] = &[
        "GET", "OPTIONS", "HEAD", "PUT", "CONNECT", "post", "PO ST", "P(T", "", "PRI",
    ];
    const TARGETS: &[&str] = &[
        "/a?b=\"c\"",
        "/%zz",
        "*",
        "http://y/a",
        "y:80",
        "/a b",
        "/\u{e9}",
        "/a#b",
        "//y/a",
        "",
        "a",
    ];
    const VERSIONS: &[&str] = &[
        "HTTP/1.0",
        "HTTP/1.1 ",
        "HTTP/2.0",
        "http/1.1",
        "HTTP/1.01",
        "HTTP/0.9",
        "",
    ];
    const ENDS: &[&str] = &["\n", "\r", "\r\r\n", " \r\n"];
    const BODIES: &[&str] = &[
        "5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "05\r\nhello\r\n00\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
        "5\r\nhello\r\n0\r\n",
        "5;x=\"\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "",
    ];
    let line = (
        usually("POST", METHODS),
        usually("/", TARGETS),
        usually("HTTP/1.1", VERSIONS),
        usually("\r\n", ENDS),
    );
    let host = usually(
        "Host: x\r\n",
        &["", "Host: x\r\nHost: x\r\n", "Host:\r\n", "host:x\r\n"],
    );
    let end = usually("\r\n", ENDS);
    let body = prop_oneof![Just("hello"), select(BODIES)];
    (line, host, vec((field(), end), 0..3), body).prop_map(|(line, host, fields, body)| {
        let (method, target, version, end) = line;
        let fields: String = fields
            .into_iter()
            .map(|(field, end)| field + &end)
            .collect();
        format!("{method} {target} {version}{end}{host}{fields}\r\n{body}")
    })
}

/// Bytes of which some were replaced, taken out or put in.
fn mutated(whole: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..3_u8);
    let changes = prop_oneof![3 => Just(Vec::new()), 1 => vec(change, 1..3)];
    (whole, changes).prop_map(|(mut bytes, changes)| {
        for (at, byte, kind) in changes {
            let at = at
                .index(bytes.len().max(1))
                .min(bytes.len().saturating_sub(1));
            match kind {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

fn connection() -> impl Strategy<Value = Vec<u8>> {
    let requests = vec(request(), 1..4);
    mutated(requests.prop_map(|requests| requests.concat().into_bytes()))
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    // FIN and text, and all else that the first byte may be.
    let first =
        prop_oneof![6 => select(vec![0x81, 0x01, 0x80, 0x00, 0x82, 0x89, 0x8a]), 1 => any::<u8>()];
    let payload = prop_oneof![
        6 => "[a-z]{0,20}".prop_map(String::into_bytes),
        1 => vec(any::<u8>(), 0..20),
        1 => vec(any::<u8>(), 120..200),
    ];
    let masked = prop_oneof![20 => Just(true), 1 => Just(false)];
    // As short as it can be said, in two bytes, in eight.
    let form = prop_oneof![12 => Just(0), 1 => Just(1), 1 => Just(2)];
    (first, payload, masked, form, any::<[u8; 4]>()).prop_map(
        |(first, mut payload, masked, form, key)| {
            let (len, bit) = (payload.len(), u8::from(masked) << 7);
            let mut frame = vec![first];
            match form {
                0 if len < 126 => frame.push(bit | len as u8),
                2 => {
                    frame.push(bit | 127);
                    frame.extend((len as u64).to_be_bytes());
                }
                _ => {
                    frame.push(bit | 126);
                    frame.extend((len as u16).to_be_bytes());
                }
            }
            if masked {
                frame.extend(key);
                mask(&mut payload, key);
            }
            frame.extend(payload);
            frame
        },
    )
}

fn generated(connection: impl Strategy<Value = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let mut next = || connection.new_tree(&mut runner).unwrap().current();
    (0..CONNECTIONS).map(|_| next()).collect()
}

/// Each of ours has to be theirs as well; how many there were, and how many connections they understood more of.
fn held_against(ours: &[Vec<Piece>], theirs: &[Theirs], connections: &[Vec<u8>]) -> (usize, usize) {
    let (mut same, mut stricter) = (0, 0);
    for ((ours, theirs), bytes) in ours.iter().zip(theirs).zip(connections) {
        assert!(
            theirs.pieces.starts_with(ours),
            "{}\nhere {ours:#?}\nthere {:#?}\n{}",
            bytes.escape_ascii(),
            theirs.pieces,
            theirs.answers
        );
        same += ours.len();
        stricter += usize::from(theirs.pieces.len() > ours.len());
    }
    (same, stricter)
}

#[test]
#[ignore = "needs go"]
fn case_29_a_request_means_to_net_http_what_it_means_here() {
    let connections = generated(connection());
    let ours: Vec<_> = connections.iter().map(|it| requests(it)).collect();
    let (same, stricter) = held_against(&ours, &theirs(&connections, ""), &connections);
    eprintln!("{same} requests mean the same; of {stricter} connections more is refused here");
    assert!(same > CONNECTIONS / 4, "{same}");
}

#[test]
#[ignore = "needs go"]
fn a_message_means_to_gorilla_what_it_means_here() {
    let frames = vec(frame(), 1..8).prop_map(|frames| frames.concat());
    let frames = generated(mutated(frames));
    let theirs = theirs(&frames, HANDSHAKE);
    let ours: Vec<_> = frames.iter().cloned().map(messages).collect();
    let (same, stricter) = held_against(&ours, &theirs, &frames);
    eprintln!("{same} messages mean the same; of {stricter} connections more is refused here");
    assert!(same > CONNECTIONS / 4, "{same}");
}
