//! `key=value` transactions for CometBFT's kvstore, unique within a run and repeatable by seed.

use std::fmt;
use std::sync::Arc;

use base::mix;
use chain::{
    LIMIT_OF_BODIES, MAX_SIZE, Probe, TxName, TxStream, Workload, WorkloadError, check_size,
};

/// The smallest transaction: eleven characters of key, the equals sign, four of value.
///
/// Eleven characters of base 62 hold any 64-bit number (62^11 > 2^64), so keys never repeat.
pub const MIN_SIZE: usize = KEY_CHARACTERS + 1 + 4;

/// Makes the transactions of one seed and size.
///
/// The key is a bijection of `seed-dependent offset + index`: two transactions of a run never share
/// a key, and two runs with different seeds overlap with a probability of about
/// (transactions in both) / 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvStore {
    offset: u64,
    size: usize,
}

impl KvStore {
    /// `size` is exact, in bytes, from [`MIN_SIZE`] to [`MAX_SIZE`].
    ///
    /// # Errors
    /// When the size is outside that range.
    pub fn new(seed: u64, size: usize) -> Result<Self, WorkloadError> {
        if size < MIN_SIZE {
            return Err(WorkloadError::Unusable(format!(
                "a kvstore transaction of {size} bytes is too small for a unique key; use --size {MIN_SIZE} \
                 or more"
            )));
        }
        check_size(size, MAX_SIZE, LIMIT_OF_BODIES)?;
        Ok(Self {
            offset: mix(seed ^ SEED_DOMAIN),
            size,
        })
    }

    /// The exact size of each transaction in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Appends transaction `index`.
    pub fn append(&self, index: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.size;
        let mut key = mix(self.offset.wrapping_add(index));
        let mut state = key;
        for _ in 0..KEY_CHARACTERS {
            out.push(ALPHABET[(key % 62) as usize]);
            key /= 62;
        }
        out.push(b'=');
        while out.len() < end {
            state = mix(state);
            let mut word = state;
            let characters = (end - out.len()).min(CHARACTERS_PER_WORD);
            let mut chunk = [0; CHARACTERS_PER_WORD];
            for slot in &mut chunk {
                *slot = ALPHABET64[(word & 63) as usize];
                word >>= 6;
            }
            out.extend_from_slice(&chunk[..characters]);
        }
    }
}

impl Workload for KvStore {
    fn largest(&self) -> usize {
        self.size
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(*self))
    }

    /// Behind a Tendermint of these versions may be a BigchainDB, which stops at what is no JSON.
    fn first_alone(&self, node: &Probe, generator: u32) -> Option<Arc<dyn Workload>> {
        let mut versions = ["0.22.", "0.31."].into_iter();
        versions.find(|version| node.version.starts_with(version))?;
        Some(Arc::new(Self {
            offset: self.offset.wrapping_sub(1 + u64::from(generator)),
            ..*self
        }))
    }
}

impl fmt::Display for KvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kvstore, {} bytes each", self.size)
    }
}

impl TxStream for KvStore {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        self.append(index, out);
        Ok(TxName::Hash)
    }
}

const KEY_CHARACTERS: usize = 11;
const CHARACTERS_PER_WORD: usize = 10;
/// Keeps the key stream apart from other uses of the same seed.
const SEED_DOMAIN: u64 = 0x7469_6465_6b65_7973;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALPHABET64: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn make(seed: u64, size: usize, index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        KvStore::new(seed, size).unwrap().append(index, &mut out);
        out
    }

    #[test]
    fn sizes_outside_the_range_are_refused() {
        let problem = |size| KvStore::new(0, size).unwrap_err().to_string();
        assert!(problem(15).contains("15 bytes is too small for a unique key"));
        assert!(problem(MAX_SIZE + 1).contains("above the node's limit"));
    }

    #[test]
    fn only_where_a_bigchaindb_may_be_a_transaction_goes_alone_and_it_is_of_no_load() {
        let load = KvStore::new(7, MIN_SIZE).unwrap();
        let alone = |version: &str, generator| {
            let node = Probe {
                version: version.to_owned(),
                ..Probe::default()
            };
            let mut stream = load.first_alone(&node, generator)?.open().unwrap();
            let mut tx = Vec::new();
            stream.write(0, &mut tx).unwrap();
            Some(tx)
        };
        let mut seen: HashSet<_> = (0..1_000).map(|index| make(7, MIN_SIZE, index)).collect();
        for (version, generator) in [("0.22.8", 1), ("0.22.8", 2), ("0.31.5", 3)] {
            assert!(seen.insert(alone(version, generator).unwrap()), "{version}");
        }
        for version in ["0.38.17", "0.34.24", "1.0.22.3", ""] {
            assert_eq!(alone(version, 1), None, "{version}");
        }
    }

    #[test]
    fn keys_are_unique_within_a_run() {
        let mut seen = HashSet::new();
        for index in 0..100_000 {
            assert!(seen.insert(make(7, MIN_SIZE, index)[..KEY_CHARACTERS].to_vec()));
        }
    }

    proptest! {
        #[test]
        fn size_is_exact_and_the_form_is_key_value(
            seed: u64, index: u64, size in MIN_SIZE..5000usize,
        ) {
            let tx = make(seed, size, index);
            prop_assert_eq!(tx.len(), size);
            prop_assert_eq!(tx.iter().filter(|byte| **byte == b'=').count(), 1);
            prop_assert_eq!(tx[KEY_CHARACTERS], b'=');
        }

        #[test]
        fn one_seed_gives_one_transaction(seed: u64, index: u64, other: u64) {
            prop_assert_eq!(make(seed, 64, index), make(seed, 64, index));
            prop_assume!(seed != other);
            prop_assert_ne!(make(seed, 64, index), make(other, 64, index));
        }
    }
}
