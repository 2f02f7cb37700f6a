//! Question: what does fairness cost for each write, with one client and with 100,000?
//!
//! Unit: time for 1,000 operations; elements a second are operations a second, on one thread.
//! - `turn`: one item popped and one pushed for the same client, with 4 items waiting of each of 1,
//!   1,000 or 100,000 clients, in random order of clients. Compared with: `fifo`, one `VecDeque` for
//!   all, which is fair to nobody; and `scan`, a queue for each client and a search for the least
//!   virtual finish time at each pop, as Kubernetes' fair queuing does (to 1,000 clients: beyond,
//!   it takes milliseconds for each).
//! - `stranger`: an item of a client that has nothing waiting, pushed and popped again, each time
//!   another of 100,000, before the backlog of 1,000 others.
//! - `refused`: an item of a client whose own queue is full.
//! - `gcra`: a token taken, or refused with the instant of the next. Compared with: `bucket`, tokens
//!   in a floating-point number, neither exact nor with an instant.
//! - `table`: a client's state found among 100,000 (`hit`), or made by forgetting another's (`miss`).
//!   Compared with: `hash_map`, the same found in std's HashMap, which grows for ever.
//! - `key`: an address made into a client's key.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fairq::{
    ClientKey, ClientTable, FairQueue, GcraLimit, GcraState, Item, KeyScheme, Neutral, QueueLimits,
    TableLimits, Weight,
};
use pacing::Nanos;

const OPERATIONS: u32 = 1_000;
const CLIENTS: u32 = 100_000;
const WAITING: usize = 4;

fn turns(c: &mut Criterion) {
    let mut group = c.benchmark_group("turn");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    for clients in [1, 1_000, CLIENTS] {
        let mut queue = filled(clients);
        group.bench_function(BenchmarkId::new("fairq", clients), |b| {
            b.iter(|| (0..OPERATIONS).for_each(|_| turn(&mut queue)));
        });
        let mut fifo: VecDeque<(ClientKey, u64)> = (0..clients * 4)
            .map(|n| (client(shuffled(n % clients, clients)), 0))
            .collect();
        group.bench_function(BenchmarkId::new("fifo", clients), |b| {
            b.iter(|| {
                for _ in 0..OPERATIONS {
                    let first = fifo.pop_front().expect("it is filled");
                    fifo.push_back(black_box(first));
                }
            });
        });
        if clients < CLIENTS {
            let mut scan = Scan::filled(clients);
            group.bench_function(BenchmarkId::new("scan", clients), |b| {
                b.iter(|| (0..OPERATIONS).for_each(|_| scan.turn()));
            });
        }
    }
    group.finish();
}

fn filled(clients: u32) -> FairQueue<u64> {
    let limits = QueueLimits {
        entries: 1 << 20,
        bytes: 1 << 32,
        ..QueueLimits::default()
    };
    let mut queue = FairQueue::new(limits, [1, 2]).expect("legal limits");
    for n in 0..clients * 4 {
        push(&mut queue, client(shuffled(n % clients, clients)));
    }
    queue
}

fn push(queue: &mut FairQueue<u64>, client: ClientKey) {
    let pushed = queue.push(client, 1, Weight::ONE, Item::new(0, 250));
    let _ = black_box(pushed);
}

fn turn(queue: &mut FairQueue<u64>) {
    let popped = queue.pop().expect("it is filled");
    push(queue, black_box(popped).client);
}

/// The virtual finish time of the first item of each queue, and its items.
struct Scan {
    queues: Vec<(u64, VecDeque<u64>)>,
}

impl Scan {
    fn filled(clients: u32) -> Self {
        let queue = |n| (u64::from(n), VecDeque::from([0; WAITING]));
        Self {
            queues: (0..clients).map(queue).collect(),
        }
    }

    fn turn(&mut self) {
        let least = self.queues.iter_mut().min_by_key(|(finish, _)| *finish);
        let (finish, queue) = least.expect("it is filled");
        *finish += 1_000_000;
        let first = queue.pop_front().expect("it is filled");
        queue.push_back(black_box(first));
    }
}

fn strangers(c: &mut Criterion) {
    let mut group = c.benchmark_group("push");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    let mut queue = filled(1_000);
    let mut n = 0;
    group.bench_function("stranger", |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                n = (n + 1) % CLIENTS;
                push(&mut queue, client(1_000_000 + shuffled(n, CLIENTS)));
                // Every seventeenth turn is an old one's, and is given back to it.
                while let Some(popped) = queue.pop() {
                    if popped.client >= client(1_000_000) {
                        break;
                    }
                    push(&mut queue, popped.client);
                }
            }
        });
    });
    while queue.backlog(&client(7)).entries < queue.limits().per_client {
        push(&mut queue, client(7));
    }
    group.bench_function("refused", |b| {
        b.iter(|| (0..OPERATIONS).for_each(|_| push(&mut queue, client(7))));
    });
    group.finish();
}

fn gcra(c: &mut Criterion) {
    let mut group = c.benchmark_group("gcra");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    let rate = "2000/s".parse().expect("a legal rate");
    let limit = GcraLimit::new(rate, Nanos::from_millis(20));
    for (name, gap_ns) in [("taken", 500_000), ("refused", 1)] {
        let mut state = GcraState::default();
        let mut now = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..OPERATIONS {
                    now += gap_ns;
                    let _ = black_box(limit.try_take(&mut state, Nanos::new(now)));
                }
            });
        });
    }
    let (mut tokens, mut last, mut now) = (40.0_f64, 0_u64, 0_u64);
    group.bench_function("bucket", |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                now += 500_000;
                tokens = (tokens + (now - last) as f64 * 2_000.0 / 1e9).min(40.0);
                last = now;
                if black_box(tokens) >= 1.0 {
                    tokens -= 1.0;
                }
            }
        });
    });
    group.finish();
}

/// What the sentinel's front door remembers: two buckets and two counts.
#[derive(Default)]
struct State {
    buckets: [GcraState; 2],
    connections: u32,
    waiting: u32,
}

impl Neutral for State {
    fn is_neutral(&self, now: Nanos) -> bool {
        let limit = GcraLimit::new("2000/s".parse().expect("a rate"), Nanos::from_millis(20));
        let full = |bucket| limit.ready(bucket, now) == limit.burst_tokens();
        self.connections == 0 && self.waiting == 0 && self.buckets.iter().all(full)
    }
}

fn table(c: &mut Criterion) {
    let mut group = c.benchmark_group("table");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    let mut table = ClientTable::<State>::new(TableLimits::default(), [1, 2]).expect("legal");
    let mut map: HashMap<ClientKey, State> = HashMap::new();
    for n in 0..CLIENTS {
        table.entry(client(n), Nanos::ZERO);
        map.insert(client(n), State::default());
    }
    let mut n = 0;
    group.bench_function("hit", |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                n = (n + 1) % CLIENTS;
                let entry = table.entry(client(shuffled(n, CLIENTS)), Nanos::ZERO);
                entry.state.waiting = black_box(0);
            }
        });
    });
    group.bench_function("hash_map", |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                n = (n + 1) % CLIENTS;
                map.entry(client(shuffled(n, CLIENTS))).or_default().waiting = black_box(0);
            }
        });
    });
    let mut stranger = CLIENTS;
    group.bench_function("miss", |b| {
        b.iter(|| {
            for _ in 0..OPERATIONS {
                stranger = stranger.wrapping_add(1);
                let entry = table.entry(client(stranger), Nanos::ZERO);
                entry.state.waiting = black_box(0);
            }
        });
    });
    group.finish();
}

fn keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("key");
    group.throughput(Throughput::Elements(u64::from(OPERATIONS)));
    let scheme = KeyScheme::default();
    group.bench_function("ipv4", |b| {
        b.iter(|| {
            for n in 0..OPERATIONS {
                black_box(scheme.key(IpAddr::from(Ipv4Addr::from_bits(black_box(n)))));
            }
        });
    });
    group.bench_function("ipv6", |b| {
        b.iter(|| {
            for n in 0..OPERATIONS {
                let bits = 0x2001_0db8_u128 << 96 | u128::from(black_box(n)) << 64;
                black_box(scheme.key(IpAddr::from(Ipv6Addr::from_bits(bits))));
            }
        });
    });
    group.finish();
}

fn client(n: u32) -> ClientKey {
    KeyScheme::default().key(IpAddr::from(Ipv4Addr::from_bits(n)))
}

/// Every number below `of` once, far from its neighbours.
fn shuffled(n: u32, of: u32) -> u32 {
    let spread = u64::from(n) * 7_919 % u64::from(of);
    u32::try_from(spread).expect("a remainder of 32 bits")
}

fn settings() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .nresamples(10_000)
}

criterion_group! {
    name = benches;
    config = settings();
    targets = turns, strangers, gcra, table, keys
}
criterion_main!(benches);
