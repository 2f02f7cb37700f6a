//! How many connections there are, in all and of each client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use fairq::{ClientKey, ClientTable, GcraLimit, TableLimits};
use pacing::Nanos;
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
    arrivals: GcraLimit,
    started: Instant,
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    arrivals: ClientTable<Bucket>,
    total: usize,
    refusing: usize,
    /// Of clients, and of the IPv6 /48 around them.
    tiers: HashMap<ClientKey, usize>,
}

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
        let burst = Duration::from_secs_f64(burst.min(LONGEST_BURST));
        let table = TableLimits {
            clients: limits.connections.clamp(1, MOST_ARRIVALS),
            ..TableLimits::default()
        };
        Ok(Self(Arc::new(Inner {
            most: limits.connections,
            most_per_client: limits.connections_per_client,
            arrivals: GcraLimit::new(rate, burst.into()),
            started: Instant::now(),
            count: Mutex::new(Count {
                arrivals: ClientTable::new(table, seed)?,
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
        let now = Nanos::from(self.0.started.elapsed());
        let bucket = count.arrivals.entry(client, now).state;
        bucket
            .take(&self.0.arrivals, now, 1)
            .map_err(|_| Full::Rate)?;
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

    /// Counts a connection that is already in against the client it turned out to serve.
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
