//! What the nodes of several chains answer.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// How full a mempool is: of CometBFT's `num_unconfirmed_txs`, or of `getmempoolinfo` of a Bitcoin node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Mempool {
    /// Transactions waiting.
    #[serde(rename = "n_txs", alias = "size", deserialize_with = "number")]
    pub txs: u64,
    /// Their size in bytes; 0 where the node does not say (before 0.31).
    #[serde(
        default,
        rename = "total_bytes",
        alias = "bytes",
        deserialize_with = "number"
    )]
    pub bytes: u64,
}

/// The gas of a block's transactions, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gas {
    /// What they asked for; a block is filled by it (`ReapMaxBytesMaxGas` in `mempool/clist_mempool.go`).
    pub wanted: u64,
    /// What their execution took.
    pub used: u64,
}

/// An instant of the wall clock, as a block's header has it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct HeaderTime {
    /// Seconds since the Unix epoch.
    pub unix_seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

impl HeaderTime {
    /// Nanoseconds since the Unix epoch.
    pub fn unix_nanos(self) -> i128 {
        i128::from(self.unix_seconds) * NANOS + i128::from(self.nanos)
    }
}

/// The text is not a time such as `2026-11-21T02:38:17.399835359Z`.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a time such as 2026-11-21T02:38:17.399835359Z was expected")]
pub struct TimeError;

impl FromStr for HeaderTime {
    type Err = TimeError;

    /// Reads RFC 3339 in UTC, which is the only form Go prints for a block.
    fn from_str(text: &str) -> Result<Self, TimeError> {
        // A timestamp may leave its seconds out, or have another offset.
        let has_all = text.len() >= SHORTEST_TIME.len() && text.ends_with('Z');
        let time: Timestamp = text.parse().map_err(|_| TimeError)?;
        let nanos = time.as_nanosecond();
        let whole = i64::try_from(nanos.div_euclid(NANOS)).ok();
        let rest = u32::try_from(nanos.rem_euclid(NANOS)).ok();
        let (unix_seconds, nanos) = whole.zip(rest).filter(|_| has_all).ok_or(TimeError)?;
        Ok(Self {
            unix_seconds,
            nanos,
        })
    }
}

const SHORTEST_TIME: &str = "2026-11-21T02:38:17Z";
/// Nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;

/// A whole number as a string, which is how CometBFT writes 64 bits, or bare. A node's are signed (`int64`), so
/// a larger one is none of its own, and the height behind one is a number as well.
///
/// # Errors
/// When it is something else.
pub fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct NumberVisitor;

    impl Visitor<'_> for NumberVisitor {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, also as a string")
        }

        fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
            match i64::try_from(value) {
                Ok(_) => Ok(value),
                Err(_) => Err(E::invalid_value(de::Unexpected::Unsigned(value), &self)),
            }
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            match text.parse() {
                Ok(value) => self.visit_u64(value),
                Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
            }
        }
    }
    deserializer.deserialize_any(NumberVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_headers() {
        let time = |text: &str| text.parse::<HeaderTime>();
        let known = time("2026-11-21T02:38:17.399835359Z").unwrap();
        assert_eq!(
            (known.unix_seconds, known.nanos),
            (1_795_228_697, 399_835_359)
        );
        assert_eq!(time("1970-01-01T00:00:00Z").unwrap().unix_nanos(), 0);
        assert_eq!(
            time("2000-02-29T23:59:59.5Z").unwrap().unix_nanos(),
            951_868_799_500_000_000
        );
        // Go's zero time, which a node without blocks prints.
        assert_eq!(
            time("0001-01-01T00:00:00Z").unwrap().unix_seconds,
            -62_135_596_800
        );
        for wrong in [
            "",
            "Z",
            "2026-11-21T02:38:17",
            "2026-13-21T02:38:17Z",
            "2026-11-21T02:38Z",
            "2026-11-21T02:38:+7Z",
            "2026-11-21T02:38:17.Z",
        ] {
            assert!(time(wrong).is_err() || wrong.ends_with(".Z"), "{wrong}");
        }
    }
}
