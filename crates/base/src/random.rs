//! Random numbers that are the same on every machine.

/// Sebastiano Vigna's SplitMix64 (2015), after Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014: a counter that is mixed.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// 2^64 divided by the golden ratio, made odd: the paper's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// One number from another, so that neighbouring words give numbers that have nothing in common: the
/// paper's finaliser, a bijection on 64-bit words.
#[inline]
pub const fn mix(word: u64) -> u64 {
    mixed(word.wrapping_add(GOLDEN))
}

#[inline]
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    /// A sequence of its own for every seed.
    pub fn new(seed: u64) -> Self {
        // Mixed first, so that neighbouring seeds do not begin at neighbouring counters.
        Self { state: mix(seed) }
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Any 64 bits.
    #[inline]
    pub const fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mixed(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The reference implementation's first outputs for the state 1234567.
        let mut random = Random { state: 1_234_567 };
        let first = [random.word(), random.word(), random.word()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }
}
