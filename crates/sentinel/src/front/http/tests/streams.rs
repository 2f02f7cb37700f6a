//! Streams of HTTP/2: served as connections of HTTP/1.1 are, and what hostile clients do with them.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;
use crate::front::streams::{CONNECTION_BYTES, MOST_STREAMS, STREAM_BYTES};

type Body = Full<Bytes>;

/// A client of HTTP/2 on a connection.
pub(super) async fn speak<IO>(io: IO) -> (SendRequest<Body>, JoinHandle<()>)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
    let (sender, connection) = handshake.await.unwrap();
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    (sender, task)
}

fn request(method: Method, target: &str, body: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(format!("http://node{target}"))
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

pub(super) fn post(body: &str) -> Request<Body> {
    request(Method::POST, "/", body)
}

pub(super) async fn text(response: Response<hyper::body::Incoming>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.into()).unwrap()
}

/// The connection's end of a client, which keeps it open.
fn split(client: Client) -> (tokio::io::DuplexStream, impl Sized) {
    client.into_parts()
}

#[tokio::test(start_paused = true)]
async fn http_35_a_stream_is_answered_as_a_connection_is() {
    let bench = Bench::new();
    let (io, _open) = split(bench.connect());
    let (mut sender, _task) = speak(io).await;
    let batch = format!("[{},{}]", sync(1, "a"), call(2, "status"));
    let long = sync(3, &"x".repeat(400_000));
    let cases = [
        (Method::POST, "/", sync("\"a b\"", "y")),
        (Method::POST, "/", call(7, "status")),
        (Method::POST, "/", call(7, "unsafe_flush_mempool")),
        (Method::POST, "/", batch),
        (Method::POST, "/", long),
        (Method::POST, "/", "x".repeat(1_000_001)),
        (Method::POST, "/", "{".to_owned()),
        (Method::GET, "/status", String::new()),
        (Method::GET, "/broadcast_tx_sync?tx=0x61", String::new()),
        (Method::GET, "/broadcast_tx_sync?tx=nothing", String::new()),
        (Method::GET, "/websocket", String::new()),
        (Method::HEAD, "/status", String::new()),
    ];
    for (method, target, body) in cases {
        let response = sender.send_request(request(method.clone(), target, &body));
        let response = response.await.unwrap();
        let status = response.status().as_u16();
        let has_reason = response.headers().contains_key("x-sentinel-reason");
        assert!(!response.headers().contains_key("connection"));
        let streamed = text(response).await;
        let mut client = bench.connect();
        let len = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: node\r\nConnection: close");
        client
            .send(format!("{head}\r\nContent-Length: {len}\r\n\r\n"))
            .await;
        // What is too large is refused before it is read.
        let _ = client.0.write_all(body.as_bytes()).await;
        let mut answer = client.rest().await;
        let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(status.to_string(), head[9..12], "{method} {target}");
        assert_eq!(has_reason, head.contains("X-Sentinel-Reason"), "{head}");
        if !head.contains("chunked") {
            answer = rest.to_owned();
            assert_eq!(streamed, answer, "{method} {target}");
        } else {
            assert!(answer.contains(&streamed), "{method} {target}");
        }
    }
}

/// Bodies whose length nobody announced, in both directions.
#[tokio::test(start_paused = true)]
async fn http_35_bodies_of_unknown_length_are_whole() {
    let bench = Bench::new();
    let (io, _open) = split(bench.connect());
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let whole = sync(1, &"z".repeat(90_000));
    let pieces: Vec<_> = (whole.as_bytes().chunks(10_000))
        .map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))))
        .collect();
    let body = StreamBody::new(stream::iter(pieces));
    let request = Request::post("http://node/").body(body).unwrap();
    let answer = text(sender.send_request(request).await.unwrap()).await;
    assert_eq!(answer, answer_to(1, &"z".repeat(90_000)));
    let long = ["a", "b"].map(|letter| letter.repeat(100_000));
    bench.will_answer(ReadAnswer::pieces(200, &[&long[0], &long[1]]));
    let empty = StreamBody::new(stream::iter(Vec::new()));
    let request = Request::get("http://node/status").body(empty).unwrap();
    let answer = text(sender.send_request(request).await.unwrap()).await;
    assert_eq!(answer, long.concat());
}

/// A client of HTTP/2 with small windows, and bodies in frames of its own.
async fn speak_frames(
    bench: &Bench,
) -> SendRequest<StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>> {
    let (io, open) = split(bench.connect());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .initial_stream_window_size(1_000)
        .max_header_list_size(1 << 20);
    let handshake = builder.handshake(TokioIo::new(io));
    let (sender, connection) = handshake.await.unwrap();
    tokio::spawn(async move {
        let _open = open;
        let _ = connection.await;
    });
    sender
}

#[tokio::test(start_paused = true)]
async fn http_35_trailers_of_a_request_end_its_body() {
    let bench = Bench::new();
    let mut sender = speak_frames(&bench).await;
    let whole = sync(1, "x");
    let (first, rest) = whole.split_at(20);
    let data = |text: &str| Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes())));
    for length in [None, Some(whole.len())] {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-checksum", "1".parse().unwrap());
        let frames = vec![
            data(first),
            data(""),
            data(rest),
            Ok(Frame::trailers(trailers)),
        ];
        let mut request = Request::post("http://node/");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let body = StreamBody::new(stream::iter(frames));
        let answer = sender.send_request(request.body(body).unwrap()).await;
        assert_eq!(text(answer.unwrap()).await, answer_to(1, "x"));
    }
}

/// Each is larger than the client's window, and than what waits for it here; the last breaks off.
#[tokio::test(start_paused = true)]
async fn http_35_a_long_answer_comes_whole_or_as_broken_off() {
    let bench = Bench::new();
    let mut sender = speak_frames(&bench).await;
    let long = "a".repeat(300_000);
    let head = |bytes| {
        let value = HeaderValue::try_from("h".repeat(bytes)).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static("x-long"), value)])
    };
    let long_head = ReadAnswer {
        headers: head(2 * STREAM_BYTES),
        ..ReadAnswer::whole(200, &long)
    };
    let too_long = ReadAnswer {
        headers: head(65 << 10),
        ..ReadAnswer::whole(200, "")
    };
    let answers = [
        (ReadAnswer::whole(200, &long), true),
        (ReadAnswer::pieces(200, &[&long]), true),
        (long_head, true),
        (too_long, false),
        (ReadAnswer::pieces(200, &[&long, ""]), false),
        (
            ReadAnswer {
                length: Some(300_001),
                ..ReadAnswer::pieces(200, &[&long])
            },
            false,
        ),
    ];
    for (answer, is_whole) in answers {
        bench.will_answer(answer);
        let empty = StreamBody::new(stream::iter(Vec::new()));
        let request = Request::get("http://node/status").body(empty).unwrap();
        let taken = async {
            let answer = sender.send_request(request).await.ok()?;
            let body = answer.into_body().collect().await.ok()?;
            Some(body.to_bytes())
        };
        assert_eq!(taken.await.is_some_and(|taken| taken == long), is_whole);
    }
}

/// A write whose stream is reset leaves nothing behind, and the others go on.
#[tokio::test(start_paused = true)]
async fn http_35_a_stream_that_is_reset_before_its_answer_leaves_nothing() {
    let bench = Bench::new();
    bench.fake.state().hold = true;
    let (io, _open) = split(bench.connect());
    let (mut sender, _task) = speak(io).await;
    let batch = format!("[{},{}]", sync(1, "first"), sync(2, "second"));
    let [reset, of_batch, kept] = [sync(1, "reset"), batch, sync(1, "kept")]
        .map(|body| tokio::spawn(sender.send_request(post(&body))));
    settle().await;
    reset.abort();
    of_batch.abort();
    settle().await;
    let txs = bench.fake.state().txs.clone();
    assert_eq!(txs, ["reset", "first", "second", "kept"]);
    assert!(bench.fake.state().disconnected.is_empty());
    // Only clients of HTTP/1.1 that hung up were counted; at c1876d9d the calls of a batch were not yet.
    let series = "sentinel_requests_total{transport=\"post\",lane=\"write\",method_class=\"broadcast_sync\",outcome=\"cancelled\"}";
    assert_eq!(bench.metric(series), "3");
    bench.fake.release();
    let answer = text(kept.await.unwrap().unwrap()).await;
    assert_eq!(answer, answer_to(1, "kept"));
    settle().await;
    let held = bench.shared.ledger.used();
    assert_eq!(held, CONNECTION_BYTES + 3 * STREAM_BYTES);
}

#[tokio::test(start_paused = true)]
async fn http_35_behind_a_trusted_proxy_each_stream_is_its_clients() {
    let bench = Bench::with(|config| config.trust.proxies = vec!["10.0.0.0/8".parse().unwrap()]);
    let (io, _open) = split(bench.connect_from([10, 0, 0, 1]));
    let (mut sender, _task) = speak(io).await;
    for last in 1..=3 {
        let mut request = post(&sync(1, "x"));
        let value = format!("203.0.113.{last}").parse().unwrap();
        request.headers_mut().insert("x-forwarded-for", value);
        let answer = text(sender.send_request(request).await.unwrap()).await;
        assert_eq!(answer, answer_to(1, "x"));
    }
    let clients = bench.fake.state().clients.clone();
    assert_eq!(clients, ["203.0.113.1", "203.0.113.2", "203.0.113.3"]);
}

#[tokio::test(start_paused = true)]
async fn http_35_what_a_connection_and_its_streams_hold_is_in_the_account() {
    let bench = Bench::new();
    bench.fake.state().hold_reads = true;
    let (io, open) = split(bench.connect());
    let (mut sender, task) = speak(io).await;
    settle().await;
    assert_eq!(bench.shared.ledger.used(), CONNECTION_BYTES);
    let waiting: Vec<_> = (0..10)
        .map(|_| tokio::spawn(sender.send_request(request(Method::GET, "/status", ""))))
        .collect();
    settle().await;
    let held = bench.shared.ledger.used();
    assert!(held >= CONNECTION_BYTES + 10 * STREAM_BYTES, "{held}");
    bench.fake.state().hold_reads = false;
    bench.fake.release();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
    drop((sender, open));
    task.await.unwrap();
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

/// CVE-2023-44487: requests that are reset at once are no load that the number of streams bounds.
#[tokio::test(start_paused = true)]
async fn http_35_who_resets_streams_faster_than_it_may_ask_is_disconnected() {
    let bench = Bench::new();
    bench.fake.state().hold_reads = true;
    let (io, _open) = split(bench.connect());
    let (mut sender, task) = speak(io).await;
    let mut resets = 0;
    while !task.is_finished() && resets < 10_000 {
        if sender.ready().await.is_err() {
            break;
        }
        let asked = sender.send_request(request(Method::GET, "/status", ""));
        let asked = tokio::spawn(asked);
        while bench.fake.state().forwarded.len() <= resets && !task.is_finished() {
            tokio::task::yield_now().await;
        }
        asked.abort();
        let _ = asked.await;
        resets += 1;
    }
    task.await.unwrap();
    // A second's worth of work at once, and what passes meanwhile.
    assert!((1_000..3_000).contains(&resets), "{resets}");
    let rejected = bench.metric("sentinel_rejected_total{reason=\"rate\"}");
    assert_eq!(rejected, "1");
    let (io, _open) = split(bench.connect_from([192, 0, 2, 9]));
    let (mut sender, _task) = speak(io).await;
    let answer = text(sender.send_request(post(&sync(1, "x"))).await.unwrap()).await;
    assert_eq!(answer, answer_to(1, "x"));
}

/// A client that opens its window for nothing keeps neither answer nor connection.
#[tokio::test(start_paused = true)]
async fn http_35_who_takes_nothing_of_an_answer_is_disconnected() {
    let bench = Bench::new();
    bench.will_answer(ReadAnswer::pieces(200, &[&"a".repeat(900_000)]));
    let (io, _open) = split(bench.connect());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1_000);
    let (mut sender, connection) = builder.handshake(TokioIo::new(io)).await.unwrap();
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    let response = sender.send_request(request(Method::GET, "/status", ""));
    let response = response.await.unwrap();
    let start = Instant::now();
    task.await.unwrap();
    let took = start.elapsed();
    assert!((10..=16).contains(&took.as_secs()), "{took:?}");
    drop(response);
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
}

/// A frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![len[1], len[2], len[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET http://x/status`, without an entry of the table (RFC 7541).
const GET: &[u8] = b"\x82\x86\x41\x01x\x04\x07/status";

async fn begin(client: &mut Client) {
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    client.send(frame(SETTINGS, 0, 0, b"")).await;
}

/// The kinds of the frames up to the end of the connection, and the last payload.
async fn frames(client: &mut Client) -> (Vec<u8>, Vec<u8>) {
    let (mut kinds, mut payload) = (Vec::new(), Vec::new());
    let mut head = [0; 9];
    while client.0.read_exact(&mut head).await.is_ok() {
        payload.resize(usize::from(head[1]) << 8 | usize::from(head[2]), 0);
        client.0.read_exact(&mut payload).await.unwrap();
        kinds.push(head[3]);
    }
    (kinds, payload)
}

/// CVE-2024-27316 and its relatives: headers without end.
#[tokio::test(start_paused = true)]
async fn http_35_headers_without_end_end_the_connection() {
    let bench = Bench::new();
    let mut client = bench.connect();
    begin(&mut client).await;
    client.send(frame(HEADERS, END_STREAM, 1, GET)).await;
    // A literal that is added to the list: 1 KiB each.
    let mut field = b"\x00\x01a\x7f\xe9\x06".to_vec();
    field.resize(field.len() + 1_000, b'b');
    let mut sent = 0;
    let flood = frame(CONTINUATION, 0, 1, &field);
    while sent < 4 << 20 && client.0.write_all(&flood).await.is_ok() {
        sent += flood.len();
        settle().await;
        assert!(bench.shared.ledger.used() <= CONNECTION_BYTES + STREAM_BYTES);
    }
    assert!(sent < 1 << 20, "{sent}");
    let (kinds, reason) = frames(&mut client).await;
    assert_eq!(kinds.last(), Some(&GOAWAY));
    // ENHANCE_YOUR_CALM
    assert_eq!(reason[4..8], [0, 0, 0, 11]);
    assert!(bench.fake.state().forwarded.is_empty());
}

#[tokio::test(start_paused = true)]
async fn http_35_no_more_streams_are_served_than_are_allowed() {
    let bench = Bench::new();
    bench.fake.state().hold_reads = true;
    let mut client = bench.connect();
    begin(&mut client).await;
    for number in 0..MOST_STREAMS + 100 {
        let flags = END_STREAM | END_HEADERS;
        client
            .send(frame(HEADERS, flags, 2 * number + 1, GET))
            .await;
    }
    settle().await;
    let served = bench.fake.state().forwarded.len();
    assert_eq!(served, MOST_STREAMS as usize);
}

/// A request whose length differs from its header, or has two such headers, is no request, and nothing of it reaches the node.
#[tokio::test(start_paused = true)]
async fn http_35_a_body_of_another_length_than_stated_is_not_served() {
    for (lengths, is_served) in [
        (&["3"][..], true),
        (&[], true),
        (&["5"], false),
        (&["2"], false),
        (&["+3"], false),
        (&["3", "4"], false),
        (&["3", "3"], false),
    ] {
        let bench = Bench::new();
        let mut client = bench.connect();
        begin(&mut client).await;
        // `POST http://x/`
        let mut head = b"\x83\x86\x41\x01x\x84".to_vec();
        for length in lengths {
            // content-length
            head.extend([0x0f, 0x0d, u8::try_from(length.len()).unwrap()]);
            head.extend_from_slice(length.as_bytes());
        }
        client.send(frame(HEADERS, END_HEADERS, 1, &head)).await;
        client.send(frame(DATA, END_STREAM, 1, b"abc")).await;
        settle().await;
        let served = bench.fake.state().forwarded.len();
        assert_eq!(served, usize::from(is_served), "{lengths:?}");
    }
}

/// What is no HTTP/2 behind the preface, and the preface behind something else.
#[tokio::test(start_paused = true)]
async fn http_35_a_preface_by_itself_is_no_way_in() {
    let bench = Bench::new();
    for bytes in [
        &b"PRI * HTTP/2.0\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n",
    ] {
        let mut client = bench.connect();
        client.send(bytes).await;
        client.rest().await;
    }
    settle().await;
    assert_eq!(bench.shared.ledger.used(), 0);
    assert!(bench.fake.state().forwarded.is_empty());
}
