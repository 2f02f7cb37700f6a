//! A hasher for keys that are hashes already: their first eight bytes.

use std::hash::{BuildHasher, Hasher};

/// Takes the first bytes of a cryptographic hash as they are. Only for maps of a development tool:
/// a sender can construct transactions that collide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ByPrefix;

/// See [`ByPrefix`].
#[derive(Debug, Default)]
pub(crate) struct Prefix(u64);

impl BuildHasher for ByPrefix {
    type Hasher = Prefix;

    fn build_hasher(&self) -> Prefix {
        Prefix(0)
    }
}

impl Hasher for Prefix {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
