//! One account of all bytes that are buffered, and of who holds them.

use std::collections::HashMap;
use std::iter::successors;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use fairq::ClientKey;
use parking_lot::Mutex;

use crate::budget::{RESERVE, is_fair};

/// Counts the bytes of everything that is buffered, up to a bound, and shares them between clients.
/// Clones share the account.
///
/// They are shared as all else is (see [`budget`](crate::budget)); a client that holds no more than 64 KiB may use
/// the reserve as well.
#[derive(Clone, Debug)]
pub struct Ledger(Holder);

/// Whose bytes are reserved.
#[derive(Clone, Debug)]
enum Holder {
    /// The proxy's own.
    Proxy(Arc<Account>),
    /// A client's.
    Client(Arc<Tier>),
}

#[derive(Debug)]
struct Account {
    capacity: usize,
    /// Bytes that are held in all.
    held: AtomicUsize,
    /// Who may hold some: one entry for each client with a [`Ledger`] of its own, so connections bound it.
    tiers: Mutex<HashMap<ClientKey, Weak<Tier>>>,
}

/// What a client holds, or an IPv6 /48. A connection keeps it, so that no request looks it up.
#[derive(Debug)]
struct Tier {
    key: ClientKey,
    account: Arc<Account>,
    bytes: AtomicUsize,
    wider: Option<Arc<Self>>,
}

/// Bytes that a client may hold of the reserve: some requests of common size.
const SMALL: usize = 64 << 10;

impl Ledger {
    /// An empty account of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self(Holder::Proxy(Arc::new(Account {
            capacity,
            held: AtomicUsize::new(0),
            tiers: Mutex::default(),
        })))
    }

    /// The same account, for what this client holds. Looks the client up: to be kept as long as it serves.
    pub fn of(&self, client: ClientKey) -> Self {
        let account = self.account();
        let tier = Tier::find(
            account,
            &mut account.tiers.lock(),
            client,
            client.tiers().nth(1),
        );
        Self(Holder::Client(tier))
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
        self.account().held.load(Ordering::Relaxed)
    }

    /// The bound.
    pub fn capacity(&self) -> usize {
        self.account().capacity
    }

    /// Whether two handles are one holder's.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.tiers()
            .map(|tier| tier.key)
            .eq(other.tiers().map(|tier| tier.key))
    }

    fn account(&self) -> &Arc<Account> {
        match &self.0 {
            Holder::Proxy(account) => account,
            Holder::Client(tier) => &tier.account,
        }
    }

    /// Whose account it is, and the /48 around it.
    fn tiers(&self) -> impl Iterator<Item = &Tier> {
        let client = match &self.0 {
            Holder::Proxy(_) => None,
            Holder::Client(tier) => Some(&**tier),
        };
        successors(client, |tier| tier.wider.as_deref())
    }

    fn take(&self, more: usize) -> bool {
        let account = self.account();
        let fitting = |held: usize| {
            held.checked_add(more)
                .filter(|held| *held <= account.capacity)
        };
        let Ok(before) = (account.held).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fitting)
        else {
            return false;
        };
        let is_fair = self.add(more, account.capacity - before - more);
        if !is_fair {
            account.held.fetch_sub(more, Ordering::Relaxed);
        }
        is_fair
    }

    /// Adds bytes to what the holder has, if that is its share when so much is free.
    fn add(&self, more: usize, free: usize) -> bool {
        let mut is_fair = true;
        for tier in self.tiers() {
            // Added before it is judged, so that none that come at the same time miss each other.
            let own = tier.bytes.fetch_add(more, Ordering::Relaxed) + more;
            is_fair &= self.account().is_fair(own, free);
        }
        if !is_fair {
            self.subtract(more);
        }
        is_fair
    }

    fn subtract(&self, less: usize) {
        for tier in self.tiers() {
            tier.bytes.fetch_sub(less, Ordering::Relaxed);
        }
    }

    fn give_back(&self, less: usize) {
        self.subtract(less);
        self.account().held.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Account {
    /// Whether one who holds so much, when so much is free, keeps to its share.
    fn is_fair(&self, own: usize, free: usize) -> bool {
        let least = SMALL.min(self.capacity / RESERVE);
        is_fair(own, free, self.capacity, least)
    }
}

impl Tier {
    /// Of a client, or of the /48 around it.
    fn find(
        account: &Arc<Account>,
        known: &mut HashMap<ClientKey, Weak<Self>>,
        key: ClientKey,
        wider: Option<ClientKey>,
    ) -> Arc<Self> {
        if let Some(tier) = known.get(&key).and_then(Weak::upgrade) {
            return tier;
        }
        let tier = Arc::new(Self {
            key,
            account: Arc::clone(account),
            bytes: AtomicUsize::new(0),
            wider: wider.map(|wider| Self::find(account, known, wider, None)),
        });
        known.insert(key, Arc::downgrade(&tier));
        tier
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        let mut tiers = self.account.tiers.lock();
        // The client may have come back in the meantime.
        let known = tiers.get(&self.key);
        if known.is_some_and(|tier| tier.strong_count() == 0) {
            tiers.remove(&self.key);
        }
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
        let fits = more == 0 || self.ledger.take(more);
        if fits {
            self.bytes += more;
        }
        fits
    }

    /// Makes it another holder's of the same account; false, and nothing changes, when it is more than that
    /// one's share.
    pub fn move_to(&mut self, holder: &Ledger) -> bool {
        let free = holder.capacity().saturating_sub(holder.used());
        if !self.ledger.is(holder) {
            if self.bytes > 0 && !holder.add(self.bytes, free) {
                return false;
            }
            self.ledger.subtract(self.bytes);
            self.ledger = holder.clone();
        }
        true
    }

    /// Gives some back: `bytes` stay, if there were that many.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes -= less;
            self.ledger.give_back(less);
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
        // What has become free is for all who want it.
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
        assert_eq!(ledger.account().tiers.lock().len(), 1);
        drop(polite);
        assert!(ledger.account().tiers.lock().is_empty());
    }
}
