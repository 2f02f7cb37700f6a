//! What each client has taken of all that clients share, in one table: connections, reads, queries and
//! subscriptions while they last, its buffered bytes, its turns at the processor, and its rates of new connections, of
//! reads and of work.
//!
//! One rule (`is_fair`) shares what there is a number of, bytes included: a client may hold as much as
//! is free besides, less a reserve of a sixteenth, and a little in any case. So it gets half if it is alone, of `n` that want as
//! much each gets a part in `n + 1` (the dynamic thresholds of Choudhury and Hahne, 1998), and its share shrinks as
//! others need some. An IPv6 /48 gets no more than a client, and a few clients' worth of what is bounded for each.
//! Rates and turns are a client's virtual time, and that of the /48 around it.

mod bytes;
mod kind;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use fairq::{ClientKey, ClientTable, GcraLimit, GcraState, Neutral, SlotId, TableLimits};
use pacing::{Nanos, Rate};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::bytes::{BytePool, ByteUsage};
pub use self::bytes::{Ledger, Reservation};
use self::kind::{BUSY_PAUSE, KINDS, Seen};
pub(crate) use self::kind::{Kind, SEEN_FOR};
pub(crate) use self::turns::{LONG_BYTES, Piece, Turn};
use self::turns::{TurnQueue, WorkPool};
use crate::config::Config;
use crate::refusal::{Reason, Refusal};

/// What clients have taken. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    bounds: ArcSwap<Bounds>,
    started: Instant,
    bytes: BytePool,
    work: WorkPool,
    state: Mutex<State>,
}

/// What the configuration sets.
#[derive(Debug)]
struct Bounds {
    /// Connections in all, and of one client.
    connections: (usize, usize),
    /// Reads of one client under way.
    reads: usize,
    /// New connections and reads of a client, and of the IPv6 /48 around it.
    arrivals: [GcraLimit; 2],
    read_rate: [GcraLimit; 2],
    /// Of clients whose keys have one of their own.
    key_rates: HashMap<ClientKey, [GcraLimit; 2]>,
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
struct State {
    clients: ClientTable<Usage>,
    connections: usize,
    refusing: usize,
    turns: TurnQueue,
}

/// What one client has taken, or the IPv6 /48 around it.
#[derive(Debug, Default)]
struct Usage {
    /// Of each [`Kind`].
    held: [u32; KINDS],
    arrivals: Bucket,
    reads: Bucket,
    /// When all its work is paid for.
    paid_at: Nanos,
    /// Its virtual time in the queue of turns, while it waits there.
    next_turn: u64,
    seen: Seen,
    /// The holder of its bytes, while there is one.
    bytes: Weak<ByteUsage>,
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
struct Bucket {
    state: GcraState,
    /// When it will be full, if nothing more is taken.
    full_at: Nanos,
}

impl Bucket {
    /// Takes so many tokens, or all there ever are if that is less.
    ///
    /// # Errors
    /// When there will be so many.
    fn take(&mut self, rate: &GcraLimit, now: Nanos, count: u32) -> Result<(), Nanos> {
        let most = u32::try_from(rate.burst_tokens()).unwrap_or(u32::MAX);
        let taken = rate.try_take_many(&mut self.state, now, count.min(most));
        self.full_at = rate.next_at(&self.state, now, u32::MAX);
        taken
    }
}

/// Something of a client's, counted until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    /// Of the client, and of the IPv6 /48 around it.
    ids: [Option<SlotId>; 2],
    kind: Kind,
    total: Total,
}

/// What it counts as beside its client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Total {
    None,
    Connection,
    Refusal,
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
            bytes: BytePool::new(config.buffer.bytes),
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

    /// Counts a connection of a client.
    ///
    /// # Errors
    /// There are too many, or they come too fast.
    pub(crate) fn connect(&self, client: ClientKey) -> Result<Held, Refusal> {
        let bounds = self.0.bounds.load();
        let (all, most) = bounds.connections;
        let mut state = self.0.state.lock();
        let free = self.free(&state)?;
        let mut held = self.take(&mut state, client, Kind::Connection, (free, all, most))?;
        let now = self.now();
        for (tier, rate) in client.tiers().zip(&bounds.arrivals) {
            let bucket = &mut state.clients.entry(tier, now).state.arrivals;
            if bucket.take(rate, now, 1).is_err() {
                drop(state);
                return Err(full("this client opens connections too fast"));
            }
        }
        state.connections += 1;
        held.total = Total::Connection;
        Ok(held)
    }

    /// Counts a trusted proxy's connection, which belongs to no client.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn connect_proxy(&self) -> Result<Held, Refusal> {
        let mut state = self.0.state.lock();
        self.free(&state)?;
        state.connections += 1;
        Ok(self.of_nobody(Total::Connection))
    }

    /// Counts a connection that is already in against the client whose request it serves.
    ///
    /// # Errors
    /// The client has too many.
    pub(crate) fn request(&self, client: ClientKey) -> Result<Held, Refusal> {
        self.hold(client, Kind::Connection, UNSHARED)
    }

    /// Room to tell one client that it was not let in; none if that many are being told.
    pub(crate) fn refuse(&self) -> Option<Held> {
        let mut state = self.0.state.lock();
        (state.refusing < REFUSED_AT_ONCE).then(|| {
            state.refusing += 1;
            self.of_nobody(Total::Refusal)
        })
    }

    /// A part of a connection, which is counted already.
    pub(crate) fn counted_already(&self) -> Held {
        self.of_nobody(Total::None)
    }

    /// Connections in all.
    pub(crate) fn connections(&self) -> usize {
        self.0.state.lock().connections
    }

    /// Connections of a client.
    pub(crate) fn connections_of(&self, client: ClientKey) -> usize {
        self.held_by(client, Kind::Connection)
    }

    /// Takes `calls` from a client's rate of reads.
    pub(crate) fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        let (now, bounds) = (self.now(), self.0.bounds.load());
        let rates = if bounds.key_rates.is_empty() {
            &bounds.read_rate
        } else {
            (bounds.key_rates.get(&client)).unwrap_or(&bounds.read_rate)
        };
        let mut state = self.0.state.lock();
        for (tier, rate) in client.tiers().zip(rates) {
            let bucket = &mut state.clients.entry(tier, now).state.reads;
            bucket.take(rate, now, calls).map_err(|at| {
                let text = format!("more than {} reads of one client", rate.rate());
                let refusal = Refusal::new(Reason::Rate, text);
                if at == Nanos::MAX {
                    refusal
                } else {
                    refusal.retry_after(at.saturating_sub(now).into())
                }
            })?;
        }
        Ok(())
    }

    /// Takes work from the client's rate, even if it is not there yet: when it will be, if that is later.
    pub(crate) fn work(&self, client: ClientKey, units: u64) -> Option<Instant> {
        let mut state = self.0.state.lock();
        let now = self.now();
        let mut paid_at = Nanos::ZERO;
        for (tier, price) in client.tiers().zip([WORK_PRICE, SITE_WORK_PRICE]) {
            let usage = state.clients.entry(tier, now).state;
            let begin = usage.paid_at.max(now.saturating_sub(WORK_BURST));
            usage.paid_at = begin
                .saturating_add(price.saturating_mul(units))
                .min(now.saturating_add(MOST_DEBT));
            paid_at = paid_at.max(usage.paid_at);
        }
        drop(state);
        (paid_at > now).then(|| Instant::now() + Duration::from(paid_at.saturating_sub(now)))
    }

    /// Counts a subscription.
    pub(crate) fn subscribe(&self, client: ClientKey) -> Result<Held, Refusal> {
        self.hold(client, Kind::Subscription, UNSHARED)
    }

    /// Counts a TLS handshake.
    pub(crate) fn begin_handshake(&self, client: ClientKey) -> Result<Held, Refusal> {
        self.hold(client, Kind::Handshake, UNSHARED)
    }

    /// Reads of a client under way.
    #[cfg(test)]
    pub(crate) fn reads_of(&self, client: ClientKey) -> usize {
        self.held_by(client, Kind::Read)
    }

    fn held_by(&self, client: ClientKey, kind: Kind) -> usize {
        let state = self.0.state.lock();
        let held = |usage: &Usage| usage.held[kind as usize] as usize;
        state.clients.peek(&client).map_or(0, held)
    }

    /// Counts something of a client's; `free` and `all` are the places that all share.
    ///
    /// # Errors
    /// The client, or the IPv6 /48 around it, has so many, or its share.
    pub(crate) fn hold(
        &self,
        client: ClientKey,
        kind: Kind,
        (free, all): (usize, usize),
    ) -> Result<Held, Refusal> {
        let most = match kind {
            Kind::Connection => self.0.bounds.load().connections.1,
            Kind::Read => self.0.bounds.load().reads,
            Kind::Subscription => SUBSCRIPTIONS_PER_CLIENT,
            Kind::Handshake => HANDSHAKES_PER_CLIENT,
            Kind::Query | Kind::Commit => all,
        };
        self.take(&mut self.0.state.lock(), client, kind, (free, all, most))
    }

    /// Counts something of a client, which may have `most`, when so many of all are free.
    ///
    /// # Errors
    /// It has so many, or its share, or the IPv6 /48 around it has.
    fn take(
        &self,
        state: &mut State,
        client: ClientKey,
        kind: Kind,
        (free, all, most): (usize, usize, usize),
    ) -> Result<Held, Refusal> {
        let now = self.now();
        let mut ids = [None; 2];
        let bounds = [most, most.saturating_mul(ClientKey::SITE_CLIENTS)];
        for ((tier, most), id) in client.tiers().zip(bounds).zip(&mut ids) {
            let entry = state.clients.entry(tier, now);
            let held = entry.state.held[kind as usize];
            let own = held as usize + 1;
            if own > most || !is_fair(own, free.saturating_sub(1), all, LEAST) {
                return Err(kind.refusal(held));
            }
            *id = Some(entry.id);
        }
        for id in ids.into_iter().flatten() {
            if let Some(usage) = state.clients.get_mut(id) {
                usage.held[kind as usize] += 1;
            }
        }
        Ok(Held {
            budget: self.clone(),
            ids,
            kind,
            total: Total::None,
        })
    }

    fn of_nobody(&self, total: Total) -> Held {
        Held {
            budget: self.clone(),
            ids: [None; 2],
            kind: Kind::Connection,
            total,
        }
    }

    /// How many more connections there may be.
    fn free(&self, state: &State) -> Result<usize, Refusal> {
        let (all, _) = self.0.bounds.load().connections;
        let free = all.saturating_sub(state.connections);
        match free {
            0 => Err(full("all connections are taken")),
            free => Ok(free),
        }
    }

    /// Since the start, and so much longer that a burst of work may come at once.
    fn now(&self) -> Nanos {
        WORK_BURST.saturating_add(self.0.started.elapsed().into())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.budget.0.state.lock();
        match self.total {
            Total::None => {}
            Total::Connection => state.connections -= 1,
            Total::Refusal => state.refusing -= 1,
        }
        for id in self.ids.into_iter().flatten() {
            // A state in use is not neutral, so it is still there.
            if let Some(usage) = state.clients.get_mut(id) {
                let held = &mut usage.held[self.kind as usize];
                *held = held.saturating_sub(1);
            }
        }
    }
}

/// Whether one who holds `own` of `all` while so much is free keeps to its share; it may hold `least` in any case.
const fn is_fair(own: usize, free: usize, all: usize, least: usize) -> bool {
    own <= least || own.saturating_add(all / RESERVE) <= free
}

/// The work that a request or message of so many bytes makes: about a microsecond, and one for each KiB.
pub(crate) const fn work_of(bytes: usize) -> u64 {
    1 + (bytes >> 10) as u64
}

fn full(text: &'static str) -> Refusal {
    Refusal::new(Reason::Connections, text).retry_after(BUSY_PAUSE)
}

/// The rate of a client, and of an IPv6 /48.
fn rates(rate: Rate, burst: Duration) -> [GcraLimit; 2] {
    let micros = rate.as_micros();
    let of_site = Rate::from_micros(micros.saturating_mul(ClientKey::SITE_CLIENTS as u64));
    [rate, of_site.unwrap_or(rate)].map(|rate| GcraLimit::new(rate, burst.into()))
}

/// The part of all there is, one in so many, that is left to clients that hold little.
const RESERVE: usize = 16;
/// What a client may have while there is any.
const LEAST: usize = 2;
/// What is bounded for each client alone.
const UNSHARED: (usize, usize) = (usize::MAX, 0);
/// Subscriptions of one client over all its WebSockets: each costs a copy of every event.
const SUBSCRIPTIONS_PER_CLIENT: usize = 128;
/// TLS handshakes of one client under way: a half of the new connections that it may open in a second, as each takes
/// some round trips.
pub(crate) const HANDSHAKES_PER_CLIENT: usize = 250;
/// Seconds: the longest time after which a client may open all its connections at once again.
const LONGEST_BURST: f64 = 3_600.0;
/// Connections beyond the bound that are answered with a refusal at one time; the others are closed
/// without sending a response.
const REFUSED_AT_ONCE: usize = 64;
/// What a client pays for one unit of work that none of its other limits bounds: a thousand a second, five times
/// the reads that it may have, and a thousandth of a thread.
const WORK_PRICE: Nanos = Nanos::from_millis(1);
const SITE_WORK_PRICE: Nanos =
    Nanos::from_nanos(WORK_PRICE.as_nanos() / ClientKey::SITE_CLIENTS as u64);
/// The longest time that a client owes: its connections are bounded, and so are the answers that it is owed.
const MOST_DEBT: Nanos = Nanos::from_secs(10);
/// Work that may come at once, as time.
const WORK_BURST: Nanos = Nanos::from_secs(1);

#[cfg(test)]
mod tests;
