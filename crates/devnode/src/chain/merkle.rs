//! The Merkle tree of RFC 6962 section 2.1, as CometBFT hashes headers, transactions and commits.

use sha2::{Digest, Sha256};

/// SHA-256 of anything.
pub(crate) type Hash = [u8; 32];

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

/// That a leaf is in a tree: its hash and the siblings on the way to the root, lowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) total: usize,
    pub(crate) index: usize,
    pub(crate) leaf_hash: Hash,
    pub(crate) aunts: Vec<Hash>,
}

/// Root and proof for one leaf.
///
/// # Panics
/// If `index` is not the index of a leaf.
pub(crate) fn prove<L: AsRef<[u8]>>(leaves: &[L], index: usize) -> (Hash, Proof) {
    let mut level: Vec<Hash> = leaves.iter().map(|leaf| leaf_hash(leaf.as_ref())).collect();
    let mut proof = Proof {
        total: level.len(),
        index,
        leaf_hash: level[index],
        aunts: Vec::new(),
    };
    let mut position = index;
    while level.len() > 1 {
        if let Some(sibling) = level.get(position ^ 1) {
            proof.aunts.push(*sibling);
        }
        level = fold(&level);
        position /= 2;
    }
    (level[0], proof)
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

    /// Checks a proof from the top down, as a verifier that knows only total and index does.
    fn verified(index: usize, total: usize, leaf: Hash, aunts: &[Hash]) -> Option<Hash> {
        if total == 1 {
            return aunts.is_empty().then_some(leaf);
        }
        let (last, rest) = aunts.split_last()?;
        let split = total.next_power_of_two() / 2;
        if index < split {
            Some(inner_hash(&verified(index, split, leaf, rest)?, last))
        } else {
            Some(inner_hash(
                last,
                &verified(index - split, total - split, leaf, rest)?,
            ))
        }
    }

    proptest! {
        #[test]
        fn folding_equals_the_recursive_definition(leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 0..70)) {
            prop_assert_eq!(root(&leaves), recursive(&leaves));
        }

        #[test]
        fn every_proof_leads_to_the_root(leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..8), 1..70), seed in any::<prop::sample::Index>()) {
            let index = seed.index(leaves.len());
            let (top, proof) = prove(&leaves, index);
            prop_assert_eq!(top, root(&leaves));
            prop_assert_eq!(verified(index, leaves.len(), proof.leaf_hash, &proof.aunts), Some(top));
        }
    }
}
