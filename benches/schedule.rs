//! Question: what does the next due time cost, for each profile and for each kind of arrivals?
//!
//! Unit: nanoseconds for each due time (criterion prints the time of 10,000 and elements a second).
//! Compared with: `adding_the_interval`, the loop that adds a rounded interval to the last due time.
//! It drifts, follows no profile and is the least a generator can do. A sender at 100,000/s has
//! 10,000 ns for each transaction.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pacing::{Arrivals, Nanos, Profile, ProfileError, Rate, Schedule, SignedRate};

/// Due times in each measured pass; every profile has about as many.
const ITEMS: usize = 10_000;

fn profiles(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule_next");
    group.throughput(Throughput::Elements(ITEMS as u64));
    group.bench_function("adding_the_interval", |b| {
        b.iter(|| {
            let mut due = 0_u64;
            for _ in 0..ITEMS {
                due = black_box(due + 1_000_000);
            }
            due
        });
    });
    for profile in all().expect("the profiles are legal") {
        let name = profile.name().to_owned();
        let shard = Schedule::new(profile, Arrivals::Even).iter();
        group.bench_function(name, |b| b.iter(|| drain(shard.clone())));
    }
    group.finish();
}

fn arrivals(c: &mut Criterion) {
    let mut group = c.benchmark_group("arrivals_next");
    group.throughput(Throughput::Elements(ITEMS as u64));
    let ten = NonZeroU32::new(10).expect("not zero");
    for arrivals in [
        Arrivals::Even,
        Arrivals::Poisson { seed: 7 },
        Arrivals::Burst { size: ten },
    ] {
        let profile = Profile::constant(rate("10000/s"), None).expect("a legal profile");
        let schedule = Schedule::new(profile, arrivals);
        let whole = schedule.iter();
        group.bench_function(arrivals.to_string(), |b| {
            b.iter(|| drain(whole.clone()));
        });
        let fourth = schedule.shard(1, NonZeroU32::new(4).expect("not zero"));
        group.bench_function(format!("{arrivals}_one_of_four_shards"), |b| {
            b.iter(|| drain(fourth.clone()));
        });
    }
    group.finish();
}

/// The due time of any index, without the ones before it.
fn random_access(c: &mut Criterion) {
    let mut group = c.benchmark_group("schedule_due");
    group.throughput(Throughput::Elements(1));
    for profile in all().expect("the profiles are legal") {
        let name = profile.name().to_owned();
        let schedule = Schedule::new(profile, Arrivals::Even);
        let mut i = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                i = (i + 7_919) % 9_000;
                schedule.due(black_box(i))
            });
        });
    }
    group.finish();
}

fn drain(shard: pacing::Shard) -> Nanos {
    let mut last = Nanos::ZERO;
    for due in shard.take(ITEMS) {
        last = black_box(due.at);
    }
    last
}

/// One of each shape, each with about [`ITEMS`] transactions.
fn all() -> Result<Vec<Profile>, ProfileError> {
    let seconds = Nanos::from_secs;
    let constant = Profile::constant(rate("1000/s"), Some(seconds(10)))?;
    Ok(vec![
        constant.clone(),
        Profile::steps(
            rate("100/s"),
            SignedRate::rise(rate("200/s")),
            seconds(1),
            Some(rate("1900/s")),
        )?,
        Profile::linear(rate("0/s"), rate("2000/s"), seconds(10))?,
        Profile::exponential(rate("100/s"), rate("3600/s"), seconds(10))?,
        Profile::square(
            rate("2000/s"),
            Rate::ZERO,
            seconds(1),
            seconds(1),
            NonZeroU32::new(5).expect("not zero"),
        )?,
        Profile::sine(rate("1000/s"), rate("900/s"), seconds(5), seconds(10))?,
        Profile::trace(
            (0..10).map(|second| (seconds(second), rate(&format!("{}/s", 550 + 100 * second)))),
            None,
        )?,
        Profile::phases([
            Profile::linear(rate("0/s"), rate("1000/s"), seconds(10))?,
            Profile::constant(rate("1000/s"), Some(seconds(5)))?,
        ])?,
    ])
}

fn rate(text: &str) -> Rate {
    text.parse().expect("a legal rate")
}

/// Short, because there are many: an answer to within some percent.
fn settings() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .nresamples(10_000)
}

criterion_group! { name = benches; config = settings(); targets = profiles, arrivals, random_access }
criterion_main!(benches);
