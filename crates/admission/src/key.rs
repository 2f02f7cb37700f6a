//! What a transaction spends, as a filter sees it.

use std::hash::Hash;

/// A key as eight little-endian words. A filter cuts its positions from them, so they have to be close
/// to uniformly distributed, as a cryptographic hash is.
pub type KeyBits = [u32; 8];

/// Something that can be spent once.
pub trait Key: Copy + Eq + Hash + Send + Sync {
    /// The key's bits.
    fn bits(&self) -> KeyBits;
}

impl Key for KeyBits {
    fn bits(&self) -> KeyBits {
        *self
    }
}

/// A reference to an output: the hash of the transaction that made it, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutputKey {
    /// Hash of the transaction, in the order of its bytes in memory.
    pub hash: [u8; 32],
    /// Index of the output.
    pub index: u32,
}

/// One odd number for each word: 2^32 divided by the golden ratio, and its multiples made odd.
const SPREAD: KeyBits = [
    0x9e37_79b9,
    0x3c6e_f373,
    0xdaa6_6d2b,
    0x78dd_e6e5,
    0x1715_609d,
    0xb54c_da57,
    0x5384_540f,
    0xf1bb_cdc9,
];

impl OutputKey {
    /// The key of the Gigablock testnet's later form: the low 16 bits of the index, XORed into words
    /// 0, 2, 4 and 6. Two outputs of one transaction share half of their positions.
    pub fn gigablock_bits(&self) -> KeyBits {
        let mut words = self.words();
        for word in words.iter_mut().step_by(2) {
            *word ^= self.index & 0xffff;
        }
        words
    }

    fn words(&self) -> KeyBits {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(self.hash.as_chunks().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        words
    }
}

impl Key for OutputKey {
    /// The hash with the index mixed into every word.
    fn bits(&self) -> KeyBits {
        let mut words = self.words();
        for (word, spread) in words.iter_mut().zip(SPREAD) {
            *word ^= self.index.wrapping_mul(spread);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_changes_every_second_word_in_the_compat_form_and_every_word_in_ours() {
        let hash = std::array::from_fn(|at| at as u8);
        let changed = |bits: fn(&OutputKey) -> KeyBits| -> Vec<usize> {
            let one = bits(&OutputKey { hash, index: 1 });
            let two = bits(&OutputKey { hash, index: 2 });
            (0..8).filter(|at| one[*at] != two[*at]).collect()
        };
        assert_eq!(changed(OutputKey::gigablock_bits), [0, 2, 4, 6]);
        assert_eq!(changed(OutputKey::bits), [0, 1, 2, 3, 4, 5, 6, 7]);
        let key = OutputKey {
            hash,
            index: 0x0005_1234,
        };
        let words = key.gigablock_bits();
        assert_eq!(words[0], 0x0302_0100 ^ 0x1234);
        assert_eq!(words[1], 0x0706_0504);
    }
}
