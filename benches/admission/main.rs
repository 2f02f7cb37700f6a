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
//! - `epoch`: the same with a longest time between commits, at 10 % conflicts, and so many transactions that it ends
//!   some five times.
//! - `flood`: printed only: so many spends of one output, and then 1,000 transactions that spend what nobody else
//!   does, of whom the 99th percentile is.
//!
//! - `steady`, printed only: an open load of several epochs, the 99th percentile of those without conflicts beside 0 to
//!   50 % with; and the rate beside threads that read the view, compared with threads that read one of their own.
//!
//! Before criterion's figures come the gain of validators over one lock, in rounds of all cases in turn, beside
//! the gain of as many threads that check signatures and do nothing else; then a table of one run of each case
//! with what criterion does not count: deferrals per accepted transaction, commits, and the 99th percentile
//! from submission to verdict; and the filter's share of a transaction's processor time: its two claims beside
//! its check, each on one thread. `cargo bench --bench admission -- none` prints these alone, in a minute.

#![allow(clippy::print_stdout)]

#[path = "../../crates/admission/tests/support/coins.rs"]
#[allow(dead_code, reason = "the tests of admission use the rest")]
mod coins;
mod filters;
mod gain;
mod payments;
mod runs;
mod steady;

use std::hint::black_box;
use std::time::{Duration, Instant};

use admission::{Filter, KeyBits, Layout};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use coins::ExactSet;
use filters::{ClassicBloom, ModernBloom, NoFilter, Sharded, TwoGenerations};
use payments::{Payment, Scheme, Wakes, flood, key, payments, some_payments};
use runs::{EPOCH, Run, cores, fast, parallel, secret, serial, settings, validators};

const CLAIMS: u32 = 1_000;

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
            "generations-16",
            Box::new(TwoGenerations::new(fast(sixteen()), 100_000)),
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

/// A case: its name, its transactions, and how it is run.
type Case = (String, Vec<Payment>, Run);

/// Only the last verdict wakes the submitter.
const WAKES: Wakes = Wakes::AtTheEnd;

fn admissions() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, scheme) in [("ecdsa", Scheme::Ecdsa), ("ed25519", Scheme::Ed25519)] {
        let txs = payments(scheme, 0, 1);
        cases.push((format!("admit/{name}/serial"), txs.clone(), serial(WAKES)));
        for count in 1..=cores() {
            let run = validators(count, EPOCH, WAKES);
            cases.push((format!("admit/{name}/parallel-{count}"), txs.clone(), run));
        }
    }
    let txs = payments(Scheme::Ecdsa, 0, 1);
    let all = settings(cores(), EPOCH);
    let mut filter = |name: &str, run: Run| {
        cases.push((format!("admit/filter/{name}"), txs.clone(), run));
    };
    filter(
        "none",
        Box::new(move |txs| parallel(txs, NoFilter, all, WAKES)),
    );
    filter(
        "exact",
        Box::new(move |txs| parallel(txs, ExactSet::default(), all, WAKES)),
    );
    for positions in [1, 2, 16] {
        let run: Run = Box::new(move |txs| parallel(txs, secret(positions), all, WAKES));
        filter(&format!("fast-{positions}"), run);
    }
    filter(
        "classic-16",
        Box::new(move |txs| parallel(txs, ClassicBloom::new(), all, WAKES)),
    );
    filter(
        "fastbloom-16",
        Box::new(move |txs| parallel(txs, ModernBloom::new(), all, WAKES)),
    );
    for conflicts in [0, 1, 10, 25, 50] {
        let txs = payments(Scheme::Ecdsa, conflicts, 1);
        cases.push((
            format!("conflicts/{conflicts}/serial"),
            txs.clone(),
            serial(WAKES),
        ));
        let run = validators(cores(), EPOCH, WAKES);
        cases.push((format!("conflicts/{conflicts}/parallel"), txs, run));
    }
    for depth in [1, 5, 20, 50] {
        let txs = payments(Scheme::Ecdsa, 0, depth);
        cases.push((format!("chain/{depth}/serial"), txs.clone(), serial(WAKES)));
        let run = validators(cores(), EPOCH, WAKES);
        cases.push((format!("chain/{depth}/parallel"), txs, run));
    }
    for (epoch, count) in [(10, 2_000), (100, 8_000), (500, 40_000)] {
        let txs = some_payments(count, Scheme::Ecdsa, 10, 1);
        let run = validators(cores(), Duration::from_millis(epoch), WAKES);
        cases.push((format!("epoch/{epoch}ms"), txs, run));
    }
    cases
}

/// Honest transactions of a flood.
const HONEST: u32 = 1_000;

fn floods() -> Vec<Case> {
    let case = |conflicts: u32| {
        let run = validators(cores(), EPOCH, WAKES);
        (format!("flood/{conflicts}"), flood(conflicts, HONEST), run)
    };
    [0, 1_000, 10_000, 50_000].map(case).into()
}

fn admission(c: &mut Criterion) {
    steady::print();
    gain::print();
    let cases = admissions();
    println!(
        "\n{:28} {:>8} {:>10} {:>8} {:>9}",
        "case", "tx/s", "deferrals", "commits", "p99 ms"
    );
    let floods = floods();
    for (at, (name, txs, run)) in cases.iter().chain(&floods).enumerate() {
        let mut ran = run(txs.clone());
        if at >= cases.len() {
            ran.waits.drain(..txs.len() - HONEST as usize);
        }
        ran.waits.sort_unstable();
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
    group.sample_size(10);
    for (name, txs, run) in &cases {
        group.throughput(Throughput::Elements(txs.len() as u64));
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
