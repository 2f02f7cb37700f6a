//! Sets of keys that answer one question: was this key claimed before?
//!
//! The fast filter: bit positions cut from the key itself, without hashing.
//!
//! The Gigablock testnet's daemon had it in two forms, of 2017 and of 2021, both of 2^22 bits.

use base::mix;

use crate::admit::{Key, KeyBits};

/// A set of keys, perhaps an approximate one: it may take a new key for a known one.
///
/// Claiming needs exclusive access. That is what gives each key one winner: with bits that are set one
/// by one through shared access, two threads that claim the same key can each find one of its bits
/// unset.
pub trait Filter<K>: Send {
    /// Adds a key. True if it was not there: the caller is the first, or the first since the filter
    /// forgot it.
    fn claim(&mut self, key: &K) -> bool;

    /// Whether a key seems to be there.
    fn contains(&self, key: &K) -> bool;

    /// Forgets every key.
    fn clear(&mut self);
}

/// Bits of a filter.
const BITS: usize = 1 << 22;
/// Bytes of a filter: 512 KiB.
const BYTES: usize = BITS / 8;
/// The low 22 bits of a word.
const POSITION: u32 = (1 << 22) - 1;
/// Most positions: two of each word.
const MOST: usize = 16;

/// How positions are cut from a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// The form of 2017: one position, the low 22 bits of one of the first seven words (0 to 6). Which of
    /// the seven was drawn at the start of a node, its only defence against crafted keys.
    Gigablock2017 {
        /// The word.
        word: usize,
    },
    /// The form of 2021: two positions of each word, its low 22 bits and those of the word with its bytes
    /// swapped; as many words as are needed, from the first. Equal in all nodes.
    Gigablock2021 {
        /// Positions, 2 to 16 and even.
        positions: usize,
    },
    /// Two positions of each pair of words by a secret multiplication, the words in a secret order.
    Secret {
        /// Positions, 1 to 16.
        positions: usize,
        /// What makes this instance's positions unpredictable.
        secret: Secret,
    },
}

/// Random numbers of one instance. Without them a client cannot craft keys that share positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The words in the order in which they are used.
    order: [usize; 8],
    /// One for each word.
    addends: [u64; 8],
}

impl Secret {
    /// A secret from a random seed; two instances should not share one.
    pub fn from_seed(seed: u64) -> Self {
        let mut words = (0_u64..).map(|place| mix(seed.wrapping_add(place)));
        let mut next = || words.next().expect("they do not end");
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
        for last in (1..order.len()).rev() {
            let other = next() % (last as u64 + 1);
            order.swap(last, other as usize);
        }
        let addends = std::array::from_fn(|_| next());
        Self { order, addends }
    }
}

/// A Bloom filter of 2^22 bits whose positions are slices of the key.
#[derive(Debug, Clone)]
pub struct FastFilter {
    bytes: Box<[u8]>,
    layout: Layout,
}

impl FastFilter {
    /// An empty filter; none for a layout whose numbers are out of their range.
    pub fn new(layout: Layout) -> Option<Self> {
        let legal = match &layout {
            Layout::Gigablock2017 { word } => *word < 7,
            Layout::Gigablock2021 { positions } => {
                (2..=MOST).contains(positions) && positions.is_multiple_of(2)
            }
            Layout::Secret { positions, .. } => (1..=MOST).contains(positions),
        };
        let bytes = vec![0; BYTES].into_boxed_slice();
        legal.then_some(Self { bytes, layout })
    }

    /// Sets the key's bits. True if one of them was not set.
    fn set(&mut self, key: &KeyBits) -> bool {
        let bytes = &mut self.bytes;
        let mut was_set = true;
        self.layout.each_position(key, |position| {
            let byte = &mut bytes[position / 8];
            was_set &= *byte >> (position % 8) & 1 == 1;
            *byte |= 1 << (position % 8);
        });
        !was_set
    }

    fn is_set(&self, key: &KeyBits) -> bool {
        let mut is_set = true;
        self.layout.each_position(key, |position| {
            is_set &= self.bytes[position / 8] >> (position % 8) & 1 == 1;
        });
        is_set
    }
}

impl Layout {
    /// The positions of a key, each below [`BITS`].
    fn each_position(&self, key: &KeyBits, mut visit: impl FnMut(usize)) {
        match self {
            Self::Gigablock2017 { word } => visit((key[*word] & POSITION) as usize),
            Self::Gigablock2021 { positions } => {
                for word in &key[..positions / 2] {
                    visit((word & POSITION) as usize);
                    visit((word.swap_bytes() & POSITION) as usize);
                }
            }
            Self::Secret { positions, secret } => {
                let Secret { order, addends } = secret;
                let term = |at: usize| addends[at % 8].wrapping_add(key[order[at % 8]].into());
                for at in 0..*positions {
                    // Pair-multiply-shift (Thorup 2015, "High speed hashing for integers and strings"):
                    // universal in the upper 33 bits, so each position has a product of its own. From the ninth on
                    // a word is paired with the next but one.
                    let mixed = term(at).wrapping_mul(term(at + 1 + at / 8));
                    visit((mixed >> 42) as usize);
                }
            }
        }
    }
}

impl<K: Key> Filter<K> for FastFilter {
    fn claim(&mut self, key: &K) -> bool {
        self.set(&key.bits())
    }

    fn contains(&self, key: &K) -> bool {
        self.is_set(&key.bits())
    }

    fn clear(&mut self) {
        self.bytes.fill(0);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::admit::OutputKey;

    fn key(number: u32) -> KeyBits {
        let hash: [u8; 32] = Sha256::digest(number.to_le_bytes()).into();
        OutputKey { hash, index: 0 }.gigablock_bits()
    }

    fn positions(layout: &Layout, key: &KeyBits) -> Vec<usize> {
        let mut all = Vec::new();
        layout.each_position(key, |position| all.push(position));
        all
    }

    /// Computed with Python from the description, on SHA-256 of four zero bytes:
    /// `struct.unpack('<8I', key)`, and for each word `w & 0x3fffff` and `bswap(w) & 0x3fffff`.
    const GOLDEN_2021: [usize; 16] = [
        2_179_039, 4_153_752, 3_123_460, 2_699_227, 1_660_736, 1_513_773, 1_523_140, 4_052_808,
        686_058, 3_640_028, 638_034, 3_950_988, 2_360_808, 337_088, 1_161_236, 3_674_393,
    ];

    #[test]
    fn compat_positions_are_those_of_the_description() {
        let sixteen = Layout::Gigablock2021 { positions: 16 };
        assert_eq!(positions(&sixteen, &key(0)), GOLDEN_2021);
        let two = Layout::Gigablock2021 { positions: 2 };
        assert_eq!(positions(&two, &key(0)), GOLDEN_2021[..2]);
        for word in 0..7 {
            let one = Layout::Gigablock2017 { word };
            assert_eq!(positions(&one, &key(0)), [GOLDEN_2021[2 * word]]);
        }
    }

    /// A position is bit `position % 8` of byte `position / 8`.
    #[test]
    fn bits_are_where_the_description_has_them() {
        let mut filter = FastFilter::new(Layout::Gigablock2021 { positions: 16 }).unwrap();
        assert!(filter.claim(&key(0)));
        let mut bytes = vec![0; BYTES];
        for position in GOLDEN_2021 {
            bytes[position / 8] |= 1 << (position % 8);
        }
        assert!(*filter.bytes == bytes[..]);
    }

    #[test]
    fn a_key_is_claimed_once_until_the_filter_is_cleared() {
        for layout in [
            Layout::Gigablock2017 { word: 6 },
            Layout::Gigablock2021 { positions: 2 },
            Layout::Gigablock2021 { positions: 16 },
            secret(1, 7),
            secret(16, 7),
        ] {
            let mut filter = FastFilter::new(layout).unwrap();
            for _ in 0..2 {
                assert!(!filter.contains(&key(1)));
                assert!(filter.claim(&key(1)));
                assert!(filter.contains(&key(1)));
                assert!(!filter.claim(&key(1)));
                Filter::<KeyBits>::clear(&mut filter);
            }
        }
    }

    fn secret(positions: usize, seed: u64) -> Layout {
        let secret = Secret::from_seed(seed);
        Layout::Secret { positions, secret }
    }

    #[test]
    fn numbers_out_of_range_make_no_filter() {
        for layout in [
            Layout::Gigablock2017 { word: 7 },
            Layout::Gigablock2021 { positions: 0 },
            Layout::Gigablock2021 { positions: 3 },
            Layout::Gigablock2021 { positions: 18 },
            secret(0, 1),
            secret(17, 1),
        ] {
            assert!(FastFilter::new(layout).is_none());
        }
    }

    /// Without a secret an attacker can search for keys that share the words of the first positions. With one,
    /// the same keys meet in hardly any instance.
    #[test]
    fn keys_crafted_against_the_compat_form_do_not_collide_in_a_secret_instance() {
        let mut crafted = key(2);
        crafted[0] = key(1)[0];
        let compat = Layout::Gigablock2021 { positions: 2 };
        assert_eq!(positions(&compat, &key(1)), positions(&compat, &crafted));
        let collides = |seed: &u64| {
            let layout = secret(2, *seed);
            positions(&layout, &key(1)) == positions(&layout, &crafted)
        };
        assert_eq!((0..1_000).filter(collides).count(), 0);
    }

    /// False conflicts among 100,000 keys: none expected with 16 positions, and with one as many as bits
    /// that are hit twice, 1.2 %.
    #[test]
    fn false_conflicts_are_as_rare_as_the_number_of_positions_promises() {
        let refused = |layout| {
            let mut filter = FastFilter::new(layout).unwrap();
            (0..100_000)
                .filter(|number| !filter.claim(&key(*number)))
                .count()
        };
        assert_eq!(refused(Layout::Gigablock2021 { positions: 16 }), 0);
        assert_eq!(refused(secret(16, 3)), 0);
        let one_2017 = refused(Layout::Gigablock2017 { word: 0 });
        let one_secret = refused(secret(1, 3));
        for refused in [one_2017, one_secret] {
            assert!((1_000..1_400).contains(&refused), "{refused}");
        }
    }
}
