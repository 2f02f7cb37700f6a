//! What one client may use of the read lane and of the relays.

use std::sync::Arc;
use std::time::Duration;

use fairq::{ClientKey, ClientTable, GcraLimit, GcraState, Neutral, SlotId, TableLimits};
use pacing::{Nanos, Rate};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::config::Config;
use crate::refusal::{Reason, Refusal};

/// The limits and what each client has used of them.
#[derive(Debug)]
pub(super) struct ClientLimits {
    rate: GcraLimit,
    /// Of an IPv6 /48.
    site_rate: GcraLimit,
    reads: u32,
    clock: Clock,
    table: Mutex<ClientTable<Usage>>,
}

/// What one client has used, or the IPv6 /48 around it.
#[derive(Debug, Default)]
struct Usage {
    bucket: Bucket,
    /// Of each [`Kind`].
    slots: [u32; 4],
}

impl Neutral for Usage {
    fn is_neutral(&self, now: Nanos) -> bool {
        self.slots == [0; 4] && self.bucket.is_neutral(now)
    }
}

/// What one client has taken from a rate.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    state: GcraState,
    /// When it will be full, if nothing more is taken.
    full_at: Nanos,
}

impl Bucket {
    /// Takes so many tokens, or all there ever are if that is less.
    ///
    /// # Errors
    /// When there will be so many.
    pub(crate) fn take(&mut self, rate: &GcraLimit, now: Nanos, count: u32) -> Result<(), Nanos> {
        let most = u32::try_from(rate.burst_tokens()).unwrap_or(u32::MAX);
        let taken = rate.try_take_many(&mut self.state, now, count.min(most));
        self.full_at = rate.next_at(&self.state, now, u32::MAX);
        taken
    }
}

impl Neutral for Bucket {
    fn is_neutral(&self, now: Nanos) -> bool {
        self.full_at <= now
    }
}

/// What a [`ClientSlot`] counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Relay,
    Query,
    Subscription,
}

impl Kind {
    /// What a client is told that has `most` of them.
    fn refusal(self, most: u32) -> Refusal {
        let text = match self {
            Self::Read => {
                let text = format!("{most} reads of this client are under way");
                return Refusal::new(Reason::Rate, text).retry_after(BUSY_PAUSE);
            }
            Self::Relay => format!("{most} WebSockets of this client use the node already"),
            Self::Query => {
                format!("this client has brought {most} of the distinct queries already")
            }
            Self::Subscription => format!("this client has {most} subscriptions already"),
        };
        Refusal::new(Reason::Connections, text)
    }
}

/// A read, a relay, a query or a subscription of a client, counted until dropped.
#[derive(Debug)]
pub(super) struct ClientSlot {
    limits: Arc<ClientLimits>,
    /// Of the client, and of the IPv6 /48 around it.
    ids: [Option<SlotId>; 2],
    kind: Kind,
}

impl ClientLimits {
    /// Limits of which nothing is used yet.
    ///
    /// # Errors
    /// A table size out of range.
    pub(super) fn new(config: &Config, clock: Clock, seed: [u64; 2]) -> Result<Self, fairq::Error> {
        let reads = &config.reads;
        let limits = TableLimits {
            clients: config.fair.clients_max,
            ..TableLimits::default()
        };
        let burst = reads.burst_per_client.into();
        let micros = reads.rate_per_client.as_micros();
        let site_rate = Rate::from_micros(micros.saturating_mul(ClientKey::SITE_CLIENTS as u64));
        let site_rate = site_rate.unwrap_or(reads.rate_per_client);
        Ok(Self {
            rate: GcraLimit::new(reads.rate_per_client, burst),
            site_rate: GcraLimit::new(site_rate, burst),
            reads: u32::try_from(reads.concurrency_per_client).unwrap_or(u32::MAX),
            clock,
            table: Mutex::new(ClientTable::new(limits, seed)?),
        })
    }

    /// Takes `calls` from a client's rate.
    pub(super) fn admit(&self, client: ClientKey, calls: u32) -> Result<(), Refusal> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        for (tier, rate) in client.tiers().zip([&self.rate, &self.site_rate]) {
            let taken = table.entry(tier, now).state.bucket.take(rate, now, calls);
            taken.map_err(|at| {
                let text = format!("more than {} reads of one client", rate.rate());
                let refusal = Refusal::new(Reason::Rate, text);
                match at == Nanos::MAX {
                    true => refusal,
                    false => refusal.retry_after(at.saturating_sub(now).into()),
                }
            })?;
        }
        Ok(())
    }

    /// Counts a read until the slot is dropped; `free` and `all` are the places that all share.
    pub(super) fn enter(
        self: &Arc<Self>,
        client: ClientKey,
        (free, all): (usize, usize),
    ) -> Result<ClientSlot, Refusal> {
        self.take(client, Kind::Read, share(free, all).min(self.reads))
    }

    /// Counts a relay until the slot is dropped; `free` and `all` are the places that all share.
    pub(super) fn open_relay(
        self: &Arc<Self>,
        client: ClientKey,
        (free, all): (usize, usize),
    ) -> Result<ClientSlot, Refusal> {
        let most = share(free, all).min(RELAYS_PER_CLIENT);
        self.take(client, Kind::Relay, most)
    }

    /// Counts a query that nobody else has until the slot is dropped; `free` and `all` are the queries
    /// that all share.
    pub(super) fn open_query(
        self: &Arc<Self>,
        client: ClientKey,
        (free, all): (usize, usize),
    ) -> Result<ClientSlot, Refusal> {
        self.take(client, Kind::Query, share(free, all))
    }

    /// Counts a subscription until the slot is dropped.
    pub(super) fn subscribe(self: &Arc<Self>, client: ClientKey) -> Result<ClientSlot, Refusal> {
        self.take(client, Kind::Subscription, SUBSCRIPTIONS_PER_CLIENT)
    }

    /// Reads of a client under way.
    #[cfg(test)]
    pub(super) fn reads_of(&self, client: ClientKey) -> u32 {
        let reads = |usage: &Usage| usage.slots[Kind::Read as usize];
        self.table.lock().peek(&client).map_or(0, reads)
    }

    /// A slot of a client that may have `most`.
    ///
    /// # Errors
    /// It has so many, or the IPv6 /48 around it.
    fn take(
        self: &Arc<Self>,
        client: ClientKey,
        kind: Kind,
        most: u32,
    ) -> Result<ClientSlot, Refusal> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        let mut ids = [None; 2];
        let bounds = [most, most.saturating_mul(ClientKey::SITE_CLIENTS as u32)];
        for ((tier, most), id) in client.tiers().zip(bounds).zip(&mut ids) {
            let entry = table.entry(tier, now);
            if entry.state.slots[kind as usize] >= most {
                return Err(kind.refusal(most));
            }
            *id = Some(entry.id);
        }
        for id in ids.into_iter().flatten() {
            if let Some(usage) = table.get_mut(id) {
                usage.slots[kind as usize] += 1;
            }
        }
        Ok(ClientSlot {
            limits: Arc::clone(self),
            ids,
            kind,
        })
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut table = self.limits.table.lock();
        for id in self.ids.into_iter().flatten() {
            // A state in use is not neutral, so it is still there.
            if let Some(usage) = table.get_mut(id) {
                let slots = &mut usage.slots[self.kind as usize];
                *slots = slots.saturating_sub(1);
            }
        }
    }
}

/// What one client may have of `all` places of which so many are free: as many as are free besides, less
/// a sixteenth, so that its share shrinks as others need some; and a few in any case.
fn share(free: usize, all: usize) -> u32 {
    let share = free.saturating_sub(all / 16 + 1);
    u32::try_from(share).unwrap_or(u32::MAX).max(LEAST_PLACES)
}

/// Places that a client may have while there are any.
const LEAST_PLACES: u32 = 2;
/// WebSockets of one client that may have a connection to a node: a quarter of all there may be.
const RELAYS_PER_CLIENT: u32 = 128;
/// Subscriptions of one client over all its WebSockets: each costs a copy of every event.
const SUBSCRIPTIONS_PER_CLIENT: u32 = 128;
/// A read takes some milliseconds; whoever has too many under way may try again soon.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_64_the_reads_of_a_48_are_those_of_a_few_clients() {
        let mut config = Config::default();
        config.reads.concurrency_per_client = 8;
        config.reads.rate_per_client = "0.001/s".parse().unwrap();
        config.reads.burst_per_client = Duration::from_secs(10_000);
        let limits = Arc::new(ClientLimits::new(&config, Clock::start(), [1, 2]).unwrap());
        let client =
            |net: u16| fairq::KeyScheme::default().key([0x2001, 0xdb8, 7, net, 0, 0, 0, 1].into());
        let held: Vec<_> = (0..100)
            .filter_map(|net| limits.enter(client(net), (256, 256)).ok())
            .collect();
        assert_eq!(held.len(), 8 * ClientKey::SITE_CLIENTS);
        drop(held);
        assert!(limits.enter(client(100), (256, 256)).is_ok());
        let admitted = (0..100)
            .filter(|net| limits.admit(client(*net), 10).is_ok())
            .count();
        assert_eq!(admitted, ClientKey::SITE_CLIENTS);
    }

    /// At 2b52556 eight addresses held all 256 places.
    #[test]
    fn sharing_88_the_places_of_a_client_shrink_as_others_need_some() {
        let limits =
            Arc::new(ClientLimits::new(&Config::default(), Clock::start(), [1, 2]).unwrap());
        let client = |last| fairq::KeyScheme::default().key([192, 0, 2, last].into());
        let mut held = Vec::new();
        let mut take = |from: u8| {
            let before = held.len();
            while let Ok(slot) = limits.enter(client(from), (256 - held.len(), 256)) {
                held.push(slot);
            }
            held.len() - before
        };
        let taken: Vec<_> = (0..8).map(&mut take).collect();
        assert_eq!(taken, [32, 32, 32, 32, 32, 32, 24, 12]);
        // Whoever comes then still has some.
        assert_eq!((take(100), take(101), take(102)), (6, 3, 2));
    }
}
