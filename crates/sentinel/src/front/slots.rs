//! How many connections there are, in all and of each client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairq::ClientKey;

use crate::refusal::{Reason, Refusal};

/// Counts connections. Clones share the count.
///
/// The table of clients cannot outgrow the connections that are open: a client without one has no
/// entry, so there is nothing to evict and nothing that eviction could forget.
#[derive(Clone, Debug)]
pub(crate) struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: SlotLimits,
    count: Mutex<Count>,
}

/// Bounds on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotLimits {
    /// In all. Choose it below the process's limit of open files.
    pub(crate) total: usize,
    /// Of one client. One behind a trusted proxy counts only its WebSockets.
    pub(crate) per_client: usize,
}

#[derive(Debug, Default)]
struct Count {
    total: usize,
    refusing: usize,
    clients: HashMap<ClientKey, usize>,
}

/// Why a connection was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All connections are taken, or all but those kept for clients that have none.
    All,
    /// The client has as many as one may have.
    Client,
}

impl Full {
    /// What the client is told.
    pub(crate) fn refusal(self) -> Refusal {
        let text = match self {
            Self::All => "all connections are taken",
            Self::Client => "this client has too many connections",
        };
        Refusal::new(Reason::Connections, text).retry_after(RETRY_AFTER)
    }
}

/// Connections end when their clients please; a second is a guess.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The share of all connections, one in so many, that only clients without a connection get.
/// Without it a few clients at their own bound could lock everybody else out.
const RESERVE: usize = 16;
/// Connections beyond the bound that are answered with a refusal at one time; the others are closed
/// without sending a response.
const REFUSED_AT_ONCE: usize = 64;

impl Slots {
    /// No connection is open.
    pub(crate) fn new(limits: SlotLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            count: Mutex::default(),
        }))
    }

    /// Counts a connection of a client.
    ///
    /// # Errors
    /// There are too many; nothing was counted.
    pub(crate) fn enter(&self, client: ClientKey) -> Result<Slot, Full> {
        let mut count = self.lock();
        let limits = self.0.limits;
        let total = count.total;
        let reserve = limits.total / RESERVE;
        let free = match count.clients.entry(client) {
            Entry::Occupied(entry) if *entry.get() >= limits.per_client => Err(Full::Client),
            Entry::Occupied(entry) if total < limits.total - reserve => {
                *entry.into_mut() += 1;
                Ok(())
            }
            Entry::Vacant(entry) if total < limits.total => {
                entry.insert(1);
                Ok(())
            }
            _ => Err(Full::All),
        };
        free?;
        count.total += 1;
        drop(count);
        Ok(self.slot(Some(client), Held::Connection))
    }

    /// Counts a trusted proxy's connection, which belongs to no client.
    ///
    /// # Errors
    /// There are too many; nothing was counted.
    pub(crate) fn enter_proxy(&self) -> Result<Slot, Full> {
        let mut count = self.lock();
        if count.total >= self.0.limits.total {
            return Err(Full::All);
        }
        count.total += 1;
        drop(count);
        Ok(self.slot(None, Held::Connection))
    }

    /// Counts a connection that is already in against the client it turned out to serve.
    ///
    /// # Errors
    /// The client has too many; nothing was counted.
    pub(crate) fn charge(&self, client: ClientKey) -> Result<Slot, Full> {
        let mut count = self.lock();
        let own = count.clients.get(&client).copied().unwrap_or(0);
        if own >= self.0.limits.per_client {
            return Err(Full::Client);
        }
        count.clients.insert(client, own + 1);
        drop(count);
        Ok(self.slot(Some(client), Held::Charge))
    }

    /// Room to tell one client that it was not let in; none if that many are being told.
    pub(crate) fn refuse(&self) -> Option<Slot> {
        let mut count = self.lock();
        if count.refusing >= REFUSED_AT_ONCE {
            return None;
        }
        count.refusing += 1;
        drop(count);
        Some(self.slot(None, Held::Refusal))
    }

    /// Connections in all.
    pub(crate) fn total(&self) -> usize {
        self.lock().total
    }

    /// Connections of a client.
    pub(crate) fn of(&self, client: ClientKey) -> usize {
        self.lock().clients.get(&client).copied().unwrap_or(0)
    }

    fn slot(&self, client: Option<ClientKey>, held: Held) -> Slot {
        Slot {
            slots: self.clone(),
            client,
            held,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        // A count is whole between any two statements, so a panic elsewhere leaves it usable.
        self.0.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One counted connection; dropping it counts it out.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Slots,
    client: Option<ClientKey>,
    held: Held,
}

/// What a slot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Connection,
    Charge,
    Refusal,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut count = self.slots.lock();
        match self.held {
            Held::Connection => count.total -= 1,
            Held::Refusal => count.refusing -= 1,
            Held::Charge => {}
        }
        if let Some(client) = self.client
            && let Entry::Occupied(mut entry) = count.clients.entry(client)
        {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
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

    fn slots(total: usize, per_client: usize) -> Slots {
        Slots::new(SlotLimits { total, per_client })
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
        assert!(slots.lock().clients.is_empty());
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
}
