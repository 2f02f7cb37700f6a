//! The hash of everything whose keys come from clients.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// SipHash-1-3 under a secret seed: keys that collide cannot be chosen without the seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedHash([u64; 2]);

impl KeyedHash {
    /// One of several independent hashes of the same seed.
    pub(crate) fn new(seed: [u64; 2], domain: u64) -> Self {
        Self([seed[0], seed[1] ^ domain])
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}
