//! What is remembered about each client, in a table that cannot grow.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use pacing::Nanos;

use crate::{
    Error, check_limit,
    key::{ClientKey, KeyedHash},
};

/// State that can be forgotten without giving its client credit.
pub trait Neutral: Default {
    /// Whether this state is as good as a new one: its buckets are full, and it has no connections
    /// and nothing waiting. Once neutral, it stays so until it is changed.
    fn is_neutral(&self, now: Nanos) -> bool;
}

base::settings! {
    /// The bounds of a [`ClientTable`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TableLimits {
        /// Clients with a state of their own, 1 to 16,777,216: as many as are seen within the time that
        /// a bucket takes to fill.
        pub clients: usize = 100_000,
        /// Shared states, for clients without a state of their own, 1 to 65,536.
        pub shared: usize = 1_024,
    }
}

/// How many states a newcomer looks at for one that can be forgotten.
const SEARCH: usize = 16;

/// A state for each client, [`TableLimits::clients`] of them at most.
///
/// When the table is full, a state is forgotten that is [`Neutral`] and was not used since it was
/// last looked at (second chance). When none such is found within 16 looks, the newcomer gets one of
/// a fixed number of shared states, picked by a keyed hash: no client is refused because the table is full,
/// and no bucket is filled by being forgotten.
///
/// Memory: [`ClientTable::BYTES_PER_CLIENT`] at most for each client of the limit, all taken at the
/// start, and the shared states.
#[derive(Debug)]
pub struct ClientTable<S> {
    limits: TableLimits,
    index: HashTable<u32>,
    slots: Vec<Slot<S>>,
    shared: Vec<S>,
    /// Where the next search for something to forget begins.
    hand: usize,
    hash: KeyedHash,
    /// Another hash, so that clients that share a bucket do not share a state.
    sharing: KeyedHash,
    evictions: u64,
}

#[derive(Debug)]
struct Slot<S> {
    key: ClientKey,
    used: bool,
    generation: u32,
    state: S,
}

/// Names a state for as long as it is not forgotten. A state that is not neutral is not forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotId {
    place: u32,
    /// None for a shared state.
    generation: Option<u32>,
}

/// A client's state, found or made.
#[derive(Debug)]
pub struct Entry<'a, S> {
    /// For finding it again without a search.
    pub id: SlotId,
    /// The state.
    pub state: &'a mut S,
}

impl<S: Neutral> ClientTable<S> {
    /// What one client takes at most: its state, its key, and its part of the index, which is up to
    /// 16/7 places of a number and a byte.
    pub const BYTES_PER_CLIENT: usize = size_of::<Slot<S>>() + (size_of::<u32>() + 1) * 16 / 7 + 1;

    /// An empty table. `seed` has to be secret: with it a client can choose keys that collide.
    ///
    /// # Errors
    /// A limit out of its range.
    pub fn new(limits: TableLimits, seed: [u64; 2]) -> Result<Self, Error> {
        check_limit("clients", limits.clients, (1, 1 << 24))?;
        check_limit("shared", limits.shared, (1, 65_536))?;
        Ok(Self {
            limits,
            index: HashTable::with_capacity(limits.clients),
            slots: Vec::with_capacity(limits.clients),
            shared: std::iter::repeat_with(S::default)
                .take(limits.shared)
                .collect(),
            hand: 0,
            hash: KeyedHash::new(seed, 0),
            sharing: KeyedHash::new(seed, 1),
            evictions: 0,
        })
    }

    /// The state of a client: its own, a new one, or a shared one.
    pub fn entry(&mut self, key: ClientKey, now: Nanos) -> Entry<'_, S> {
        let known = self.find(&key);
        let Some(place) = known.or_else(|| self.place_for(key, now)) else {
            return self.shared_entry(&key);
        };
        let slot = &mut self.slots[place as usize];
        slot.used = known.is_some();
        Entry {
            id: SlotId {
                place,
                generation: Some(slot.generation),
            },
            state: &mut slot.state,
        }
    }

    /// The state of a client that has one of its own.
    pub fn peek(&self, key: &ClientKey) -> Option<&S> {
        let place = self.find(key)?;
        Some(&self.slots[place as usize].state)
    }

    /// A state by its name, to be changed; none if it was forgotten.
    pub fn get_mut(&mut self, id: SlotId) -> Option<&mut S> {
        match id.generation {
            None => self.shared.get_mut(id.place as usize),
            Some(generation) => {
                let slot = self.slots.get_mut(id.place as usize)?;
                slot.used |= slot.generation == generation;
                (slot.generation == generation).then_some(&mut slot.state)
            }
        }
    }

    /// Clients with a state of their own now.
    pub const fn entries(&self) -> usize {
        self.slots.len()
    }

    /// States that were forgotten for others.
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    fn find(&self, key: &ClientKey) -> Option<u32> {
        let is_of_key = |&place: &u32| self.slots[place as usize].key == *key;
        self.index.find(self.hash.hash_one(key), is_of_key).copied()
    }

    /// A place with a new state for this client: an unused one, or that of a client to be forgotten.
    fn place_for(&mut self, key: ClientKey, now: Nanos) -> Option<u32> {
        let mut slot = Slot {
            key,
            used: false,
            generation: 0,
            state: S::default(),
        };
        let place = if self.slots.len() < self.limits.clients {
            self.slots.push(slot);
            self.slots.len() - 1
        } else {
            let place = self.forgettable(now)?;
            let former = self.hash.hash_one(self.slots[place].key);
            let at_place = |&other: &u32| other as usize == place;
            if let Ok(former) = self.index.find_entry(former, at_place) {
                former.remove();
            }
            slot.generation = self.slots[place].generation.wrapping_add(1);
            self.slots[place] = slot;
            self.evictions += 1;
            place
        };
        let number = u32::try_from(place).expect("the limit fits in 32 bits");
        let (slots, keyed) = (&self.slots, self.hash);
        let hash_of = |&place: &u32| keyed.hash_one(slots[place as usize].key);
        (self.index).insert_unique(keyed.hash_one(key), number, hash_of);
        Some(number)
    }

    fn forgettable(&mut self, now: Nanos) -> Option<usize> {
        for _ in 0..SEARCH {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[place];
            let had_used = std::mem::take(&mut slot.used);
            if !had_used && slot.state.is_neutral(now) {
                return Some(place);
            }
        }
        None
    }

    fn shared_entry(&mut self, key: &ClientKey) -> Entry<'_, S> {
        let place = self.sharing.hash_one(key) % self.shared.len() as u64;
        let place = u32::try_from(place).expect("there are at most 65,536 shared states");
        Entry {
            id: SlotId {
                place,
                generation: None,
            },
            state: &mut self.shared[place as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::{GcraLimit, GcraState, KeyScheme};

    /// What a front door would remember: a bucket for requests, one for reads, and counts.
    #[derive(Default)]
    struct Client {
        requests: GcraState,
        reads: GcraState,
        connections: u32,
        waiting: u32,
    }

    fn limit() -> GcraLimit {
        GcraLimit::new("10/s".parse().unwrap(), Nanos::from_secs(1))
    }

    fn is_full(state: &GcraState, now: Nanos) -> bool {
        limit().ready(state, now) == limit().burst_tokens()
    }

    /// The bytes that a table takes, now and at any time.
    fn memory<S>(table: &ClientTable<S>) -> usize {
        table.index.allocation_size()
            + table.slots.capacity() * size_of::<Slot<S>>()
            + table.shared.capacity() * size_of::<S>()
    }

    impl Neutral for Client {
        fn is_neutral(&self, now: Nanos) -> bool {
            self.connections == 0
                && self.waiting == 0
                && is_full(&self.requests, now)
                && is_full(&self.reads, now)
        }
    }

    fn client(n: u32) -> ClientKey {
        KeyScheme::default().key(IpAddr::from(Ipv4Addr::from_bits(n)))
    }

    fn table(clients: usize) -> ClientTable<Client> {
        ClientTable::new(TableLimits { clients, shared: 4 }, [3, 4]).unwrap()
    }

    #[test]
    fn an_idle_client_takes_under_200_bytes() {
        const { assert!(ClientTable::<Client>::BYTES_PER_CLIENT <= 200) };
        for clients in [1_000, 57_345, 100_000, 114_689] {
            let mut table = ClientTable::<Client>::new(
                TableLimits {
                    clients,
                    ..TableLimits::default()
                },
                [1, 2],
            )
            .unwrap();
            let before = memory(&table);
            for n in 0..2 * u32::try_from(clients).unwrap() {
                table.entry(client(n), Nanos::ZERO).state.waiting = n % 3;
            }
            // It took all at the start, and takes no more.
            assert_eq!(memory(&table), before);
            let shared = 1_024 * size_of::<Client>();
            // The index has 16 bytes more than its places, whatever its size.
            let own = before - shared - 16;
            assert!(
                own <= clients * ClientTable::<Client>::BYTES_PER_CLIENT,
                "{own} for {clients}"
            );
        }
    }

    #[test]
    fn a_client_finds_its_state_again() {
        let mut table = table(10);
        for n in 0..10 {
            table.entry(client(n), Nanos::ZERO).state.waiting = n;
        }
        for n in 0..10 {
            let id = table.entry(client(n), Nanos::ZERO).id;
            assert!(id.generation.is_some());
            assert_eq!(table.get_mut(id).unwrap().waiting, n);
            assert_eq!(table.peek(&client(n)).unwrap().waiting, n);
        }
        assert_eq!(table.entries(), 10);
    }

    #[test]
    fn what_is_in_use_is_not_forgotten() {
        let mut table = table(4);
        for n in 0..4 {
            table.entry(client(n), Nanos::ZERO).state.connections = 1;
        }
        let newcomer = table.entry(client(9), Nanos::from_secs(99));
        assert!(newcomer.id.generation.is_none());
        newcomer.state.connections += 1;
        let id = newcomer.id;
        assert_eq!(table.get_mut(id).unwrap().connections, 1);
        assert_eq!(table.evictions(), 0);
        // The same newcomer comes to the same shared state.
        assert_eq!(table.entry(client(9), Nanos::ZERO).id, id);
        assert!((0..4).all(|n| table.peek(&client(n)).is_some()));
    }

    #[test]
    fn being_forgotten_fills_no_bucket() {
        let mut table = table(1);
        let limit = limit();
        let mut taken = 0;
        // One client, and one that pushes it out whenever it can, for ten seconds.
        for tick in 0..10_000 {
            let now = Nanos::from_millis(tick);
            let state = table.entry(client(1), now).state;
            taken += u32::from(limit.try_take(&mut state.requests, now).is_ok());
            table.entry(client(2), now);
            table.entry(client(2), now);
        }
        // 10/s and the burst; and once more the burst for being on a shared state at the start.
        assert!(taken <= 120, "{taken}");
    }

    #[test]
    fn neutral_and_unused_is_forgotten_first() {
        let mut table = table(4);
        for n in 0..4 {
            table.entry(client(n), Nanos::ZERO);
        }
        // Seen twice: a second chance.
        table.entry(client(0), Nanos::ZERO);
        let gone = table.entry(client(1), Nanos::ZERO).id;
        table.entry(client(8), Nanos::ZERO);
        assert!(table.peek(&client(2)).is_none());
        assert!(table.peek(&client(1)).is_some());
        // The hand has passed 0 and 1 and goes on behind 2.
        table.entry(client(9), Nanos::ZERO);
        assert!(table.peek(&client(3)).is_none());
        table.entry(client(10), Nanos::ZERO);
        assert!(table.peek(&client(0)).is_none());
        table.entry(client(11), Nanos::ZERO);
        assert!(table.get_mut(gone).is_none());
        assert_eq!(table.evictions(), 4);
    }

    #[test]
    fn limits_are_checked() {
        let wrong =
            |clients, shared| ClientTable::<Client>::new(TableLimits { clients, shared }, [0; 2]);
        assert!(wrong(0, 1).is_err() && wrong(1, 0).is_err() && wrong(1, 65_537).is_err());
    }
}
