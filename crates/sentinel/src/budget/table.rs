//! The table of what each client has taken, and what all have: data, and no decisions.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use fairq::{ClientKey, ClientTable, GcraLimit, GcraState, Neutral, TableLimits};
use pacing::{Nanos, Rate};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::kind::{KINDS, Seen};
use super::turn_queue::{TurnQueue, WorkPool};
use crate::config::Config;

/// What clients have taken. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) bounds: ArcSwap<Bounds>,
    pub(super) started: Instant,
    pub(super) bytes: BytePool,
    pub(super) work: WorkPool,
    pub(super) state: Mutex<State>,
}

/// What the configuration sets.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Connections in all, and of one client.
    pub(super) connections: (usize, usize),
    /// Reads of one client under way.
    pub(super) reads: usize,
    /// New connections and reads of a client, and of the IPv6 /48 around it.
    pub(super) arrivals: [GcraLimit; 2],
    pub(super) read_rate: [GcraLimit; 2],
    /// Of clients whose keys have one of their own.
    pub(super) key_rates: HashMap<ClientKey, [GcraLimit; 2]>,
}

impl Bounds {
    fn new(config: &Config) -> Self {
        let (limits, reads) = (&config.limits, &config.reads);
        let rate = config.fixed.connect_rate_per_client;
        let burst = limits.connections_per_client as f64 / rate.as_f64();
        let burst = Duration::from_secs_f64(burst.min(LONGEST_BURST));
        Self {
            connections: (limits.connections, limits.connections_per_client),
            reads: config.fixed.reads_per_client,
            arrivals: rates(rate, burst),
            read_rate: rates(reads.rate_per_client, config.fixed.read_burst),
            key_rates: (config.known.read_rates())
                .map(|(client, rate)| (client, rates(rate, config.fixed.read_burst)))
                .collect(),
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) clients: ClientTable<Usage>,
    pub(super) connections: usize,
    pub(super) refusing: usize,
    pub(super) turns: TurnQueue,
}

/// What one client has taken, or the IPv6 /48 around it.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Of each [`Kind`](super::Kind).
    pub(super) held: [u32; KINDS],
    pub(super) arrivals: Bucket,
    pub(super) reads: Bucket,
    /// When all its work is paid for.
    pub(super) paid_at: Nanos,
    /// Its virtual time in the queue of turns, while it waits there.
    pub(super) next_turn: u64,
    pub(super) seen: Seen,
    /// The holder of its bytes, while there is one.
    pub(super) bytes: Weak<ByteUsage>,
}

impl Neutral for Usage {
    fn is_neutral(&self, now: Nanos) -> bool {
        let buckets = [self.arrivals.full_at, self.reads.full_at];
        let is_paid = self.paid_at.saturating_add(WORK_BURST) <= now;
        let holds_nothing = self.held == [0; KINDS] && self.bytes.strong_count() == 0;
        holds_nothing && is_paid && buckets.iter().all(|full_at| *full_at <= now)
    }
}

/// What one client has taken from a rate.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    pub(super) state: GcraState,
    /// When it will be full, if nothing more is taken.
    pub(super) full_at: Nanos,
}

impl Bucket {
    /// Takes so many tokens, or all there ever are if that is less.
    ///
    /// # Errors
    /// When there will be so many.
    pub(super) fn take(&mut self, rate: &GcraLimit, now: Nanos, count: u32) -> Result<(), Nanos> {
        let most = u32::try_from(rate.burst_tokens()).unwrap_or(u32::MAX);
        let taken = rate.try_take_many(&mut self.state, now, count.min(most));
        self.full_at = rate.next_at(&self.state, now, u32::MAX);
        taken
    }
}

/// What one holder has reserved. A connection keeps it, so that no request looks its client up.
#[derive(Debug)]
pub(super) struct ByteUsage {
    pub(super) budget: Budget,
    pub(super) bytes: AtomicUsize,
    /// Whether it may have a share only.
    pub(super) is_client: bool,
    /// The IPv6 /48 around a client.
    pub(super) site: Option<Arc<Self>>,
}

/// The bound of bytes, and how many are held in all.
#[derive(Debug)]
pub(super) struct BytePool {
    pub(super) capacity: usize,
    pub(super) held: AtomicUsize,
}

impl Budget {
    /// Nothing is taken yet. `seed` has to be secret.
    ///
    /// # Panics
    /// With more clients than can be told apart: the configuration refuses such a number.
    pub fn new(config: &Config, seed: [u64; 2]) -> Self {
        let table = TableLimits {
            clients: config.fixed.clients_max,
            ..TableLimits::default()
        };
        let clients = ClientTable::new(table, seed).expect("100,000 clients can be told apart");
        Self(Arc::new(Inner {
            bounds: ArcSwap::from_pointee(Bounds::new(config)),
            started: Instant::now(),
            bytes: BytePool {
                capacity: config.buffer.bytes,
                held: AtomicUsize::new(0),
            },
            work: WorkPool::new(config.listen.threads.count()),
            state: Mutex::new(State {
                clients,
                connections: 0,
                refusing: 0,
                turns: TurnQueue::default(),
            }),
        }))
    }

    /// Goes by the bounds of another configuration from now on. What is held beyond them is kept until it ends.
    pub(crate) fn follow(&self, config: &Config) {
        self.0.bounds.store(Arc::new(Bounds::new(config)));
    }

    /// Since the start, and so much longer that a burst of work may come at once.
    pub(super) fn now(&self) -> Nanos {
        WORK_BURST.saturating_add(self.0.started.elapsed().into())
    }
}

/// The rate of a client, and of an IPv6 /48.
fn rates(rate: Rate, burst: Duration) -> [GcraLimit; 2] {
    let micros = rate.as_micros();
    let of_site = Rate::from_micros(micros.saturating_mul(ClientKey::SITE_CLIENTS as u64));
    [rate, of_site.unwrap_or(rate)].map(|rate| GcraLimit::new(rate, burst.into()))
}

/// Seconds: the longest time after which a client may open all its connections at once again.
const LONGEST_BURST: f64 = 3_600.0;
/// Work that may come at once, as time.
pub(super) const WORK_BURST: Nanos = Nanos::from_secs(1);
