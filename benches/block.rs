//! Question: how long does the follower take to turn the answer to `block` into transaction hashes,
//! for blocks of 1,000 and 5,000 transactions of 250 bytes?
//!
//! Unit: time for each block; elements a second are transactions a second.
//! The decoder is not public, so it is measured where it is: `client_block` is `Client::block` against
//! a server in this process that answers from memory, one connection. Compared with `client_skip`, the
//! same call that reads the answer and skips its result (transport and one pass over the JSON: the
//! difference is the decoding), `serde_json_value` (value tree, base64 and SHA-256 from memory, no
//! transport) and `hashes_alone` (base64 and SHA-256: what cannot be saved).

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use chain_cometbft::Client;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rpc::Endpoint;
use serde::de::IgnoredAny;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidegate::canned;
use tokio::runtime::{Builder, Runtime};

fn block_to_hashes(c: &mut Criterion) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    for count in [1_000, 5_000] {
        let txs = transactions(count);
        let answer = canned::block_answer(&txs);
        let address = canned::serve(answer.as_bytes()).expect("a free port");
        let client = client(address);
        let mut group = c.benchmark_group(format!("block_of_{count}"));
        group.throughput(Throughput::Elements(count));
        group.bench_function("client_block", |b| {
            b.iter(|| through_the_client(&runtime, &client, count));
        });
        group.bench_function("client_skip", |b| {
            b.iter(|| {
                runtime
                    .block_on(client.call::<IgnoredAny>("block", "{}"))
                    .expect("an answer")
            });
        });
        group.bench_function("serde_json_value", |b| {
            b.iter(|| from_value(answer.as_bytes()));
        });
        group.bench_function("hashes_alone", |b| {
            b.iter(|| {
                txs.iter()
                    .map(|tx| hash(tx))
                    .fold(0, |sum, hash| sum ^ hash[0])
            });
        });
        group.finish();
    }
}

fn through_the_client(runtime: &Runtime, client: &Client, count: u64) {
    let block = runtime.block_on(client.block(7)).expect("a block");
    assert_eq!(block.hashes.len() as u64, count);
}

fn from_value(answer: &[u8]) -> Vec<[u8; 32]> {
    let value: Value = serde_json::from_slice(black_box(answer)).expect("an answer");
    let txs = value["result"]["block"]["data"]["txs"]
        .as_array()
        .expect("a list");
    txs.iter().filter_map(Value::as_str).map(hash).collect()
}

fn hash(tx: &str) -> [u8; 32] {
    let bytes = base64_simd::STANDARD.decode_to_vec(tx).expect("base64");
    Sha256::digest(&bytes).into()
}

fn client(address: SocketAddr) -> Client {
    let endpoint: Endpoint = format!("http://{address}").parse().expect("an endpoint");
    Client::new(&endpoint, Duration::from_secs(5)).expect("a client")
}

fn transactions(count: u64) -> Vec<String> {
    (0..count)
        .map(|index| {
            let bytes = Sha256::digest(index.to_le_bytes()).repeat(8);
            base64_simd::STANDARD.encode_to_string(&bytes[..250])
        })
        .collect()
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = settings(); targets = block_to_hashes }
criterion_main!(benches);
