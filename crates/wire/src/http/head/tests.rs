//! Heads that must be read in one way only.

use proptest::prelude::*;

use super::*;

const LIMITS: HeadLimits = HeadLimits {
    bytes: 4096,
    fields: 100,
    target: 1024,
};

fn read(bytes: &[u8]) -> Result<Option<Head>, HttpError> {
    HeadReader::new().read(bytes, &LIMITS)
}

/// A POST with these header lines.
fn post(fields: &str) -> Result<Head, HttpError> {
    read(format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes())
        .map(|head| head.expect("complete"))
}

#[test]
fn a_head_tells_what_matters() {
    let bytes = b"POST /a?b HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\
        content-length:  12 \r\nExpect: 100-Continue\r\n\r\nbody";
    let head = read(bytes).unwrap().unwrap();
    assert_eq!(&bytes[head.len..], b"body");
    assert_eq!(head.framing, Framing::Length(12));
    assert_eq!(head.expect, Expect::Continue);
    assert!(head.keep_alive && head.forwarded && head.has_body() && !head.upgrade);
    let view = head.view(bytes);
    assert_eq!((view.method, view.target), (&b"POST"[..], &b"/a?b"[..]));
    assert_eq!(view.first("HOST"), Some(&b"h"[..]));
    assert_eq!(view.first("Content-Length"), Some(&b"12"[..]));
    assert_eq!(view.fields().count(), 4);
}

#[test]
fn what_curl_sends_in_a_target_is_taken() {
    for target in [
        "/check_tx?tx=\"a=1\"",
        "/x?a=<b>|{c}^`\\",
        "/x?a=\u{fc}",
        "*",
        "http://h/x",
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = read(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(head.view(bytes.as_bytes()).target, target.as_bytes());
    }
}

#[test]
fn a_connection_stays_by_the_rules_of_its_version() {
    let keeps = |head: &str| read(head.as_bytes()).unwrap().unwrap().keep_alive;
    assert!(keeps("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert!(!keeps(
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, CLOSE\r\n\r\n"
    ));
    assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
    assert!(keeps("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    assert!(!keeps(
        "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"
    ));
}

#[test]
fn an_upgrade_needs_both_lines() {
    assert!(
        post("Connection: keep-alive, upgrade\r\nUpgrade: WebSocket\r\n")
            .unwrap()
            .upgrade
    );
    assert!(
        !post("Connection: upgrade\r\nUpgrade: h2c\r\n")
            .unwrap()
            .upgrade
    );
    assert!(!post("Upgrade: websocket\r\n").unwrap().upgrade);
}

#[test]
fn what_concerns_one_connection_is_not_forwarded() {
    let bytes = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: X-Secret, close\r\nx-secret: 1\r\n\
        TE: trailers\r\nContent-Length: 3\r\nKeep-Alive: 5\r\nAccept: a\r\nX-Other: \r\n\r\n";
    let head = read(bytes).unwrap().unwrap();
    let names: Vec<&str> = head
        .view(bytes)
        .end_to_end()
        .map(|field| field.name)
        .collect();
    assert_eq!(names, ["Host", "Accept", "X-Other"]);
}

#[test]
fn case_29_ambiguous_framing_is_refused() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding: chunked;x=1\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: identity\r\n",
    ] {
        assert_eq!(post(fields), Err(HttpError::Framing), "{fields}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(read(old), Err(HttpError::Framing));
    assert_eq!(
        post("Transfer-Encoding: CHUNKED\r\n").unwrap().framing,
        Framing::Chunked
    );
    // Far beyond any bound, and not wrapped round to something small.
    assert_eq!(
        post("Content-Length: 18446744073709551621\r\n")
            .unwrap()
            .framing,
        Framing::Length(u64::MAX)
    );
}

#[test]
fn case_29_lines_that_readers_split_differently_are_refused() {
    let lines: &[&[u8]] = &[
        b"GET / HTTP/1.1\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\n",
        b"GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\r\n\r\n",
    ];
    let fields: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\tfolded\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length\t: 5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHo\0st: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n: v\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nA(b: v\r\n\r\n",
    ];
    let hosts: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: \xe9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
    ];
    let requests: &[&[u8]] = &[
        b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / x HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
        b"GET /\r\nHost: h\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.2\r\nHost: h\r\n\r\n",
        b"GET / http/1.1\r\nHost: h\r\n\r\n",
        b"G\xfcT / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ];
    for (error, all) in [
        (HttpError::LineEnd, lines),
        (HttpError::Field, fields),
        (HttpError::Host, hosts),
        (HttpError::RequestLine, requests),
    ] {
        for bytes in all {
            assert_eq!(read(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn case_30_a_head_ends_at_its_limits() {
    let lines = |count: usize| "A: b\r\n".repeat(count);
    assert!(post(&lines(99)).is_ok());
    assert_eq!(post(&lines(100)), Err(HttpError::TooManyFields(100)));
    let long = format!("A: {}\r\n", "x".repeat(LIMITS.bytes));
    assert_eq!(post(&long), Err(HttpError::HeadTooLarge(LIMITS.bytes)));
    // Refused while it is still coming.
    let unfinished = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nA: {}",
        "x".repeat(LIMITS.bytes)
    );
    assert_eq!(
        read(unfinished.as_bytes()),
        Err(HttpError::HeadTooLarge(LIMITS.bytes))
    );
    let target = |len| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(len));
    assert!(read(target(LIMITS.target - 1).as_bytes()).is_ok());
    for len in [LIMITS.target, LIMITS.bytes] {
        assert_eq!(
            read(target(len).as_bytes()),
            Err(HttpError::TargetTooLong(LIMITS.target))
        );
    }
}

#[test]
fn case_31_only_100_continue_can_be_expected() {
    for several in [
        "Expect: 200-ok\r\n",
        "Expect: 200-ok\r\nExpect: 100-continue\r\n",
        "Expect: 100-continue\r\nExpect: 200-ok\r\n",
    ] {
        assert_eq!(post(several), Err(HttpError::Expectation), "{several}");
    }
    let old = b"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n";
    assert_eq!(read(old).unwrap().unwrap().expect, Expect::Nothing);
}

/// A head that comes in pieces, each looked at as it comes.
fn read_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Option<Head>, HttpError> {
    let mut reader = HeadReader::new();
    for end in cuts.iter().map(|cut| (*cut).min(bytes.len())) {
        match reader.read(&bytes[..end], &LIMITS) {
            Ok(None) => {}
            done => return done,
        }
    }
    reader.read(bytes, &LIMITS)
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some(head)) = read(&bytes) {
            let _ = head.view(&bytes).end_to_end().count();
        }
    }

    /// Damaged heads give the same result wherever the stream is cut.
    #[test]
    fn cuts_change_nothing(
        at: prop::sample::Index,
        byte in prop::sample::select(&b"\r\n: \t\0,aA5"[..]),
        mut cuts in prop::collection::vec(0usize..130, 0..5),
    ) {
        let mut bytes = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: close\r\n\
            Upgrade: websocket\r\nAccept: */*\r\n\r\nhello".to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        cuts.sort_unstable();
        let whole = read(&bytes);
        // Cut in pieces, what is wrong may be seen before the end has come, but not otherwise.
        prop_assert_eq!(read_in_pieces(&bytes, &cuts), whole);
    }

    /// Whatever is taken has its lines where `httparse` alone sees them as well.
    #[test]
    fn the_lines_are_those_of_httparse(
        fields in prop::collection::vec(("[A-Za-z][A-Za-z0-9-]{0,8}", "[ -~]{0,12}"), 0..6),
    ) {
        let mut text = "GET /x HTTP/1.1\r\nHost: h\r\n".to_owned();
        for (name, value) in &fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let Ok(Some(head)) = read(text.as_bytes()) else {
            return Ok(());
        };
        let mut room = [httparse::EMPTY_HEADER; 16];
        let mut parsed = Request::new(&mut room);
        let len = parsed.parse(text.as_bytes()).unwrap().unwrap();
        let theirs: Vec<(&str, &[u8])> = parsed
            .headers
            .iter()
            .map(|header| (header.name, header.value.trim_ascii()))
            .collect();
        let ours: Vec<(&str, &[u8])> = head
            .view(text.as_bytes())
            .fields()
            .map(|field| (field.name, field.value))
            .collect();
        prop_assert_eq!(head.len, len);
        prop_assert_eq!(ours, theirs);
    }
}
