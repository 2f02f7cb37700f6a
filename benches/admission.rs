//! Question: what does admission on several threads gain over one lock, and what does the filter cost
//! beside the check of signatures?
//!
//! - `claim`: a key of 32 random bytes claimed in a filter, 1 million of them in its 2^22 bits before it is
//!   cleared. Unit: time for 1,000 claims, on one thread. The fast filter with 1, 2 and 16 positions, with
//!   and without a secret, and the filters made of it; compared with: `exact`, std's hash set;
//!   `classic`, a Bloom filter of 16 murmur3 hashes and as many bits; `fastbloom`, the crate, likewise.
//! - `clear`: the fast filter forgets everything, once an epoch.
//! - `admit`: 2,000 transactions of two inputs, each with its signature, from the first submission to the
//!   last verdict. Elements a second are transactions a second. Parallel admission with 1 to as many
//!   validators as there are cores; compared with: `serial`, one lock around check and commit.
//!   `none` is parallel admission without a filter, which commits double spends: the filter's cost is
//!   what the others lose to it.
//! - `conflicts`: the same with as many per cent of the transactions spending what the one before spends.
//! - `chain`: the same in chains of so many unconfirmed transactions, which need as many epochs.
//! - `epoch`: the same with a longest time between commits, at 10 % conflicts.
//!
//! Before criterion's figures comes a table of one run of each case with what criterion does not count:
//! deferrals per accepted transaction, commits, and the 99th percentile from submission to verdict; and beside it the
//! filter's share of a transaction's processor time: its two claims beside its check, each on one thread.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use admission::coins::{self, Coin, Coins, Fate, GENESIS, Ledger, Witness};
use admission::{
    Counters, ExactSet, FastFilter, Filter, KeyBits, Layout, Pipeline, RollingFilter, Secret,
    Serial, Settings, Sharded, TwoGenerationFilter,
};
use bitcoin::secp256k1::{self, Message, Secp256k1, SecretKey, VerifyOnly};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

const CLAIMS: u32 = 1_000;
const TRANSACTIONS: u32 = 2_000;

/// A signature for each input.
#[derive(Clone)]
enum Proofs {
    Ecdsa([secp256k1::ecdsa::Signature; 2]),
    Ed25519([ed25519_dalek::Signature; 2]),
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Ecdsa,
    Ed25519,
}

/// What a payment carries: its signatures, and when it was submitted.
#[derive(Clone)]
struct Signed {
    proofs: Proofs,
    submitted: Instant,
}

type Payment = coins::Payment<Signed>;

/// Checks signatures, and says how long each payment waited for its verdict.
struct Signatures {
    secp: Secp256k1<VerifyOnly>,
    ecdsa: secp256k1::PublicKey,
    ed25519: VerifyingKey,
    decided: Sender<Duration>,
}

fn digest(id: u32, input: usize) -> [u8; 32] {
    Sha256::digest([id.to_le_bytes(), (input as u32).to_le_bytes()].concat()).into()
}

fn secret_key() -> SecretKey {
    SecretKey::from_slice(&[7; 32]).expect("the key is in range")
}

impl Signatures {
    fn new() -> (Coins<Self>, Receiver<Duration>) {
        let (decided, verdicts) = channel();
        let signatures = Self {
            secp: Secp256k1::verification_only(),
            ecdsa: secret_key().public_key(&Secp256k1::new()),
            ed25519: SigningKey::from_bytes(&[7; 32]).verifying_key(),
            decided,
        };
        (Coins(signatures), verdicts)
    }
}

impl Witness for Signatures {
    type Proof = Signed;

    fn proves(&self, tx: &Payment) -> bool {
        match &tx.proof.proofs {
            Proofs::Ecdsa(proofs) => proofs.iter().enumerate().all(|(input, proof)| {
                let message = Message::from_digest(digest(tx.id, input));
                self.secp.verify_ecdsa(&message, proof, &self.ecdsa).is_ok()
            }),
            Proofs::Ed25519(proofs) => proofs.iter().enumerate().all(|(input, proof)| {
                self.ed25519
                    .verify_strict(&digest(tx.id, input), proof)
                    .is_ok()
            }),
        }
    }

    fn decided(&self, tx: &Payment, _: Fate) {
        // Nobody waits any more once the case is over.
        let _ = self.decided.send(tx.proof.submitted.elapsed());
    }

    fn key(coin: Coin) -> KeyBits {
        key(u64::from(coin.0) << 32 | u64::from(coin.1))
    }
}

/// Uniformly distributed, as hashes are.
fn key(number: u64) -> KeyBits {
    let mut state = number;
    std::array::from_fn(|_| {
        state = (state ^ (state >> 29))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(1);
        (state >> 32) as u32
    })
}

/// Transactions of which so many per cent spend what the one before spends, in chains of a depth.
fn payments(scheme: Scheme, conflicts: u32, depth: u32) -> Vec<Payment> {
    let secp = Secp256k1::new();
    let signing = SigningKey::from_bytes(&[7; 32]);
    let mut all: Vec<Payment> = Vec::with_capacity(TRANSACTIONS as usize);
    for id in 1..=TRANSACTIONS {
        let spends = if id > 1 && id * 61 % 100 < conflicts {
            all[id as usize - 2].spends.clone()
        } else if !(id - 1).is_multiple_of(depth) {
            vec![(id - 1, 0), (id - 1, 1)]
        } else {
            vec![(GENESIS, 2 * id), (GENESIS, 2 * id + 1)]
        };
        let proofs = match scheme {
            Scheme::Ecdsa => Proofs::Ecdsa([0, 1].map(|input| {
                secp.sign_ecdsa(&Message::from_digest(digest(id, input)), &secret_key())
            })),
            Scheme::Ed25519 => {
                Proofs::Ed25519([0, 1].map(|input| signing.sign(&digest(id, input))))
            }
        };
        all.push(Payment {
            id,
            spends,
            proof: Signed {
                proofs,
                submitted: Instant::now(),
            },
        });
    }
    all
}

/// Without a filter: what the others are compared with. It lets both of two spends through.
struct NoFilter;

impl<K> Filter<K> for NoFilter {
    fn claim(&mut self, _: &K) -> bool {
        true
    }

    fn contains(&self, _: &K) -> bool {
        false
    }

    fn clear(&mut self) {}
}

/// As many bits as the fast filter, at positions of so many murmur3 hashes.
struct ClassicBloom {
    bits: Vec<u64>,
    hashes: u32,
}

impl ClassicBloom {
    fn new() -> Self {
        Self {
            bits: vec![0; (1 << 22) / 64],
            hashes: 16,
        }
    }
}

/// `MurmurHash3_x86_32` (Appleby) of eight words.
fn murmur3(key: &KeyBits, seed: u32) -> u32 {
    let mut hash = seed;
    for word in key {
        let mixed = word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        hash = (hash ^ mixed)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    hash ^= 32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

impl Filter<KeyBits> for ClassicBloom {
    fn claim(&mut self, key: &KeyBits) -> bool {
        let mut was_set = true;
        for number in 0..self.hashes {
            // Seeds as BIP 37 spaces them.
            let at = murmur3(key, number.wrapping_mul(0xfba4_c795)) as usize % (1 << 22);
            was_set &= self.bits[at / 64] >> (at % 64) & 1 == 1;
            self.bits[at / 64] |= 1 << (at % 64);
        }
        !was_set
    }

    fn contains(&self, _: &KeyBits) -> bool {
        false
    }

    fn clear(&mut self) {
        self.bits.fill(0);
    }
}

struct ModernBloom(fastbloom::BloomFilter);

impl ModernBloom {
    fn new() -> Self {
        Self(
            fastbloom::BloomFilter::with_num_bits(1 << 22)
                .seed(&7)
                .hashes(16),
        )
    }
}

impl Filter<KeyBits> for ModernBloom {
    fn claim(&mut self, key: &KeyBits) -> bool {
        !self.0.insert(key)
    }

    fn contains(&self, key: &KeyBits) -> bool {
        self.0.contains(key)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

fn fast(layout: Layout) -> FastFilter {
    FastFilter::new(layout).expect("the layout is legal")
}

fn secret(positions: usize) -> FastFilter {
    let secret = Secret::from_seed(7);
    fast(Layout::Secret { positions, secret })
}

fn claims(c: &mut Criterion) {
    let sixteen = || Layout::Gigablock2021 { positions: 16 };
    let filters: Vec<(&str, Box<dyn Filter<KeyBits>>)> = vec![
        ("fast-1", Box::new(fast(Layout::Gigablock2017 { word: 0 }))),
        (
            "fast-2",
            Box::new(fast(Layout::Gigablock2021 { positions: 2 })),
        ),
        ("fast-16", Box::new(fast(sixteen()))),
        ("fast-secret-16", Box::new(secret(16))),
        (
            "rolling-16",
            Box::new(RollingFilter::new(sixteen(), 0).expect("it is legal")),
        ),
        (
            "generations-16",
            Box::new(TwoGenerationFilter::new(fast(sixteen()), 100_000)),
        ),
        ("exact", Box::new(ExactSet::default())),
        (
            "exact-sharded",
            Box::new(Sharded::new((0..8).map(|_| ExactSet::default()))),
        ),
        ("classic-16", Box::new(ClassicBloom::new())),
        ("fastbloom-16", Box::new(ModernBloom::new())),
    ];
    let mut group = c.benchmark_group("claim");
    group.throughput(Throughput::Elements(u64::from(CLAIMS)));
    for (name, mut filter) in filters {
        let mut next = 0_u64;
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..CLAIMS {
                    next += 1;
                    if next.is_multiple_of(1_000_000) {
                        filter.clear();
                    }
                    black_box(filter.claim(&key(next)));
                }
            });
        });
    }
    group.finish();
    let mut filter = secret(16);
    c.bench_function("clear", |b| {
        b.iter(|| Filter::<KeyBits>::clear(&mut filter));
    });
}

fn settings(validators: usize, epoch: Duration) -> Settings {
    Settings {
        validators,
        epoch,
        ..Settings::default()
    }
}

/// What one run of a case counted, with the times from submission to verdict in ascending order.
struct Ran {
    took: Duration,
    counters: Counters,
    waits: Vec<Duration>,
}

fn parallel<F: Filter<KeyBits> + 'static>(txs: Vec<Payment>, filter: F, settings: Settings) -> Ran {
    let (payments, verdicts) = Signatures::new();
    let count = txs.len();
    let pipeline = Pipeline::start(payments, Ledger::genesis(), filter, settings);
    let started = Instant::now();
    for mut tx in txs {
        tx.proof.submitted = Instant::now();
        pipeline.submit(tx).expect("all fit");
    }
    let waits = verdicts.iter().take(count).collect();
    let took = started.elapsed();
    ran(took, pipeline.counters(), waits)
}

fn serial(txs: Vec<Payment>) -> Ran {
    let (payments, verdicts) = Signatures::new();
    let count = txs.len();
    let serial = Serial::new(payments, Ledger::genesis());
    let started = Instant::now();
    for mut tx in txs {
        tx.proof.submitted = started;
        serial.submit(tx);
    }
    let waits = verdicts.iter().take(count).collect();
    ran(started.elapsed(), serial.counters(), waits)
}

fn ran(took: Duration, counters: Counters, mut waits: Vec<Duration>) -> Ran {
    waits.sort_unstable();
    Ran {
        took,
        counters,
        waits,
    }
}

const EPOCH: Duration = Duration::from_millis(500);

/// A case: its name, its transactions, and how it is run.
type Case = (String, Vec<Payment>, Box<dyn Fn(Vec<Payment>) -> Ran>);

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn with_validators(validators: usize, epoch: Duration) -> Box<dyn Fn(Vec<Payment>) -> Ran> {
    Box::new(move |txs| parallel(txs, secret(16), settings(validators, epoch)))
}

fn admissions() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, scheme) in [("ecdsa", Scheme::Ecdsa), ("ed25519", Scheme::Ed25519)] {
        let txs = payments(scheme, 0, 1);
        cases.push((
            format!("admit/{name}/serial"),
            txs.clone(),
            Box::new(serial),
        ));
        for validators in 1..=cores() {
            let run = with_validators(validators, EPOCH);
            cases.push((
                format!("admit/{name}/parallel-{validators}"),
                txs.clone(),
                run,
            ));
        }
    }
    let txs = payments(Scheme::Ecdsa, 0, 1);
    let all = settings(cores(), EPOCH);
    let mut filter = |name: &str, run: Box<dyn Fn(Vec<Payment>) -> Ran>| {
        cases.push((format!("admit/filter/{name}"), txs.clone(), run));
    };
    filter("none", Box::new(move |txs| parallel(txs, NoFilter, all)));
    filter(
        "exact",
        Box::new(move |txs| parallel(txs, ExactSet::default(), all)),
    );
    filter("fast-1", Box::new(move |txs| parallel(txs, secret(1), all)));
    filter("fast-2", Box::new(move |txs| parallel(txs, secret(2), all)));
    filter(
        "fast-16",
        Box::new(move |txs| parallel(txs, secret(16), all)),
    );
    filter(
        "classic-16",
        Box::new(move |txs| parallel(txs, ClassicBloom::new(), all)),
    );
    filter(
        "fastbloom-16",
        Box::new(move |txs| parallel(txs, ModernBloom::new(), all)),
    );
    for conflicts in [0, 1, 10, 25, 50] {
        let txs = payments(Scheme::Ecdsa, conflicts, 1);
        cases.push((
            format!("conflicts/{conflicts}/serial"),
            txs.clone(),
            Box::new(serial),
        ));
        let run = with_validators(cores(), EPOCH);
        cases.push((format!("conflicts/{conflicts}/parallel"), txs, run));
    }
    for depth in [1, 5, 20, 50] {
        let txs = payments(Scheme::Ecdsa, 0, depth);
        cases.push((
            format!("chain/{depth}/serial"),
            txs.clone(),
            Box::new(serial),
        ));
        let run = with_validators(cores(), EPOCH);
        cases.push((format!("chain/{depth}/parallel"), txs, run));
    }
    let txs = payments(Scheme::Ecdsa, 10, 1);
    for epoch in [10, 100, 1_000, 5_000] {
        let run = with_validators(cores(), Duration::from_millis(epoch));
        cases.push((format!("epoch/{epoch}ms"), txs.clone(), run));
    }
    cases
}

fn admission(c: &mut Criterion) {
    let cases = admissions();
    println!(
        "{:28} {:>8} {:>10} {:>8} {:>9}",
        "case", "tx/s", "deferrals", "commits", "p99 ms"
    );
    for (name, txs, run) in &cases {
        let ran = run(txs.clone());
        let accepted = ran.counters.accepted.max(1) as f64;
        println!(
            "{name:28} {:8.0} {:10.3} {:8} {:9.1}",
            txs.len() as f64 / ran.took.as_secs_f64(),
            ran.counters.deferred as f64 / accepted,
            ran.counters.commits,
            1e3 * ran.waits[ran.waits.len() * 99 / 100].as_secs_f64(),
        );
    }
    print_share(&cases);
    let mut group = c.benchmark_group("admission");
    group.throughput(Throughput::Elements(u64::from(TRANSACTIONS)));
    group.sample_size(10);
    for (name, txs, run) in &cases {
        group.bench_with_input(BenchmarkId::from_parameter(name), txs, |b, txs| {
            b.iter_batched(|| txs.clone(), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// What a transaction's keys cost in the filter, as a share of that and of its check under one lock.
fn print_share(cases: &[Case]) {
    for scheme in ["ecdsa", "ed25519"] {
        let name = format!("admit/{scheme}/serial");
        let Some((_, txs, run)) = cases.iter().find(|(case, ..)| *case == name) else {
            continue;
        };
        let check = run(txs.clone()).took.as_secs_f64() / txs.len() as f64;
        for (name, mut filter) in [("fast-16", secret(16)), ("fast-2", secret(2))] {
            let keys: Vec<KeyBits> = (0..1_000_000).map(key).collect();
            let began = Instant::now();
            for key in &keys {
                black_box(filter.claim(key));
            }
            let claims = 2.0 * began.elapsed().as_secs_f64() / keys.len() as f64;
            println!(
                "filter {name} beside {scheme}: {:.0} ns of {:.1} us a transaction, {:.2} % of its processor time",
                claims * 1e9,
                (claims + check) * 1e6,
                100.0 * claims / (claims + check)
            );
        }
    }
}

criterion_group!(benches, claims, admission);
criterion_main!(benches);
