//! How the workspace defines its values: enumerations with names ([`named!`]), structs with defaults ([`settings!`]) and
//! of counters ([`counters!`]), values that files spell as their flags do ([`text`]), random numbers that are the same
//! on every machine ([`Random`]), and the message for an output that cannot be written ([`write_failure()`]).
//!
//! What it is not: it contains nothing about loads, nodes or proxies, and depends on no other crate of the workspace.
//!
//! Read first: [`named!`], [`settings!`], [`text`].

mod macros;
pub mod text;

use std::fmt::Display;
use std::io::{self, ErrorKind};

/// Sebastiano Vigna's SplitMix64 (2015), after Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014: a counter, of which each value is mixed.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// 2^64 divided by the golden ratio, made odd: the paper's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A number that looks random, from any word: neighbouring words give unrelated numbers. It is the paper's finaliser,
/// a bijection on 64-bit words.
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
    /// A generator whose sequence depends on the seed alone.
    pub fn new(seed: u64) -> Self {
        // Mixed, so that neighbouring seeds do not begin at neighbouring counters.
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

/// The message for an output that cannot be written: which, and what to do about it, by the kind of the failure. It
/// leaves out the reason, which is the source of the error.
#[must_use]
pub fn write_failure(what: impl Display, error: &io::Error) -> String {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space or choose another folder"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => "its folder is not there; make it",
        ErrorKind::IsADirectory => "a folder has its name; remove it or choose another name",
        ErrorKind::AlreadyExists => "it is there already; remove it or choose another name",
        _ => return format!("cannot write {what}"),
    };
    format!("cannot write {what}: {advice}")
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

    #[test]
    fn the_advice_follows_the_kind_of_the_failure() {
        let of = |kind: ErrorKind| write_failure("series.csv", &kind.into());
        assert_eq!(
            of(ErrorKind::StorageFull),
            "cannot write series.csv: free some space or choose another folder"
        );
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::NotFound,
            ErrorKind::IsADirectory,
            ErrorKind::AlreadyExists,
        ] {
            let text = of(kind);
            assert!(text.starts_with("cannot write series.csv: "), "{text}");
            assert!(!text.contains("space"), "{kind}: {text}");
        }
        assert_eq!(of(ErrorKind::Interrupted), "cannot write series.csv");
    }
}
