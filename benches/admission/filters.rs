//! Filters that the crate's own are compared with.

use admission::{Filter, KeyBits};

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
