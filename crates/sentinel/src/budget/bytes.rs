//! The account of all bytes that are buffered, and of each client's part of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairq::ClientKey;

use super::table::{Budget, BytePool, ByteUsage, RESERVE, State, is_fair};
use crate::config::Config;

/// Reserves buffered bytes for one holder: a client, or the proxy itself. Clones are the same holder's.
///
/// The bytes of all holders have a bound. Clients share them as they share all else (see [`budget`](super)); a client
/// that holds no more than 64 KiB may use the reserve as well. What the proxy holds is no client's share.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<ByteUsage>);

/// Bytes that a client may hold of the reserve: some requests of common size.
const SMALL: usize = 64 << 10;
/// Holders with a state of their own in an account that no clients share.
const FEW_HOLDERS: usize = 1_024;

impl Budget {
    /// The proxy's own account of buffered bytes.
    pub fn ledger(&self) -> Ledger {
        Ledger(Arc::new(ByteUsage::new(self, false, None)))
    }

    /// The holder of this client's bytes, or of those of the IPv6 /48 `client`: known as long as a clone of it lives.
    fn holder(
        &self,
        state: &mut State,
        client: ClientKey,
        site: Option<Arc<ByteUsage>>,
    ) -> Arc<ByteUsage> {
        let known = &mut state.clients.entry(client, self.now()).state.bytes;
        known.upgrade().unwrap_or_else(|| {
            let holder = Arc::new(ByteUsage::new(self, true, site));
            *known = Arc::downgrade(&holder);
            holder
        })
    }
}

impl ByteUsage {
    fn new(budget: &Budget, is_client: bool, site: Option<Arc<Self>>) -> Self {
        Self {
            budget: budget.clone(),
            bytes: AtomicUsize::new(0),
            is_client,
            site,
        }
    }

    fn pool(&self) -> &BytePool {
        &self.budget.0.bytes
    }

    /// Adds bytes to what it holds, if that is its share when so much is free.
    fn add(&self, more: usize, free: usize) -> bool {
        // Added before it is judged, so that none that come at the same time miss each other.
        let own = self.bytes.fetch_add(more, Ordering::Relaxed) + more;
        let all = self.pool().capacity;
        let is_fair = !self.is_client || is_fair(own, free, all, SMALL.min(all / RESERVE));
        let fits = is_fair && self.site.as_ref().is_none_or(|site| site.add(more, free));
        if !fits {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    fn subtract(&self, less: usize) {
        self.bytes.fetch_sub(less, Ordering::Relaxed);
        if let Some(site) = &self.site {
            site.subtract(less);
        }
    }

    fn take(&self, more: usize) -> bool {
        let pool = self.pool();
        let fitting = |held: usize| {
            let held = held.checked_add(more);
            held.filter(|held| *held <= pool.capacity)
        };
        let taken = (pool.held).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting);
        let Ok(before) = taken else {
            return false;
        };
        let fits = self.add(more, pool.capacity - before - more);
        if !fits {
            pool.held.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    fn give_back(&self, less: usize) {
        self.subtract(less);
        self.pool().held.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Ledger {
    /// An empty account of `capacity` bytes beside the clients' one, for few holders.
    pub fn new(capacity: usize) -> Self {
        let mut config = Config::default();
        config.buffer.bytes = capacity;
        config.fixed.clients_max = FEW_HOLDERS;
        Budget::new(&config, [1, 2]).ledger()
    }

    /// The same account, for what this client holds. Looks the client up: to be kept as long as it serves.
    pub fn of(&self, client: ClientKey) -> Self {
        let budget = &self.0.budget;
        let mut state = budget.0.state.lock();
        let site = client.tiers().nth(1);
        let site = site.map(|site| budget.holder(&mut state, site, None));
        Self(budget.holder(&mut state, client, site))
    }

    /// Sets bytes aside; `None` when they do not fit, or are more than the client's share.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let mut reservation = self.nothing();
        reservation.grow(bytes).then_some(reservation)
    }

    /// A reservation of no bytes, to be grown.
    pub fn nothing(&self) -> Reservation {
        Reservation {
            ledger: self.clone(),
            bytes: 0,
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.pool().held.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn capacity(&self) -> usize {
        self.0.pool().capacity
    }
}

/// Bytes set aside; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    ledger: Ledger,
    bytes: usize,
}

impl Reservation {
    /// How many.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The account it is in.
    pub(crate) const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Sets more aside; false, and nothing changes, when they do not fit.
    pub fn grow(&mut self, more: usize) -> bool {
        let fits = more == 0 || self.ledger.0.take(more);
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Makes it another holder's of the same account; false, and nothing changes, when it is more than that
    /// one's share.
    pub fn move_to(&mut self, holder: &Ledger) -> bool {
        let free = holder.capacity().saturating_sub(holder.used());
        if !Arc::ptr_eq(&self.ledger.0, &holder.0) {
            if self.bytes > 0 && !holder.0.add(self.bytes, free) {
                return false;
            }
            self.ledger.0.subtract(self.bytes);
            self.ledger = holder.clone();
        }
        true
    }

    /// Gives some back: `bytes` stay, if there were that many.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes -= less;
            self.ledger.0.give_back(less);
        }
    }

    /// Splits `bytes` off (or all there are) into a reservation of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            ledger: self.ledger.clone(),
            bytes,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_fits_beyond_the_bound_and_all_comes_back() {
        let ledger = Ledger::new(10);
        let mut first = ledger.reserve(6).unwrap();
        assert!(ledger.reserve(5).is_none());
        assert!(!first.grow(5));
        assert!(first.grow(4));
        let second = first.split(7);
        assert_eq!((first.bytes(), second.bytes(), ledger.used()), (3, 7, 10));
        drop(second);
        assert_eq!(ledger.used(), 3);
        drop(first);
        assert_eq!(ledger.used(), 0);
        assert!(ledger.reserve(usize::MAX).is_none());
    }

    fn client(text: &str) -> ClientKey {
        fairq::KeyScheme::default().key(text.parse().unwrap())
    }

    const MIB: usize = 1 << 20;

    #[test]
    fn sharing_61_one_client_gets_half_and_shares_shrink_as_others_come() {
        let ledger = Ledger::new(64 * MIB);
        let hog = |last: u8| {
            let mut held = ledger
                .of(client(&format!("192.0.2.{last}")))
                .reserve(0)
                .unwrap();
            while held.grow(MIB / 4) {}
            held
        };
        // All that is free, but for the reserve of 4 MiB.
        let first = hog(1);
        assert_eq!(first.bytes(), 30 * MIB);
        let second = hog(2);
        assert_eq!(second.bytes(), 15 * MIB);
        let third = hog(3);
        assert_eq!(third.bytes(), 7 * MIB + MIB / 2);
        drop(first);
        // Bytes that became free are for all that wait.
        assert!(hog(4).bytes() > 15 * MIB);
    }

    #[test]
    fn sharing_61_who_holds_little_finds_room_when_greedy_ones_do_not() {
        let ledger = Ledger::new(16 * MIB);
        let mut hogs = Vec::new();
        for last in 0..=255 {
            let mut held = ledger
                .of(client(&format!("198.51.100.{last}")))
                .reserve(0)
                .unwrap();
            while held.bytes() < 8 * MIB && held.grow(SMALL + 1) {}
            hogs.push(held);
        }
        let polite = ledger.of(client("192.0.2.1"));
        let held = polite.reserve(16 << 10).unwrap();
        assert!(polite.reserve(SMALL).is_none());
        // Addresses of one IPv6 site are no more than one client together.
        let site = |last: u16| ledger.of(client(&format!("2001:db8:1:{last:x}::1")));
        let from_site: Vec<_> = (0..100)
            .filter_map(|last| site(last).reserve(16 << 10))
            .collect();
        assert_eq!(from_site.len(), SMALL / (16 << 10));
        drop((held, hogs, from_site));
        assert_eq!(ledger.used(), 0);
        let of_polite = || {
            let state = ledger.0.budget.0.state.lock();
            let usage = state.clients.peek(&client("192.0.2.1"));
            usage.map(|usage| usage.bytes.strong_count())
        };
        assert_eq!(of_polite(), Some(1));
        drop(polite);
        assert_eq!(of_polite(), Some(0));
    }
}
