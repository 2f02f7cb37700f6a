//! Filters that the crate's own are compared with.

use std::sync::{Mutex, PoisonError};

use admission::{FastFilter, Filter, Key as _, KeyBits};

/// Without a filter: what the others are compared with. It lets both of two spends through.
pub(crate) struct NoFilter;

impl<K> Filter<K> for NoFilter {
    fn claim(&mut self, _: &K) -> bool {
        true
    }

    fn contains(&self, _: &K) -> bool {
        false
    }

    fn clear(&mut self) {}
}

/// As many bits as the fast filter, at positions of so many murmur3 hashes.
pub(crate) struct ClassicBloom {
    bits: Vec<u64>,
    hashes: u32,
}

impl ClassicBloom {
    pub(crate) fn new() -> Self {
        Self {
            bits: vec![0; (1 << 22) / 64],
            hashes: 16,
        }
    }
}

/// `MurmurHash3_x86_32` (Appleby) of eight words.
fn murmur3(key: &KeyBits, seed: u32) -> u32 {
    let mut hash = seed;
    for word in key {
        let mixed = word
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        hash = (hash ^ mixed)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    hash ^= 32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

impl Filter<KeyBits> for ClassicBloom {
    fn claim(&mut self, key: &KeyBits) -> bool {
        let mut was_set = true;
        for number in 0..self.hashes {
            // Seeds as BIP 37 spaces them.
            let at = murmur3(key, number.wrapping_mul(0xfba4_c795)) as usize % (1 << 22);
            was_set &= self.bits[at / 64] >> (at % 64) & 1 == 1;
            self.bits[at / 64] |= 1 << (at % 64);
        }
        !was_set
    }

    fn contains(&self, _: &KeyBits) -> bool {
        false
    }

    fn clear(&mut self) {
        self.bits.fill(0);
    }
}

pub(crate) struct ModernBloom(fastbloom::BloomFilter);

impl ModernBloom {
    pub(crate) fn new() -> Self {
        Self(
            fastbloom::BloomFilter::with_num_bits(1 << 22)
                .seed(&7)
                .hashes(16),
        )
    }
}

impl Filter<KeyBits> for ModernBloom {
    fn claim(&mut self, key: &KeyBits) -> bool {
        !self.0.insert(key)
    }

    fn contains(&self, key: &KeyBits) -> bool {
        self.0.contains(key)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Two filters: new keys go into the younger, and when that holds a generation, the older is cleared and becomes
/// the younger. It remembers at least the last `generation` keys.
pub(crate) struct TwoGenerations {
    younger: FastFilter,
    older: FastFilter,
    /// Keys in the younger.
    held: usize,
    generation: usize,
}

impl TwoGenerations {
    pub(crate) fn new(empty: FastFilter, generation: usize) -> Self {
        Self {
            older: empty.clone(),
            younger: empty,
            held: 0,
            generation,
        }
    }
}

impl Filter<KeyBits> for TwoGenerations {
    fn claim(&mut self, key: &KeyBits) -> bool {
        let known = self.contains(key);
        if self.held == self.generation {
            std::mem::swap(&mut self.younger, &mut self.older);
            Filter::<KeyBits>::clear(&mut self.younger);
            self.held = 0;
        }
        self.held += usize::from(self.younger.claim(key));
        !known
    }

    fn contains(&self, key: &KeyBits) -> bool {
        self.younger.contains(key) || self.older.contains(key)
    }

    fn clear(&mut self) {
        Filter::<KeyBits>::clear(&mut self.younger);
        Filter::<KeyBits>::clear(&mut self.older);
        self.held = 0;
    }
}

/// A set divided by key, each part behind a lock of its own.
pub(crate) struct Sharded<F> {
    shards: Box<[Mutex<F>]>,
}

impl<F> Sharded<F> {
    pub(crate) fn new(shards: impl IntoIterator<Item = F>) -> Self {
        Self {
            shards: shards.into_iter().map(Mutex::new).collect(),
        }
    }

    fn shard(&self, key: &KeyBits) -> &Mutex<F> {
        let [.., last] = key.bits();
        &self.shards[(last >> 16) as usize % self.shards.len()]
    }
}

impl<F: Filter<KeyBits>> Filter<KeyBits> for Sharded<F> {
    fn claim(&mut self, key: &KeyBits) -> bool {
        let mut shard = self
            .shard(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        shard.claim(key)
    }

    fn contains(&self, key: &KeyBits) -> bool {
        let shard = self
            .shard(key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        shard.contains(key)
    }

    fn clear(&mut self) {
        for shard in &mut self.shards {
            let shard = shard.get_mut().unwrap_or_else(PoisonError::into_inner);
            shard.clear();
        }
    }
}
