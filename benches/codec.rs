//! Question: what does it cost to write a broadcast request and to read its answer?
//!
//! Unit: nanoseconds for each message (criterion also prints bytes a second).
//! Compared with: `serde_json`. For requests that is a typed struct with the base64 made before; for
//! answers a struct of exactly the fields that are needed, and the value tree that most clients use.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Duration;

use chain_cometbft::decode_answer;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rpc::{BroadcastMethod, encode_broadcast};
use serde::{Deserialize, Serialize};

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode_broadcast");
    for size in [250, 10_000] {
        let tx: Vec<u8> = (0..size).map(|i: u32| (i * 7) as u8).collect();
        group.throughput(Throughput::Bytes(u64::from(size)));
        let mut out = Vec::with_capacity(32 * 1024);
        group.bench_function(format!("tidegate_{size}_bytes"), |b| {
            b.iter(|| {
                out.clear();
                encode_broadcast(
                    &mut out,
                    black_box(123_456),
                    BroadcastMethod::Sync,
                    black_box(&tx),
                );
                out.len()
            });
        });
        group.bench_function(format!("serde_json_{size}_bytes"), |b| {
            b.iter(|| {
                out.clear();
                let request = Request {
                    jsonrpc: "2.0",
                    id: black_box(123_456),
                    method: "broadcast_tx_sync",
                    params: Params {
                        tx: base64_simd::STANDARD.encode_to_string(black_box(&tx)),
                    },
                };
                serde_json::to_writer(&mut out, &request).expect("a Vec takes everything");
                out.len()
            });
        });
    }
    group.finish();
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode_answer");
    for (name, body) in ANSWERS {
        let body = body.as_bytes();
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("tidegate_{name}"), |b| {
            b.iter(|| {
                decode_answer(black_box(body))
                    .expect("an answer")
                    .id
                    .as_u64()
            });
        });
        group.bench_function(format!("serde_json_struct_{name}"), |b| {
            b.iter(|| {
                let answer: Answer<'_> =
                    serde_json::from_slice(black_box(body)).expect("an answer");
                black_box(answer).id
            });
        });
        group.bench_function(format!("serde_json_value_{name}"), |b| {
            b.iter(|| {
                let answer: serde_json::Value =
                    serde_json::from_slice(black_box(body)).expect("an answer");
                black_box(answer)["id"].as_u64()
            });
        });
    }
    group.finish();
}

#[derive(Serialize)]
struct Request {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: Params,
}

#[derive(Serialize)]
struct Params {
    tx: String,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Answer<'a> {
    id: u64,
    #[serde(borrow)]
    result: Option<Broadcast<'a>>,
    #[serde(borrow)]
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Broadcast<'a> {
    code: u32,
    #[serde(borrow)]
    codespace: Cow<'a, str>,
    #[serde(borrow)]
    log: Cow<'a, str>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Failure<'a> {
    code: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(borrow)]
    data: Cow<'a, str>,
}

/// As CometBFT 0.38 writes them.
const ANSWERS: [(&str, &str); 3] = [
    (
        "accepted",
        r#"{"jsonrpc":"2.0","id":123456,"result":{"code":0,"data":"","log":"","codespace":"","hash":"6C34F9A8D7E2B1C05F4E3D2C1B0A99887766554433221100FFEEDDCCBBAA9988"}}"#,
    ),
    (
        "rejected_with_escapes",
        r#"{"jsonrpc":"2.0","id":123456,"result":{"code":2,"data":"","log":"invalid transaction: \"key\" must be \u003c 64 bytes","codespace":"app","hash":"6C34F9A8D7E2B1C05F4E3D2C1B0A99887766554433221100FFEEDDCCBBAA9988"}}"#,
    ),
    (
        "mempool_full",
        r#"{"jsonrpc":"2.0","id":123456,"error":{"code":-32603,"message":"Internal error","data":"mempool is full: number of txs 5000 (max: 5000), total txs bytes 1250000 (max: 1073741824)"}}"#,
    ),
];

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(30)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = settings(); targets = encode, decode }
criterion_main!(benches);
