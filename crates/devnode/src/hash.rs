//! SHA-256, the Merkle tree of RFC 6962 section 2.1 with which CometBFT hashes transactions and results, and a
//! hasher for maps.

use std::hash::{BuildHasher, Hasher};

use sha2::{Digest, Sha256};

/// SHA-256 of anything.
pub type Hash = [u8; 32];

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Hash of a leaf: `SHA-256(0x00 || leaf)`.
pub(crate) fn leaf_hash(leaf: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(leaf);
    hasher.finalize().into()
}

fn inner_hash(left: &Hash, right: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update([1]);
    hasher.update(left);
    hasher.update(right);
    hasher.finalize().into()
}

/// Root over the leaves; the hash of nothing if there are none.
pub(crate) fn root<L: AsRef<[u8]>>(leaves: &[L]) -> Hash {
    let mut level: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf.as_ref())).collect();
    if level.is_empty() {
        return sha256(&[]);
    }
    while level.len() > 1 {
        level = fold(&level);
    }
    level[0]
}

/// One level up: neighbours in pairs, a last one without partner unchanged. This gives the same
/// tree as the recursive definition with its split at the largest power of two.
fn fold(level: &[Hash]) -> Vec<Hash> {
    level
        .chunks(2)
        .map(|pair| match pair {
            [left, right] => inner_hash(left, right),
            single => single[0],
        })
        .collect()
}

/// A hasher for maps whose keys are hashes already: it takes their first eight bytes. Only for maps of a test
/// double: a sender can construct transactions that collide.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByPrefix;

/// See [`ByPrefix`].
#[derive(Debug, Default)]
pub struct Prefix(u64);

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The recursive definition of RFC 6962.
    fn recursive(leaves: &[Vec<u8>]) -> Hash {
        match leaves {
            [] => sha256(&[]),
            [leaf] => leaf_hash(leaf),
            many => {
                let split = many.len().next_power_of_two() / 2;
                inner_hash(&recursive(&many[..split]), &recursive(&many[split..]))
            }
        }
    }

    proptest! {
        #[test]
        fn folding_equals_the_recursive_definition(leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..70)) {
            prop_assert_eq!(root(&leaves), recursive(&leaves));
        }
    }
}
