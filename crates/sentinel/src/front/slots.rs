//! How many connections there are, in all and of each client, and what work its messages make.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use fairq::{ClientKey, ClientTable, GcraLimit, Neutral, TableLimits};
use pacing::{Nanos, Rate};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::Limits;
use crate::refusal::{Reason, Refusal};
use crate::upstream::Bucket;

/// Counts connections. Clones share the count.
///
/// The table of clients cannot outgrow the connections that are open: a client without one has no
/// entry, so there is nothing to evict and nothing that eviction could forget.
#[derive(Clone, Debug)]
pub(crate) struct Slots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Connections in all, and of one client; of one behind a trusted proxy only its WebSockets count.
    most: usize,
    most_per_client: usize,
    /// New connections of a client, and of the IPv6 /48 around it.
    arrivals: [GcraLimit; 2],
    started: Instant,
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    rates: ClientTable<Rates>,
    total: usize,
    refusing: usize,
    /// Of clients, and of the IPv6 /48 around them.
    tiers: HashMap<ClientKey, usize>,
}

/// What a client has taken from its rates, or an IPv6 /48.
#[derive(Debug, Default)]
struct Rates {
    arrivals: Bucket,
    /// When all its work is paid for.
    paid_at: Nanos,
}

impl Neutral for Rates {
    fn is_neutral(&self, now: Nanos) -> bool {
        self.arrivals.is_neutral(now) && self.paid_at.saturating_add(WORK_BURST) <= now
    }
}

/// The work that a request or message of so many bytes makes: about a microsecond, and one for each KiB.
pub(crate) const fn work_of(bytes: usize) -> u64 {
    1 + (bytes >> 10) as u64
}

/// What a client pays for one unit of work that none of its other limits bounds: a thousand a second, five times
/// the reads that it may have, and a thousandth of a thread.
const WORK_PRICE: Nanos = Nanos::from_millis(1);
const SITE_WORK_PRICE: Nanos =
    Nanos::from_nanos(WORK_PRICE.as_nanos() / ClientKey::SITE_CLIENTS as u64);
/// The longest time that a client owes: its connections are bounded, and so are the answers that it is owed.
const MOST_DEBT: Nanos = Nanos::from_secs(10);
/// Work that may come at once, as time.
const WORK_BURST: Nanos = Nanos::from_secs(1);

impl Count {
    fn of(&self, tier: ClientKey) -> usize {
        self.tiers.get(&tier).copied().unwrap_or(0)
    }

    fn check(&self, client: ClientKey, mut most: usize) -> Result<(), Full> {
        for tier in client.tiers() {
            if self.of(tier) >= most {
                return Err(Full::Client);
            }
            most *= ClientKey::SITE_CLIENTS;
        }
        Ok(())
    }

    fn add(&mut self, client: ClientKey) {
        for tier in client.tiers() {
            *self.tiers.entry(tier).or_default() += 1;
        }
    }
}

/// Why a connection was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All connections are taken, or all but those kept for clients that have none.
    All,
    /// The client has as many as one may have.
    Client,
    /// The client opens them faster than one may.
    Rate,
}

impl Full {
    /// What the client is told.
    pub(crate) fn refusal(self) -> Refusal {
        let text = match self {
            Self::All => "all connections are taken",
            Self::Client => "this client has too many connections",
            Self::Rate => "this client opens connections too fast",
        };
        Refusal::new(Reason::Connections, text).retry_after(RETRY_AFTER)
    }
}

/// Connections end when their clients please; a second is a guess.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Seconds: the longest time after which a client may open all its connections at once again.
const LONGEST_BURST: f64 = 3_600.0;
/// Clients whose new connections are counted one by one; more share hashed counts.
const MOST_ARRIVALS: usize = 1 << 20;
/// The share of all connections, one in so many, that only clients without a connection get.
/// Without it a few clients at their own bound could lock everybody else out.
const RESERVE: usize = 16;
/// Connections beyond the bound that are answered with a refusal at one time; the others are closed
/// without sending a response.
const REFUSED_AT_ONCE: usize = 64;

impl Slots {
    /// No connection is open. `seed` has to be secret.
    ///
    /// # Errors
    /// More connections than can be told apart.
    pub(crate) fn new(limits: &Limits, seed: [u64; 2]) -> Result<Self, fairq::Error> {
        let rate = limits.connect_rate_per_client;
        let burst = limits.connections_per_client as f64 / rate.as_f64();
        let burst = Duration::from_secs_f64(burst.min(LONGEST_BURST)).into();
        let micros = rate.as_micros();
        let of_site = Rate::from_micros(micros.saturating_mul(ClientKey::SITE_CLIENTS as u64));
        let table = TableLimits {
            clients: limits.connections.clamp(1, MOST_ARRIVALS),
            ..TableLimits::default()
        };
        Ok(Self(Arc::new(Inner {
            most: limits.connections,
            most_per_client: limits.connections_per_client,
            arrivals: [rate, of_site.unwrap_or(rate)].map(|rate| GcraLimit::new(rate, burst)),
            started: Instant::now(),
            count: Mutex::new(Count {
                rates: ClientTable::new(table, seed)?,
                total: 0,
                refusing: 0,
                tiers: HashMap::new(),
            }),
        })))
    }

    /// Counts a connection of a client.
    ///
    /// # Errors
    /// There are too many; nothing was counted.
    pub(crate) fn enter(&self, client: ClientKey) -> Result<Slot, Full> {
        let mut count = self.0.count.lock();
        count.check(client, self.0.most_per_client)?;
        let reserve = self.0.most / RESERVE;
        let spare = if count.of(client) > 0 { reserve } else { 0 };
        if count.total >= self.0.most - spare {
            return Err(Full::All);
        }
        self.arrive(&mut count, client)?;
        count.add(client);
        count.total += 1;
        drop(count);
        Ok(self.slot(Some(client), Counted::Connection))
    }

    /// Counts a trusted proxy's connection, which belongs to no client.
    ///
    /// # Errors
    /// There are too many; nothing was counted.
    pub(crate) fn enter_proxy(&self) -> Result<Slot, Full> {
        let mut count = self.0.count.lock();
        if count.total >= self.0.most {
            return Err(Full::All);
        }
        count.total += 1;
        drop(count);
        Ok(self.slot(None, Counted::Connection))
    }

    /// Counts a connection that is already in against the client whose request it serves.
    ///
    /// # Errors
    /// The client has too many; nothing was counted.
    pub(crate) fn charge(&self, client: ClientKey) -> Result<Slot, Full> {
        let mut count = self.0.count.lock();
        count.check(client, self.0.most_per_client)?;
        count.add(client);
        drop(count);
        Ok(self.slot(Some(client), Counted::Charge))
    }

    /// Takes a new connection from its client's rate.
    fn arrive(&self, count: &mut Count, client: ClientKey) -> Result<(), Full> {
        let now = self.now();
        for (tier, rate) in client.tiers().zip(&self.0.arrivals) {
            let bucket = &mut count.rates.entry(tier, now).state.arrivals;
            bucket.take(rate, now, 1).map_err(|_| Full::Rate)?;
        }
        Ok(())
    }

    /// Takes work from the client's rate, even if it is not there yet: when it will be, if that is later.
    pub(crate) fn work(&self, client: ClientKey, units: u64) -> Option<Instant> {
        let mut count = self.0.count.lock();
        let now = self.now();
        let mut paid_at = Nanos::ZERO;
        for (tier, price) in client.tiers().zip([WORK_PRICE, SITE_WORK_PRICE]) {
            let rates = count.rates.entry(tier, now).state;
            let begin = rates.paid_at.max(now.saturating_sub(WORK_BURST));
            rates.paid_at = begin
                .saturating_add(price.saturating_mul(units))
                .min(now.saturating_add(MOST_DEBT));
            paid_at = paid_at.max(rates.paid_at);
        }
        drop(count);
        (paid_at > now).then(|| Instant::now() + Duration::from(paid_at.saturating_sub(now)))
    }

    /// Since the start, and so much longer that a burst may come at once.
    fn now(&self) -> Nanos {
        WORK_BURST.saturating_add(self.0.started.elapsed().into())
    }

    /// Room to tell one client that it was not let in; none if that many are being told.
    pub(crate) fn refuse(&self) -> Option<Slot> {
        let mut count = self.0.count.lock();
        if count.refusing >= REFUSED_AT_ONCE {
            return None;
        }
        count.refusing += 1;
        drop(count);
        Some(self.slot(None, Counted::Refusal))
    }

    /// Connections in all.
    pub(crate) fn total(&self) -> usize {
        self.0.count.lock().total
    }

    /// Connections of a client.
    pub(crate) fn of(&self, client: ClientKey) -> usize {
        self.0.count.lock().of(client)
    }

    fn slot(&self, client: Option<ClientKey>, held: Counted) -> Slot {
        Slot {
            slots: self.clone(),
            client,
            held,
        }
    }
}

/// One counted connection; dropping it counts it out.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    client: Option<ClientKey>,
    held: Counted,
}

/// What a slot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Connection,
    Charge,
    Refusal,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.slots.0.count.lock();
        match self.held {
            Counted::Connection => count.total -= 1,
            Counted::Refusal => count.refusing -= 1,
            Counted::Charge => {}
        }
        for tier in self.client.into_iter().flat_map(ClientKey::tiers) {
            if let Entry::Occupied(mut entry) = count.tiers.entry(tier) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fairq::KeyScheme;

    use super::*;

    fn client(last: u8) -> ClientKey {
        KeyScheme::default().key([192, 0, 2, last].into())
    }

    fn slots(connections: usize, connections_per_client: usize) -> Slots {
        slots_at("1000000/s", connections, connections_per_client)
    }

    fn slots_at(rate: &str, connections: usize, connections_per_client: usize) -> Slots {
        let limits = Limits {
            connections,
            connections_per_client,
            connect_rate_per_client: rate.parse().unwrap(),
            ..Limits::default()
        };
        Slots::new(&limits, [1, 2]).unwrap()
    }

    #[test]
    fn one_client_is_bounded_and_others_are_not_its_problem() {
        let slots = slots(100, 2);
        let first = slots.enter(client(1)).unwrap();
        let second = slots.enter(client(1)).unwrap();
        assert_eq!(slots.enter(client(1)).unwrap_err(), Full::Client);
        let other = slots.enter(client(2)).unwrap();
        drop(first);
        let third = slots.enter(client(1)).unwrap();
        assert_eq!((slots.total(), slots.of(client(1))), (3, 2));
        drop((second, third, other));
        assert_eq!(slots.total(), 0);
        assert!(slots.0.count.lock().tiers.is_empty());
    }

    #[test]
    fn the_last_connections_are_for_those_who_have_none() {
        let slots = slots(32, 1_000);
        let mut held: Vec<_> = (0..30).map(|_| slots.enter(client(1)).unwrap()).collect();
        assert_eq!(slots.enter(client(1)).unwrap_err(), Full::All);
        held.push(slots.enter(client(2)).unwrap());
        assert_eq!(slots.enter(client(2)).unwrap_err(), Full::All);
        held.push(slots.enter(client(3)).unwrap());
        assert_eq!(slots.enter(client(4)).unwrap_err(), Full::All);
        assert_eq!(slots.enter_proxy().unwrap_err(), Full::All);
        held.clear();
        drop(slots.enter_proxy().unwrap());
        assert_eq!(slots.total(), 0);
    }

    #[test]
    fn a_proxied_client_is_charged_without_counting_twice() {
        let slots = slots(10, 1);
        let _proxy = slots.enter_proxy().unwrap();
        let charge = slots.charge(client(1)).unwrap();
        assert_eq!(slots.charge(client(1)).unwrap_err(), Full::Client);
        assert_eq!(slots.total(), 1);
        drop(charge);
        assert_eq!(slots.of(client(1)), 0);
    }

    #[test]
    fn only_so_many_are_told() {
        let slots = slots(1, 1);
        let telling: Vec<_> = std::iter::from_fn(|| slots.refuse()).collect();
        assert_eq!(telling.len(), REFUSED_AT_ONCE);
        drop(telling);
        assert!(slots.refuse().is_some());
    }

    #[test]
    fn sharing_64_a_48_counts_as_a_few_clients() {
        let slots = slots(1_000, 10);
        let client =
            |net: u16| KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
        let held: Vec<_> = (0..100)
            .filter_map(|net| slots.enter(client(net)).ok())
            .collect();
        assert_eq!(held.len(), 10 * ClientKey::SITE_CLIENTS);
        assert_eq!(slots.charge(client(101)).unwrap_err(), Full::Client);
        drop(held);
        assert!(slots.0.count.lock().tiers.is_empty());
    }

    /// At 2b52556 each network of a /48 had a rate of its own, 65,536 of them.
    #[tokio::test(start_paused = true)]
    async fn sharing_86_the_connections_of_a_48_come_at_the_rate_of_a_few_clients() {
        let slots = slots_at("2/s", 1_000, 3);
        let client =
            |net: u16| KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
        let came = (0..1_000).filter(|net| slots.enter(client(*net)).is_ok());
        assert_eq!(came.count(), 3 * ClientKey::SITE_CLIENTS);
        tokio::time::advance(Duration::from_millis(500)).await;
        let came = (1_000..2_000).filter(|net| slots.enter(client(*net)).is_ok());
        assert_eq!(came.count(), ClientKey::SITE_CLIENTS);
    }

    #[tokio::test(start_paused = true)]
    async fn sharing_85_work_is_paid_for_by_its_client_and_its_48() {
        let slots = slots(1_000, 3);
        let start = Instant::now();
        let paid = |client, units| {
            let at = slots.work(client, units);
            at.map_or(0, |at| (at - start).as_millis())
        };
        assert_eq!(paid(client(1), 1_000), 0);
        // What is not there is owed; each who takes some waits for its own.
        assert_eq!((paid(client(1), 1), paid(client(1), 4)), (1, 5));
        assert_eq!(paid(client(2), 1_000), 0);
        let of_site = |net: u16| {
            let client = KeyScheme::default().key([0x2001, 0xdb8, 1, net, 0, 0, 0, 1].into());
            paid(client, 1_000)
        };
        let owed: Vec<_> = (0..6).map(of_site).collect();
        assert_eq!(owed, [0, 0, 0, 0, 250, 500]);
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(paid(client(1), 890), 0);
        assert_eq!((work_of(0), work_of(1_023), work_of(750_000)), (1, 1, 733));
    }

    #[tokio::test(start_paused = true)]
    async fn sharing_64_connections_come_at_a_rate() {
        let slots = slots_at("2/s", 100, 3);
        for _ in 0..3 {
            drop(slots.enter(client(1)).unwrap());
        }
        assert_eq!(slots.enter(client(1)).unwrap_err(), Full::Rate);
        drop(slots.enter(client(2)).unwrap());
        tokio::time::advance(Duration::from_millis(500)).await;
        drop(slots.enter(client(1)).unwrap());
        assert_eq!(slots.enter(client(1)).unwrap_err(), Full::Rate);
    }
}
