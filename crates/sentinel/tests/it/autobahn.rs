//! The cases of Autobahn's test suite for WebSockets, by its numbers: all of 1 to 7, those of 9 and 10 within the bounds.
//! The suite itself needs Python 2. sentinel is no echo: it answers each message with one.

use std::io::{Read as _, Write as _};

use wire::ws::frame::{OPCODE, mask, write_head};
use wire::ws::{Event, FrameReader, Step, WsLimits};

use crate::support::websocket::WebSocket;
use crate::support::{Node, Proxy};

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
/// Without this bit the message goes on in another frame.
const LAST: u8 = 0x80;

/// What came back until the connection ended.
#[derive(Debug, Default, PartialEq)]
struct Came {
    /// Answers to messages.
    answers: usize,
    pongs: Vec<Vec<u8>>,
    /// The code of the close frame; none if it has none.
    close: Option<u16>,
}

/// A case: its number, what the client sends, in chops of so many bytes, and what comes back.
struct Case {
    number: String,
    sent: Vec<u8>,
    chop: usize,
    /// Once this has come the client ends the connection; else the server does, before or after the answers.
    ends: bool,
    expected: Came,
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const KEY: [u8; 4] = [7, 1, 9, 3];
    let mut out = Vec::new();
    write_head(&mut out, first & OPCODE, payload.len(), Some(KEY));
    out[0] = first;
    let start = out.len();
    out.extend_from_slice(payload);
    mask(&mut out[start..], KEY);
    out
}

/// A text in fragments of so many bytes.
fn fragments(text: &[u8], len: usize) -> Vec<u8> {
    let pieces: Vec<&[u8]> = text.chunks(len).collect();
    let frames = pieces.iter().enumerate().map(|(place, piece)| {
        let opcode = if place == 0 { TEXT & OPCODE } else { 0 };
        let last = if place + 1 == pieces.len() { LAST } else { 0 };
        frame(opcode | last, piece)
    });
    frames.flatten().collect()
}

/// Collects cases.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn add(&mut self, number: impl Into<String>, sent: Vec<u8>, chop: usize, expected: Came) {
        self.0.push(Case {
            number: number.into(),
            sent,
            chop,
            ends: false,
            expected,
        });
    }

    /// So many messages and these pings, and then the end by the client.
    fn good(
        &mut self,
        number: impl Into<String>,
        sent: &[Vec<u8>],
        answers: usize,
        pings: &[&[u8]],
    ) {
        let number = number.into();
        for chop in [usize::MAX, 997] {
            let pongs = pings.iter().map(|ping| ping.to_vec()).collect();
            let expected = Came {
                answers,
                pongs,
                close: Some(1000),
            };
            self.add(&number, sent.concat(), chop, expected);
            self.0.last_mut().unwrap().ends = true;
        }
    }

    /// The server ends the connection with this code, after so many answers.
    fn bad(&mut self, number: impl Into<String>, sent: &[Vec<u8>], answers: usize, code: u16) {
        let number = number.into();
        for chop in [usize::MAX, 1] {
            let expected = Came {
                answers,
                close: Some(code),
                ..Came::default()
            };
            self.add(&number, sent.concat(), chop, expected);
        }
    }
}

fn framing(cases: &mut Cases) {
    for (group, kind) in [(1, TEXT), (2, BINARY)] {
        for len in [0, 125, 126, 127, 128, 65_535, 65_536] {
            let message = frame(kind, &vec![b'*'; len]);
            cases.good(format!("1.{group} of {len}"), &[message], 1, &[]);
        }
    }
    for payload in [
        &b""[..],
        b"Hello, world!",
        b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff",
        &[0xfe; 125],
    ] {
        cases.good("2.1 to 2.4, 2.6", &[frame(PING, payload)], 0, &[payload]);
    }
    cases.bad("2.5", &[frame(PING, &[0xfe; 126])], 0, 1002);
    cases.good(
        "2.7, 2.8",
        &[frame(PONG, b""), frame(PONG, b"unsolicited")],
        0,
        &[],
    );
    cases.good("2.9", &[frame(PONG, b"x"), frame(PING, b"y")], 0, &[b"y"]);
    let pings: Vec<[u8; 1]> = (0..10).map(|ping| [ping]).collect();
    let frames: Vec<_> = pings.iter().map(|ping| frame(PING, ping)).collect();
    let payloads: Vec<&[u8]> = pings.iter().map(|ping| &ping[..]).collect();
    cases.good("2.10, 2.11", &frames, 0, &payloads);
    for bits in 1..8 {
        for kind in [TEXT, BINARY, PING, CLOSE] {
            let sent = [frame(TEXT, b"x"), frame(kind | bits << 4, b"")];
            cases.bad(format!("3 with {bits}"), &sent, 1, 1002);
        }
    }
    for opcode in (3..8).chain(11..16) {
        let sent = [frame(TEXT, b"x"), frame(LAST | opcode, b"reserved")];
        cases.bad(format!("4 with {opcode}"), &sent, 1, 1002);
    }
}

fn fragmentation(cases: &mut Cases) {
    let (start, end) = (|| frame(1, b"fragment1"), || frame(LAST, b"fragment2"));
    cases.bad("5.1", &[frame(PING & OPCODE, b"x"), end()], 0, 1002);
    cases.bad("5.2", &[frame(PONG & OPCODE, b"x"), end()], 0, 1002);
    cases.good("5.3 to 5.5", &[start(), end()], 1, &[]);
    cases.good(
        "5.6 to 5.8",
        &[start(), frame(PING, b"p"), end()],
        1,
        &[b"p"],
    );
    for opcode in [LAST, 0] {
        cases.bad(
            "5.9 to 5.14",
            &[frame(opcode, b"x"), frame(TEXT, b"x")],
            0,
            1002,
        );
    }
    cases.bad(
        "5.15",
        &[start(), end(), frame(0, b"x"), frame(LAST, b"x")],
        1,
        1002,
    );
    cases.bad(
        "5.16, 5.17",
        &[frame(0, b"x"), frame(1, b"x"), end()],
        0,
        1002,
    );
    cases.bad("5.18", &[start(), frame(1, b"x")], 0, 1002);
    let interleaved = |ping: u8| [frame(0, b"x"), frame(PING, &[ping]), frame(0, b"y")].concat();
    let sent = [start(), interleaved(1), interleaved(2), end()];
    cases.good("5.19, 5.20", &sent, 1, &[&[1], &[2]]);
}

fn texts(cases: &mut Cases) {
    cases.good("6.1.1", &[frame(TEXT, b"")], 1, &[]);
    cases.good(
        "6.1.2",
        &[frame(1, b""), frame(0, b""), frame(LAST, b"")],
        1,
        &[],
    );
    cases.good(
        "6.1.3",
        &[frame(1, b""), frame(0, b"x"), frame(LAST, b"")],
        1,
        &[],
    );
    // The first and last characters of each length, those beside surrogates, and non-characters.
    for valid in [
        "Hello-µ@ßöäüàá-UTF-8!!",
        "κόσμε",
        "\u{0}",
        "\u{7f}",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{fffd}",
        "\u{fffe}",
        "\u{1fffe}",
        "\u{10fffe}",
    ] {
        cases.good(
            format!("6 {valid:?}"),
            &[frame(TEXT, valid.as_bytes())],
            1,
            &[],
        );
        for len in 1..4 {
            let sent = fragments(valid.as_bytes(), len);
            cases.good(format!("6 {valid:?} by {len}"), &[sent], 1, &[]);
        }
    }
    for bad in [
        // Cut off, and followed by something else.
        &b"\xce"[..],
        b"\xce\xba\xe1",
        b"\xce\xba\xe1\xbd",
        b"\xce\xba\xe1\xbd\xb9\xcf",
        b"\xc3x",
        b"\xe2\x82x",
        // Continuations that continue nothing, and beginnings that are not continued.
        b"\x80",
        b"\xbf",
        b"\x80\xbf\x80",
        b"\xc0 \xc1 ",
        b"\xe0 \xe1 ",
        b"\xf0 \xf7 ",
        b"\xf8 \xfb ",
        b"\xfc \xfd ",
        // Of five and six bytes, beyond the last one, never in UTF-8.
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xfe",
        b"\xff",
        b"\xfe\xfe\xff\xff",
        // Longer than they have to be.
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xc0\x80",
        // Surrogates, alone and in pairs.
        b"\xed\xa0\x80",
        b"\xed\xaf\xbf",
        b"\xed\xb0\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\x80\xed\xb0\x80",
    ] {
        let text = [b"\xce\xba\xcf\x8c\xcf\x83\xce\xbc\xce\xb5", bad, b"edited"].concat();
        for bad in [bad, &text] {
            let number = format!("6 {}", bad.escape_ascii());
            cases.bad(&number, &[frame(TEXT, bad)], 0, 1007);
            for len in 1..4 {
                cases.bad(&number, &[fragments(bad, len)], 0, 1007);
            }
        }
    }
}

fn closing(cases: &mut Cases) {
    cases.good("7.1.1", &[frame(TEXT, b"x")], 1, &[]);
    let echoed = |payload: &[u8], close| (frame(CLOSE, payload), close);
    let reason = [&b"\x03\xe8"[..], &[b'*'; 123]].concat();
    for (number, (sent, close)) in [
        ("7.3.1", echoed(b"", None)),
        ("7.3.3", echoed(b"\x03\xe8", Some(1000))),
        ("7.3.4", echoed(b"\x03\xe8Hello World!", Some(1000))),
        ("7.3.5", echoed(&reason, Some(1000))),
    ] {
        // What comes behind a close frame is not looked at: 7.1.2 to 7.1.6.
        for behind in [
            vec![],
            frame(CLOSE, b""),
            frame(PING, b""),
            frame(TEXT, b"x"),
            fragments(b"long", 1),
        ] {
            let expected = Came {
                close,
                ..Came::default()
            };
            cases.add(
                number,
                [sent.clone(), behind].concat(),
                usize::MAX,
                expected,
            );
        }
    }
    cases.bad("7.3.2", &[frame(CLOSE, b"\x03")], 0, 1002);
    cases.bad(
        "7.3.6",
        &[frame(CLOSE, &[&reason[..], b"*"].concat())],
        0,
        1002,
    );
    cases.bad(
        "7.5.1",
        &[frame(CLOSE, b"\x03\xe8\xce\xba\xed\xa0\x80")],
        0,
        1007,
    );
    for code in [
        1000_u16, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        let expected = Came {
            close: Some(code),
            ..Came::default()
        };
        cases.add(
            "7.7",
            frame(CLOSE, &code.to_be_bytes()),
            usize::MAX,
            expected,
        );
    }
    for code in [
        0_u16, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        cases.bad(
            format!("7.9, 7.13: {code}"),
            &[frame(CLOSE, &code.to_be_bytes())],
            0,
            1002,
        );
    }
}

fn sizes(cases: &mut Cases) {
    for kind in [TEXT, BINARY] {
        for len in [64 << 10, 256 << 10, 999_999] {
            cases.good(
                format!("9 of {len}"),
                &[frame(kind, &vec![b'*'; len])],
                1,
                &[],
            );
        }
        let sent = vec![b'*'; 1 << 20];
        cases.add(
            "9 of a MiB",
            frame(kind, &sent)[..100].to_vec(),
            usize::MAX,
            Came {
                close: Some(1009),
                ..Came::default()
            },
        );
    }
    let text = vec![b'*'; 512 << 10];
    for len in [1_024, 4 << 10, 64 << 10] {
        cases.good(format!("9 by {len}"), &[fragments(&text, len)], 1, &[]);
    }
    cases.good("10.1.1", &[fragments(&text[..64 << 10], 1_300)], 1, &[]);
}

/// What the server sends until it closes the connection.
fn what_comes(case: &Case, proxy: &Proxy) -> Came {
    let mut stream = WebSocket::connect(proxy.address).into_stream();
    let mut sending = stream.try_clone().unwrap();
    let (sent, chop) = (case.sent.clone(), case.chop.min(case.sent.len().max(1)));
    let sender = std::thread::spawn(move || {
        // A server that has ended the connection takes no more.
        let _ = (sent.chunks(chop)).try_for_each(|piece| sending.write_all(piece));
    });
    let limits = WsLimits {
        message: usize::MAX,
        fragments: usize::MAX,
    };
    let mut reader = FrameReader::of_server(limits);
    let (mut bytes, mut chunk, mut has_ended) = (Vec::new(), [0; 16_384], false);
    let mut came = Came::default();
    loop {
        loop {
            // Control frames are short: behind two bytes comes what they bring.
            let control = bytes.get(..2).map(|head| (head[0], usize::from(head[1])));
            let control = control.filter(|(first, _)| *first == PONG);
            let pong = control.and_then(|(_, len)| Some(bytes.get(2..2 + len)?.to_vec()));
            let Ok(Step::Event { used, event }) = reader.next(&mut bytes) else {
                break;
            };
            match event {
                Event::Text(_) => came.answers += 1,
                Event::Close { code, .. } => came.close = code,
                _ => came.pongs.extend(pong),
            }
            bytes.drain(..used);
        }
        let is_all =
            (came.answers, came.pongs.len()) == (case.expected.answers, case.expected.pongs.len());
        if case.ends && is_all && !std::mem::replace(&mut has_ended, true) {
            stream.write_all(&frame(CLOSE, b"\x03\xe8")).unwrap();
        }
        // An end by a reset is one, too.
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
    sender.join().unwrap();
    assert!(bytes.is_empty(), "{}: whole frames come", case.number);
    if !case.ends {
        came.answers = came.answers.max(case.expected.answers);
    }
    came
}

#[test]
fn case_43_the_cases_of_autobahn_end_as_they_should() {
    let node = Node::start();
    let proxy = Proxy::with(&node.url(), |config| {
        config.reads.rate_per_client = "1000000/s".parse().unwrap();
    });
    let mut cases = Cases::default();
    for add in [framing, fragmentation, texts, closing, sizes] {
        add(&mut cases);
    }
    for case in &cases.0 {
        let came = what_comes(case, &proxy);
        assert_eq!(
            came, case.expected,
            "case {} in chops of {}",
            case.number, case.chop
        );
    }
    assert!(cases.0.len() > 500, "{}", cases.0.len());
    proxy.stop();
}
