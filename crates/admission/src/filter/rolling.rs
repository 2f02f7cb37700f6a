//! The rolling form of the fast filter, kept to be compared with.

use super::fast::BYTES;
use super::{FastFilter, Filter, Layout};
use crate::key::Key;

/// Bytes that are erased before each insertion.
const ERASED: usize = 16;

/// A fast filter that erases 16 bytes before each key that it adds, so that it need not be cleared.
///
/// A key is forgotten when the **first** of its bits is erased, so the more positions, the shorter the
/// memory: with 16 positions half of the keys are gone after about 1,300 more, with a filter that takes
/// 32,768 to be erased once. Use [`super::TwoGenerationFilter`] for a memory with a guarantee.
#[derive(Debug, Clone)]
pub struct RollingFilter {
    filter: FastFilter,
    /// Where the next erasure begins.
    next: usize,
    stride: usize,
}

impl RollingFilter {
    /// The form of 2021: erased from one end to the other. `start` is a random byte.
    pub fn new(layout: Layout, start: usize) -> Option<Self> {
        Self::with_stride(layout, start, ERASED)
    }

    /// The form of 2017: each erasure 27,061 bytes after the last.
    pub fn gigablock_2017(word: usize, start: usize) -> Option<Self> {
        Self::with_stride(Layout::Gigablock2017 { word }, start, 27_061)
    }

    fn with_stride(layout: Layout, start: usize, stride: usize) -> Option<Self> {
        let filter = FastFilter::new(layout)?;
        Some(Self {
            filter,
            next: start % BYTES,
            stride,
        })
    }
}

impl<K: Key> Filter<K> for RollingFilter {
    fn claim(&mut self, key: &K) -> bool {
        self.next = (self.next + self.stride) % BYTES;
        let bytes = self.filter.bytes_mut();
        for at in self.next..self.next + ERASED {
            bytes[at % BYTES] = 0;
        }
        self.filter.set(&key.bits())
    }

    fn contains(&self, key: &K) -> bool {
        self.filter.is_set(&key.bits())
    }

    fn clear(&mut self) {
        self.filter.bytes_mut().fill(0);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::key::{KeyBits, OutputKey};

    fn key(number: u32) -> KeyBits {
        let hash = Sha256::digest(number.to_le_bytes()).into();
        OutputKey { hash, index: 0 }.gigablock_bits()
    }

    /// Per cent of keys still known after so many more, by positions: an earlier simulation of fewer keys.
    const DISTANCES: [u32; 7] = [100, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000];
    const MEASURED: [(usize, [f64; 7]); 4] = [
        (1, [100.0, 98.0, 95.0, 86.0, 78.0, 52.0, 4.0]),
        (2, [98.0, 94.0, 87.0, 80.0, 59.0, 27.0, 0.0]),
        (8, [94.0, 76.0, 57.0, 32.0, 10.0, 0.0, 0.0]),
        (16, [86.0, 54.0, 36.0, 13.0, 1.0, 0.0, 0.0]),
    ];

    /// What it forgets. With bits erased one place after the other and k independent positions, the share
    /// that is left after d of 32,768 insertions is (1 − d/32768)^k; some bits are set again by others.
    #[test]
    fn sixteen_positions_forget_half_of_the_keys_after_a_thousand() {
        let inserted = 40_000;
        let sampled = 2_000;
        println!("positions  after {DISTANCES:?} more keys, per cent still known");
        for (positions, measured) in MEASURED {
            let layout = match positions {
                1 => Layout::Gigablock2017 { word: 0 },
                positions => Layout::Gigablock2021 { positions },
            };
            let mut filter = RollingFilter::new(layout, 12_345).unwrap();
            for number in 0..inserted {
                filter.claim(&key(number));
            }
            let left = DISTANCES.map(|distance| {
                // As many keys around the distance, so that none of them lies in one place.
                let newest = inserted - distance + sampled.min(distance) / 2;
                let oldest = newest - sampled.min(distance);
                let known = (oldest..newest).filter(|number| filter.contains(&key(*number)));
                100.0 * known.count() as f64 / f64::from(newest - oldest)
            });
            println!("{positions:9}  {left:.0?}");
            for ((distance, left), measured) in DISTANCES.into_iter().zip(left).zip(measured) {
                let free = 1.0 - f64::from(distance) / 32_768.0;
                let expected = 100.0 * free.powi(positions as i32);
                assert!(
                    (left - expected).abs() < 4.0,
                    "{positions} {distance} {left} {expected}"
                );
                assert!(
                    (left - measured).abs() < 10.0,
                    "{positions} {distance} {left} {measured}"
                );
            }
        }
    }

    /// 3,472 steps of 27,061 bytes end 4 bytes beside where they began, and leave gaps of 151 bytes: some
    /// bytes are erased at once, others after 131,000 keys.
    #[test]
    fn the_form_of_2017_forgets_everything_in_the_end() {
        let mut filter = RollingFilter::gigablock_2017(3, 5).unwrap();
        for number in 0..1_000 {
            assert!(filter.claim(&key(number)) || number > 0);
        }
        for number in 1_000..140_000 {
            filter.claim(&key(number));
        }
        let known = (0..1_000)
            .filter(|number| filter.contains(&key(*number)))
            .count();
        // What is left are bits that others set again.
        assert!(known < 50, "{known}");
    }
}
