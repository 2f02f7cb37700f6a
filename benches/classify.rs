//! Question: what does it cost to find out what a request asks for, before anything is done with it?
//!
//! Unit: nanoseconds for each request, batch, head or buffer of frames (criterion also prints bytes
//! a second). A broadcast is timed up to the decoded transaction.
//! Compared with: `serde_json` into a borrowed struct (base64 decoded by the same library) and into
//! a value tree; `httparse` alone, without the checks that keep requests apart; and `tungstenite`
//! reading the same frames.

use std::borrow::Cow;
use std::hint::black_box;
use std::io::Cursor;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rpc::{BroadcastMethod, encode_broadcast};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use wire::calls::{Call, Classified, JsonLimits, classify, classify_uri};
use wire::http::{HeadLimits, HeadReader};
use wire::ws::{Event, FrameReader, Step, WsLimits, frame};

fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("classify");
    for (name, body) in [
        ("broadcast_250_bytes", broadcast(250)),
        ("broadcast_10_kB", broadcast(10_000)),
        ("read", READ.as_bytes().to_vec()),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("tidegate_{name}"), |b| {
            b.iter(|| tx_bytes(classify(black_box(&body), &LIMITS).expect("within limits")));
        });
        group.bench_function(format!("serde_json_struct_{name}"), |b| {
            b.iter(|| {
                let request = serde_json::from_slice(black_box(&body)).expect("a request");
                transaction(&request).len()
            });
        });
        group.bench_function(format!("serde_json_value_{name}"), |b| {
            b.iter(|| {
                let request: serde_json::Value =
                    serde_json::from_slice(black_box(&body)).expect("a request");
                let tx = request["params"]["tx"].as_str().unwrap_or_default();
                base64_simd::STANDARD.decode_to_vec(tx).expect("base64")
            });
        });
    }
    group.finish();
}

fn batches(c: &mut Criterion) {
    let mut group = c.benchmark_group("classify_batch_of_10");
    let body = [b"[", vec![broadcast(250); 10].join(&b',').as_slice(), b"]"].concat();
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("tidegate", |b| {
        b.iter(|| tx_bytes(classify(black_box(&body), &LIMITS).expect("within limits")));
    });
    group.bench_function("serde_json_struct", |b| {
        b.iter(|| {
            let batch: Vec<Request<'_>> =
                serde_json::from_slice(black_box(&body)).expect("a batch");
            batch
                .iter()
                .map(|request| transaction(request).len())
                .sum::<usize>()
        });
    });
    group.finish();
}

fn heads(c: &mut Criterion) {
    let mut group = c.benchmark_group("head");
    let limits = HeadLimits {
        bytes: 32 << 10,
        fields: 100,
        target: 16 << 10,
    };
    group.throughput(Throughput::Bytes(HEAD.len() as u64));
    group.bench_function("tidegate", |b| {
        b.iter(|| HeadReader::new().read(black_box(HEAD.as_bytes()), &limits));
    });
    group.bench_function("httparse_alone", |b| {
        b.iter(|| {
            let mut headers = [httparse::EMPTY_HEADER; 100];
            httparse::Request::new(&mut headers).parse(black_box(HEAD.as_bytes()))
        });
    });
    let target = format!("/broadcast_tx_sync?tx=\"{}\"", "x".repeat(250));
    group.throughput(Throughput::Bytes(target.len() as u64));
    group.bench_function("tidegate_uri_broadcast", |b| {
        b.iter(|| classify_uri(black_box(target.as_bytes())));
    });
    group.finish();
}

fn frames(c: &mut Criterion) {
    let mut group = c.benchmark_group("frames_150_in_64_KiB");
    let mut buffer = Vec::new();
    for _ in 0..FRAMES {
        write_masked(&mut buffer, &broadcast(250));
    }
    group.throughput(Throughput::Elements(FRAMES as u64));
    let limits = WsLimits {
        message: 1_000_000,
        fragments: 1024,
    };
    let tidegate = |buffer: &mut Vec<u8>| {
        let (mut reader, mut at, mut count) = (FrameReader::new(limits), 0, 0);
        while let Step::Event { used, event } = reader.next(&mut buffer[at..]).expect("frames") {
            at += used;
            count += usize::from(matches!(event, Event::Text(_)));
        }
        assert_eq!(count, FRAMES);
    };
    group.bench_function("tidegate", |b| {
        b.iter_batched_ref(|| buffer.clone(), tidegate, BatchSize::SmallInput);
    });
    let with_classification = |buffer: &mut Vec<u8>| {
        let (mut reader, mut at) = (FrameReader::new(limits), 0);
        while let Step::Event { used, event } = reader.next(&mut buffer[at..]).expect("frames") {
            at += used;
            if let Event::Text(text) = event {
                black_box(classify(text, &LIMITS).expect("within limits"));
            }
        }
    };
    group.bench_function("tidegate_and_classify", |b| {
        b.iter_batched_ref(
            || buffer.clone(),
            with_classification,
            BatchSize::SmallInput,
        );
    });
    let tungstenite = |buffer: Vec<u8>| {
        let mut socket = WebSocket::from_raw_socket(Cursor::new(buffer), Role::Server, None);
        for _ in 0..FRAMES {
            black_box(socket.read().expect("frames"));
        }
    };
    group.bench_function("tungstenite", |b| {
        b.iter_batched(|| buffer.clone(), tungstenite, BatchSize::SmallInput);
    });
    group.finish();
}

const LIMITS: JsonLimits = JsonLimits {
    depth: 64,
    batch: 10,
};

const FRAMES: usize = 150;

const READ: &str = r#"{"jsonrpc":"2.0","id":7,"method":"abci_query","params":{"path":"","data":"61","prove":false}}"#;

/// As Go's client and most others write it.
const HEAD: &str = "POST / HTTP/1.1\r\nHost: 127.0.0.1:26680\r\nUser-Agent: Go-http-client/1.1\r\n\
    Content-Length: 435\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n";

fn broadcast(size: u32) -> Vec<u8> {
    let tx: Vec<u8> = (0..size).map(|i| (i * 7) as u8).collect();
    let mut body = Vec::new();
    encode_broadcast(&mut body, 123_456, BroadcastMethod::Sync, &tx);
    body
}

fn write_masked(out: &mut Vec<u8>, text: &[u8]) {
    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    frame::write_masked(out, frame::TEXT, KEY, text.len(), |out| {
        out.extend_from_slice(text);
    });
}

fn tx_bytes(classified: Classified<'_>) -> usize {
    let len = |call: &Call<'_>| match call {
        Call::Write { tx, .. } => tx.len(),
        _ => 0,
    };
    match classified {
        Classified::One(call) => len(&call),
        Classified::Batch(elements) => elements.iter().map(|element| len(&element.call)).sum(),
        Classified::Unparsable => 0,
    }
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Request<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    tx: Option<Cow<'a, str>>,
}

fn transaction(request: &Request<'_>) -> Vec<u8> {
    let tx = request.params.tx.as_deref().unwrap_or_default();
    base64_simd::STANDARD.decode_to_vec(tx).expect("base64")
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = settings(); targets = calls, batches, heads, frames }
criterion_main!(benches);
