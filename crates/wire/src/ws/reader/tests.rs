//! Frames whole, cut, damaged and malicious.

use proptest::prelude::*;

use super::*;
use crate::ws::frame::OPCODE;

const LIMITS: WsLimits = WsLimits {
    message: 1000,
    fragments: 5,
};
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// What a client writes; `first` is the first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::ws::frame::write_head(&mut out, first & OPCODE, payload.len(), Some(KEY));
    out[0] = first;
    let start = out.len();
    out.extend_from_slice(payload);
    mask(&mut out[start..], KEY);
    out
}

/// An event that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Text(String),
    Binary(Vec<u8>),
    Fragment,
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>, String),
}

fn owned(event: &Event<'_>) -> Got {
    match event {
        Event::Text(text) => Got::Text(String::from_utf8(text.to_vec()).unwrap()),
        Event::Binary(bytes) => Got::Binary(bytes.to_vec()),
        Event::Fragment => Got::Fragment,
        Event::Ping(bytes) => Got::Ping(bytes.to_vec()),
        Event::Pong => Got::Pong,
        Event::Close { code, reason } => Got::Close(*code, (*reason).to_owned()),
    }
}

/// Reads a stream that comes in pieces. All events, then how it ended.
fn read(stream: &[u8], cuts: &[usize]) -> (Vec<Got>, Result<usize, WsError>) {
    let mut reader = FrameReader::new(LIMITS);
    let (mut buffer, mut fed, mut got) = (Vec::new(), 0, Vec::new());
    for end in cuts.iter().copied().chain([stream.len()]) {
        let end = end.clamp(fed, stream.len());
        buffer.extend_from_slice(&stream[fed..end]);
        fed = end;
        let mut at = 0;
        loop {
            match reader.next(&mut buffer[at..]) {
                Ok(Step::Event { used, event }) => {
                    got.push(owned(&event));
                    at += used;
                }
                Ok(Step::Incomplete { needed }) => {
                    assert!(
                        needed > buffer.len() - at,
                        "more is asked for than there is"
                    );
                    break;
                }
                Err(error) => return (got, Err(error)),
            }
        }
        buffer.drain(..at);
    }
    (got, Ok(buffer.len()))
}

fn error(stream: &[u8]) -> WsError {
    read(stream, &[]).1.unwrap_err()
}

#[test]
fn the_example_of_the_rfc() {
    let stream = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(read(stream, &[]).0, [Got::Text("Hello".to_owned())]);
}

#[test]
fn messages_pings_and_fragments_come_in_order() {
    let stream = [
        frame(0x01, b"one, "),
        frame(0x89, b"ping"),
        frame(0x00, b"two, "),
        frame(0x8a, b""),
        frame(0x80, b"three"),
        frame(0x82, b"\xff"),
        frame(0x81, b""),
        frame(0x88, b"\x03\xe8bye"),
    ]
    .concat();
    let (got, end) = read(&stream, &[]);
    assert_eq!(
        got,
        [
            Got::Fragment,
            Got::Ping(b"ping".to_vec()),
            Got::Fragment,
            Got::Pong,
            Got::Text("one, two, three".to_owned()),
            Got::Binary(vec![0xff]),
            Got::Text(String::new()),
            Got::Close(Some(1000), "bye".to_owned()),
        ]
    );
    assert_eq!(end, Ok(0));
}

#[test]
fn case_43_what_breaks_the_protocol_is_refused() {
    let protocol = |stream: &[u8]| matches!(error(stream), WsError::Protocol(_));
    assert!(protocol(b"\x81\x05Hello"), "not masked");
    for bit in [0x40, 0x20, 0x10] {
        assert!(protocol(&frame(0x81 | bit, b"x")), "reserved bit");
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        let refused = error(&frame(0x80 | opcode, b"x"));
        assert_eq!(refused, WsError::UnknownOpcode(opcode));
        assert_eq!(refused.close_code(), 1002);
    }
    assert!(protocol(&frame(0x80, b"x")), "continues nothing");
    assert!(
        protocol(&[frame(0x01, b"x"), frame(0x81, b"x")].concat()),
        "inside another"
    );
    assert!(protocol(&frame(0x09, b"x")), "a ping in fragments");
    assert!(protocol(&frame(0x89, &[0; 126])), "a long ping");
    assert!(protocol(&frame(0x88, b"\x03")), "half a code");
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535] {
        assert!(protocol(&frame(0x88, &code.to_be_bytes())), "code {code}");
    }
    assert!(
        protocol(b"\x81\xff\x80\0\0\0\0\0\0\0abcd"),
        "first bit of a length"
    );
    assert_eq!(
        read(&frame(0x88, b""), &[]).0,
        [Got::Close(None, String::new())]
    );
}

#[test]
fn frames_of_a_server_are_not_masked() {
    let mut reader = FrameReader::of_server(LIMITS);
    let mut stream = *b"\x81\x05Hello";
    assert_eq!(
        reader.next(&mut stream),
        Ok(Step::Event {
            used: 7,
            event: Event::Text(b"Hello")
        })
    );
    let masked = reader.next(&mut frame(0x81, b"x")).unwrap_err();
    assert!(matches!(masked, WsError::Protocol(_)));
}

#[test]
fn case_43_texts_are_utf_8() {
    for bad in [
        &b"\xff"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"a\xe2\x82",
    ] {
        assert_eq!(error(&frame(0x81, bad)), WsError::NotUtf8, "{bad:?}");
    }
    assert_eq!(error(&frame(0x88, b"\x03\xe8\xff")), WsError::NotUtf8);
    // A character that two fragments share.
    let split = [frame(0x01, b"\xe2\x82"), frame(0x80, b"\xac")].concat();
    assert_eq!(
        read(&split, &[]).0,
        [Got::Fragment, Got::Text("€".to_owned())]
    );
}

#[test]
fn case_43_bombs_end_at_the_limits() {
    let largest = frame(0x81, &[b'x'; 1000]);
    assert_eq!(read(&largest, &[]).1, Ok(0));
    // Refused by its head, before the payload has come.
    assert_eq!(
        error(&frame(0x81, &[b'x'; 1001])[..8]),
        WsError::TooLarge(1000)
    );
    assert_eq!(
        error(b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffabcd"),
        WsError::TooLarge(1000)
    );
    let slices = [frame(0x01, &[b'x'; 600]), frame(0x00, &[b'x'; 401])].concat();
    assert_eq!(error(&slices), WsError::TooLarge(1000));
    let empty = [frame(0x01, b""), frame(0x00, b"").repeat(5)].concat();
    assert_eq!(error(&empty), WsError::TooManyFragments(5));
    let allowed = [
        frame(0x01, b""),
        frame(0x00, b"").repeat(3),
        frame(0x80, b""),
    ]
    .concat();
    assert_eq!(read(&allowed, &[]).1, Ok(0));
}

#[test]
fn limits_hold_for_each_message_anew() {
    let message = [frame(0x01, &[b'x'; 500]), frame(0x80, &[b'x'; 500])].concat();
    let stream = [message.clone(), frame(0x81, &[b'y'; 1000]), message].concat();
    let (got, end) = read(&stream, &[]);
    assert_eq!((got.len(), end), (5, Ok(0)));
}

#[test]
fn storage_of_a_large_message_is_given_back() {
    let mut reader = FrameReader::new(WsLimits {
        message: 1 << 20,
        fragments: 5,
    });
    let mut first = frame(0x01, &vec![b'x'; 200_000]);
    let mut last = frame(0x80, b"x");
    reader.next(&mut first).unwrap();
    reader.next(&mut last).unwrap();
    assert!(reader.held_bytes() >= 200_000);
    reader.next(&mut frame(0x01, b"x")).unwrap();
    assert!(reader.held_bytes() <= KEPT_BYTES);
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        ("[ -~]{0,20}").prop_map(|text| frame(0x81, text.as_bytes())),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|bytes| frame(0x82, &bytes)),
        ("[ -~]{0,9}", "[ -~]{0,9}").prop_map(|(one, two)| {
            [
                frame(0x01, one.as_bytes()),
                frame(0x89, b""),
                frame(0x80, two.as_bytes()),
            ]
            .concat()
        }),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| frame(0x8a, &bytes)),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Intact or damaged, a stream means the same wherever it is cut.
    #[test]
    fn cuts_change_nothing(
        stream in stream(),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        mut cuts in prop::collection::vec(0usize..400, 0..8),
    ) {
        let mut stream = stream;
        if let Some((at, byte)) = damage.filter(|_| !stream.is_empty()) {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        cuts.sort_unstable();
        prop_assert_eq!(read(&stream, &cuts), read(&stream, &[]));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = read(&bytes, &[]);
    }

    /// What a client writes is what comes out.
    #[test]
    fn texts_come_through(texts in prop::collection::vec(any::<String>(), 0..5)) {
        let stream: Vec<u8> =
            texts.iter().flat_map(|text| frame(0x81, text.as_bytes())).collect();
        prop_assume!(texts.iter().all(|text| text.len() <= LIMITS.message));
        let expected: Vec<Got> = texts.into_iter().map(Got::Text).collect();
        prop_assert_eq!(read(&stream, &[]), (expected, Ok(0)));
    }
}
