//! Question: what do BEP-10's two loops cost here, and signing and checking the CREATE of 765 bytes
//! that BEP-23 sends?
//!
//! Unit: time for one; elements a second are transactions (or fulfillments) a second.
//!
//! Compared with, each for one pass of the loop:
//! - `fulfillment`: parse and serialise the fulfillment of BEP-10. Published for 100,000: Python
//!   22.658 s (227 µs each), Go 0.578 s (5.8 µs each).
//! - `schema`: the CREATE of BEP-10 from its text against the schema. Published for 100,000: Python
//!   76 s (760 µs each), Go about 5 s (50 µs each; the text has the fulfillment's figure by mistake);
//!   measured on two slow cores 8 to 10 s for Go, 120 to 130 s for Python.
//! - `sign`: `raw` is `ed25519-dalek` signing 32 bytes; the others make distinct CREATEs of 765 bytes.
//! - `validate`: everything, from text to verdict, one CREATE of 765 bytes. Python without cache and
//!   database: 2.4 to 2.6 ms. `raw` is `ed25519-dalek` verifying one signature.
//! - `block_of_512`: the signatures of 512 CREATEs of 512 signers, one by one and together.
//! - `text`: the canonical text and the id of the CREATE of 765 bytes; `hash` is SHA3-256 alone.

#[path = "bigchain/route.rs"]
mod route;

use std::hint::black_box;

use bigchain::json::{Object, Value, canonical, parse};
use bigchain::schema::accepts;
use bigchain::{
    Create, CreateTemplate, Fulfillment, Id, KeyPair, MemoryLedger, Output, SignatureBatch,
    Transaction,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ed25519_dalek::{Signer, SigningKey};
use route::JsonSchema;
use sha3::{Digest, Sha3_256};

const EXTERNAL: &str = include_str!("../crates/bigchain/tests/vectors/external.json");

/// The CREATE that BEP-10's loops use.
fn bep10_create() -> Value {
    let vectors = parse(EXTERNAL.as_bytes()).expect("the vectors are JSON");
    let first = vectors.as_array().and_then(<[Value]>::first);
    let create = first.and_then(|vector| vector.get("tx"));
    create.expect("the first vector has a transaction").clone()
}

fn pair(seed: u64) -> KeyPair {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    KeyPair::from_seed(bytes)
}

/// Metadata as the benchmark of BEP-23 makes it: 36 characters, different each time.
fn metadata(index: u64) -> Object {
    Object::new().with("_", format!("{index:08x}-7dec-41d0-a765-00a0c91e6bf6"))
}

fn create_text(signer: &KeyPair, index: u64) -> String {
    let mut text = String::new();
    let template = CreateTemplate::new(signer.clone(), None).expect("one owner, amount 1");
    template.sign(&metadata(index), &mut text);
    text
}

fn read(text: &str) -> Transaction {
    Transaction::from_text(text.as_bytes()).expect("a valid transaction")
}

fn fulfillment(c: &mut Criterion) {
    let create = bep10_create();
    let input = create.get("inputs").and_then(Value::as_array);
    let input = input.and_then(<[Value]>::first);
    let text = input.and_then(|input| input.get("fulfillment")?.as_str());
    let text = text.expect("the transaction is signed");
    let mut group = c.benchmark_group("fulfillment");
    group.throughput(Throughput::Elements(1));
    group.bench_function("compatible", |b| {
        b.iter(|| {
            let read = Fulfillment::from_uri(black_box(text));
            read.expect("a fulfillment").to_uri()
        });
    });
    group.finish();
}

fn schema(c: &mut Criterion) {
    let create = bep10_create();
    let text = bigchain::json::default_text(&create);
    let schema = JsonSchema::new();
    let mut group = c.benchmark_group("schema");
    group.throughput(Throughput::Elements(1));
    group.bench_function("typed_from_text", |b| {
        b.iter(|| accepts(&parse(black_box(text.as_bytes())).expect("JSON")));
    });
    group.bench_function("typed_alone", |b| b.iter(|| accepts(black_box(&create))));
    group.bench_function("jsonschema_from_text", |b| {
        b.iter(|| {
            let body = serde_json::from_str(black_box(&text)).expect("JSON");
            schema.accepts(&body)
        });
    });
    group.finish();
}

fn sign(c: &mut Criterion) {
    let signer = pair(1);
    let key = SigningKey::from_bytes(&[1; 32]);
    let template = CreateTemplate::new(signer.clone(), None).expect("one owner, amount 1");
    let output = Output::to(&[signer.public()], 1).expect("one owner, amount 1");
    let mut group = c.benchmark_group("sign");
    group.throughput(Throughput::Elements(1));
    group.bench_function("raw", |b| b.iter(|| key.sign(black_box(&[7; 32]))));
    let mut index = 0;
    let mut text = String::with_capacity(1024);
    group.bench_function("template", |b| {
        b.iter(|| {
            index += 1;
            text.clear();
            template.sign(&metadata(index), &mut text)
        });
    });
    group.bench_function("builder", |b| {
        b.iter(|| {
            index += 1;
            let create = Create::new()
                .metadata(metadata(index))
                .signer(signer.public())
                .output(output.clone());
            create.sign(&[&signer]).expect("the key is there").text()
        });
    });
    group.finish();
}

fn validate(c: &mut Criterion) {
    let key = SigningKey::from_bytes(&[1; 32]);
    let (verifying, signature) = (key.verifying_key(), key.sign(&[7; 32]));
    let text = create_text(&pair(1), 1);
    let ledger = MemoryLedger::default();
    let mut group = c.benchmark_group("validate");
    group.throughput(Throughput::Elements(1));
    group.bench_function("raw", |b| {
        b.iter(|| verifying.verify_strict(black_box(&[7; 32]), &signature));
    });
    group.bench_function("compatible", |b| {
        b.iter(|| {
            let read = Transaction::from_text(black_box(text.as_bytes()));
            read.expect("a valid transaction").validate(&ledger)
        });
    });
    group.bench_function("without_signature", |b| b.iter(|| read(black_box(&text))));
    group.finish();
}

fn block(c: &mut Criterion) {
    let block: Vec<Transaction> = (0..512)
        .map(|index| read(&create_text(&pair(index), index)))
        .collect();
    let mut group = c.benchmark_group("block_of_512");
    group.throughput(Throughput::Elements(512));
    group.sample_size(20);
    group.bench_function("one_by_one", |b| {
        b.iter(|| block.iter().all(|tx| tx.check_signatures(&[]).is_ok()));
    });
    group.bench_function("together", |b| {
        b.iter(|| {
            let mut batch = SignatureBatch::new();
            for transaction in &block {
                batch.push(transaction, &[]);
            }
            batch.verify().iter().all(Result::is_ok)
        });
    });
    group.finish();
}

fn text(c: &mut Criterion) {
    let create = read(&create_text(&pair(1), 1));
    let body = Value::Object(create.body().clone());
    let canonical_text = canonical(&body);
    let mut group = c.benchmark_group("text");
    group.throughput(Throughput::Bytes(canonical_text.len() as u64));
    group.bench_function("canonical", |b| b.iter(|| canonical(black_box(&body))));
    group.bench_function("id", |b| b.iter(|| Id::of(black_box(create.body()))));
    group.bench_function("hash", |b| {
        b.iter(|| Sha3_256::digest(black_box(canonical_text.as_bytes())));
    });
    group.finish();
}

criterion_group!(benches, fulfillment, schema, sign, validate, block, text);
criterion_main!(benches);
