//! Question: how many transactions of a Cosmos SDK chain does one core sign and check, and what does
//! that cost beside the signature itself?
//!
//! Unit: time for one; elements a second are transactions a second.
//!
//! Compared with, in the same run: `sign/raw` is libsecp256k1 signing 32 bytes, `sign/send` makes a
//! distinct MsgSend with its fee from the account's key to the bytes that are sent; `check/raw`
//! verifies a signature, `check/send` reads a transaction and verifies it. `accounts` makes keys.

use std::hint::black_box;

use bitcoin::secp256k1::{self, Secp256k1, SecretKey};
use cosmos::{Coin, Draft, Fee, Key, Keys, Message, Prefix, SignedTx, Signer, Signing};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const CHAIN: &str = "tide-1";

struct Sends {
    key: Key,
    to: Key,
    prefix: Prefix,
    fee: Fee,
    signing: Signing,
}

impl Sends {
    fn new() -> Self {
        let keys = Keys::from_seed(1);
        Self {
            key: keys.key(0).expect("a key"),
            to: keys.key(1).expect("a key"),
            prefix: Prefix::new("cosmos").expect("a prefix"),
            fee: Fee {
                coins: vec![Coin::new(2_000, "stake")],
                gas: 100_000,
            },
            signing: Signing::default(),
        }
    }

    fn sign(&mut self, sequence: u64, out: &mut Vec<u8>) {
        let coin = Coin::new(1, "stake");
        let (from, to) = (self.key.address(), self.to.address());
        let message = Message::send(&self.prefix, from, to, &coin);
        let draft = Draft::new(std::slice::from_ref(&message), &self.fee);
        let signer = Signer {
            key: &self.key,
            account_number: 12_345,
            sequence,
        };
        self.signing.sign(CHAIN, &draft, &signer, out);
    }
}

fn sign(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sign");
    group.throughput(Throughput::Elements(1));
    let (secp, secret) = (
        Secp256k1::new(),
        SecretKey::from_slice(&[7; 32]).expect("a key"),
    );
    let mut number = 0_u64;
    group.bench_function("raw", |bencher| {
        bencher.iter(|| {
            number += 1;
            let mut digest = [1; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            secp.sign_ecdsa(&secp256k1::Message::from_digest(digest), &secret)
        });
    });
    let (mut sends, mut out) = (Sends::new(), Vec::new());
    group.bench_function("send", |bencher| {
        bencher.iter(|| {
            number += 1;
            out.clear();
            sends.sign(number, &mut out);
            black_box(out.len())
        });
    });
    group.finish();
}

fn check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("check");
    group.throughput(Throughput::Elements(1));
    let (secp, secret) = (
        Secp256k1::new(),
        SecretKey::from_slice(&[7; 32]).expect("a key"),
    );
    let (digest, key) = (
        secp256k1::Message::from_digest([1; 32]),
        secret.public_key(&secp),
    );
    let signature = secp.sign_ecdsa(&digest, &secret);
    group.bench_function("raw", |bencher| {
        bencher.iter(|| secp.verify_ecdsa(&digest, &signature, &key));
    });
    let mut bytes = Vec::new();
    Sends::new().sign(3, &mut bytes);
    group.bench_function("send", |bencher| {
        bencher.iter(|| {
            let tx = SignedTx::read(&bytes).expect("a transaction");
            assert!(tx.is_signed_for(CHAIN, 12_345));
        });
    });
    group.finish();
}

fn accounts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("accounts");
    group.throughput(Throughput::Elements(1));
    let words = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
    let wallet = Keys::from_mnemonic(words, "m/44'/118'/0'/0").expect("a wallet");
    for (name, keys) in [("seed", Keys::from_seed(1)), ("mnemonic", wallet)] {
        let mut number = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                number += 1;
                keys.key(number).expect("a key").address()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, sign, check, accounts);
criterion_main!(benches);
