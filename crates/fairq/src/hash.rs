//! The hash of everything whose keys a stranger picks.

use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;

/// SipHash-1-3 under a secret seed: who does not know the seed cannot make keys collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedHash([u64; 2]);

impl KeyedHash {
    /// One of several independent hashes of the same seed.
    pub(crate) fn new(seed: [u64; 2], domain: u64) -> Self {
        Self([seed[0], seed[1] ^ domain])
    }

    pub(crate) fn of(self, value: &impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        value.hash(&mut hasher);
        hasher.finish()
    }
}
