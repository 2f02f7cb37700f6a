//! The table of what each client has taken, and what all have: data, and the one rule of sharing.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use arc_swap::ArcSwap;
use fairq::{ClientKey, ClientTable, GcraLimit, GcraState, Neutral, TableLimits};
use pacing::{Nanos, Rate};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Config;
use crate::refusal::{Reason, Refusal};

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
    /// Connections in all.
    pub(super) connections: usize,
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
        let fixed = &config.fixed;
        Self {
            connections: config.connections(),
            reads: fixed.reads_per_client,
            arrivals: rates(fixed.connect_rate_per_client, fixed.connect_burst),
            read_rate: rates(config.reads.rate_per_client, fixed.read_burst),
            key_rates: (config.known.read_rates())
                .map(|(client, rate)| (client, rates(rate, fixed.read_burst)))
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

/// What is counted while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A connection, or a request on one of a trusted proxy's.
    Connection,
    Read,
    /// A query of this client alone.
    Query,
    Subscription,
    /// A `broadcast_tx_commit` that is under way or waits for its block.
    Commit,
    /// A TLS handshake.
    Handshake,
}

pub(super) const KINDS: usize = 6;

impl Kind {
    /// The text for a client that has as many as it may.
    pub(super) fn refusal(self, held: u32) -> Refusal {
        let text = match self {
            Self::Connection => format!("this client has too many connections: {held}"),
            Self::Read => format!("{held} reads of this client are under way"),
            Self::Query => {
                format!("this client has brought {held} of the distinct queries already")
            }
            Self::Subscription => format!("this client has {held} subscriptions already"),
            Self::Commit => format!(
                "{held} broadcast_tx_commit calls of this client wait for a block; use broadcast_tx_sync"
            ),
            Self::Handshake => format!("{held} TLS handshakes of this client are under way"),
        };
        match self {
            Self::Read | Self::Commit => Refusal::new(Reason::Rate, text).retry_after(BUSY_PAUSE),
            Self::Connection | Self::Handshake => full(text),
            // They last for as long as the client wants.
            Self::Query | Self::Subscription => Refusal::new(Reason::Connections, text),
        }
    }
}

/// Of one client. It is forgotten with the rest of the client's state.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When it wrote last; 0 if it never did.
    pub(super) wrote_at: Nanos,
    /// The height of the node that it read from last, and when.
    height: u64,
    read_at: Nanos,
}

/// Where a client's reads should go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reader {
    /// It writes, or has subscriptions: to the node that has these.
    pub(crate) stays: bool,
    /// To a node of this height at least.
    pub(crate) height: u64,
}

impl Seen {
    /// It has read from a node of this height.
    pub(super) fn read(&mut self, height: u64, now: Nanos) {
        self.height = height.max(self.current(now));
        self.read_at = now;
    }

    /// Where its reads should go; it may have subscriptions.
    pub(super) fn reader(&self, is_subscribed: bool, now: Nanos) -> Reader {
        let wrote = self.wrote_at > Nanos::ZERO && now.saturating_sub(self.wrote_at) < WRITER_FOR;
        Reader {
            stays: wrote || is_subscribed,
            height: self.current(now),
        }
    }

    fn current(&self, now: Nanos) -> u64 {
        let is_recent = now.saturating_sub(self.read_at) < SEEN_FOR;
        if is_recent { self.height } else { 0 }
    }
}

/// Whether a client that holds `own` of `all` while so much is free keeps to its share; it may hold `least` in any case.
pub(super) const fn is_fair(own: usize, free: usize, all: usize, least: usize) -> bool {
    own <= least || own.saturating_add(all / RESERVE) <= free
}

/// What one client has taken, or the IPv6 /48 around it.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Of each [`Kind`].
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

/// Requests, messages and answers of more bytes are long work: some 30 µs of copying, decoding and hashing.
pub(crate) const LONG_BYTES: usize = 32 << 10;

/// What is done in a turn, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) struct Piece(pub(super) i64);

impl Piece {
    /// Long work, or all that goes between a WebSocket and the node.
    pub(crate) const LONG: Self = Self(BETWEEN_LOOKS);

    /// For a request, message or part of an answer of so many bytes.
    pub(crate) const fn of(bytes: usize) -> Self {
        if bytes > LONG_BYTES {
            Self::LONG
        } else {
            Self(1 + (bytes / UNIT_BYTES) as i64)
        }
    }
}

/// Units of work between two looks at the sockets: at a microsecond or less for each of the smallest messages
/// that is some 0.1 ms, as for long work of the smallest size.
pub(super) const BETWEEN_LOOKS: i64 = 128;
/// Bytes of one unit: another half of a microsecond.
const UNIT_BYTES: usize = 512;

/// The work that may be done before the sockets are looked at.
#[derive(Debug)]
pub(super) struct WorkPool {
    pub(super) at_once: i64,
    /// Units that are left; the last turn may take more than there are.
    pub(super) free: AtomicI64,
    /// None are left.
    pub(super) exhausted: Notify,
}

/// The connections that wait for a turn.
#[derive(Debug, Default)]
pub(super) struct TurnQueue {
    /// Bounded by the connections: each waits for one turn.
    pub(super) waiters: BTreeMap<Place, Waiter>,
    /// The virtual time: the place of the turn that was granted last.
    pub(super) clock: u64,
    pub(super) count: u64,
}

/// A place in the queue: the client's virtual time, and a number that no other place has.
pub(super) type Place = (u64, u64);

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) waker: Waker,
    pub(super) piece: Piece,
}

impl WorkPool {
    /// For so many threads.
    pub(super) fn new(threads: usize) -> Self {
        let at_once = i64::try_from(threads).unwrap_or(i64::MAX / BETWEEN_LOOKS) * BETWEEN_LOOKS;
        Self {
            at_once,
            free: AtomicI64::new(at_once),
            exhausted: Notify::new(),
        }
    }

    /// Takes a turn at this piece, if any work is left.
    pub(super) fn take(&self, piece: Piece) -> bool {
        let some_left = |free: i64| (free > 0).then(|| free - piece.0);
        let taken = (self.free).fetch_update(Ordering::Relaxed, Ordering::Relaxed, some_left);
        if taken.is_ok_and(|before| before <= piece.0) {
            self.exhausted.notify_one();
        }
        taken.is_ok()
    }
}

impl TurnQueue {
    /// A place at this virtual time, or at the present one if that is later.
    pub(super) fn push(&mut self, start: u64, waiter: Waiter) -> Place {
        self.count += 1;
        let place = (start.max(self.clock), self.count);
        self.waiters.insert(place, waiter);
        place
    }

    /// Grants turns while work is left: how much is left then.
    pub(super) fn grant(&mut self, mut free: i64) -> i64 {
        while free > 0
            && let Some((place, waiter)) = self.waiters.pop_first()
        {
            self.clock = place.0;
            free -= waiter.piece.0;
            waiter.waker.wake();
        }
        free
    }
}

impl Budget {
    /// Nothing is taken yet. `seed` has to be secret.
    ///
    /// # Panics
    /// With more clients than the table can number: the configuration refuses that.
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

/// The refusal of what is free again before long.
pub(super) fn full(text: impl Into<String>) -> Refusal {
    Refusal::new(Reason::Connections, text).retry_after(BUSY_PAUSE)
}

/// Work that may come at once, as time.
pub(super) const WORK_BURST: Nanos = Nanos::from_secs(1);
/// A read takes some milliseconds, and connections end when their clients please: a guess.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// The part of all there is, one in so many, that is left to clients that hold little.
pub(super) const RESERVE: usize = 16;
/// A transaction is in a block of every node by then.
const WRITER_FOR: Nanos = Nanos::from_secs(30);
/// What no node has reached by then was no height of this chain, or is lost.
pub(crate) const SEEN_FOR: Nanos = Nanos::from_secs(30);
