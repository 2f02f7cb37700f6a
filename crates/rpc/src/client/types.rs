//! What queries give back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

/// What a node says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The chain it belongs to (`node_info.network`).
    pub chain_id: String,
    /// The name its operator gave it.
    pub moniker: String,
    /// The version of its software.
    pub version: String,
    /// Whether it is still fetching old blocks; it takes no transactions then.
    pub catching_up: bool,
    /// The highest block it has; 0 = none.
    pub latest_block_height: u64,
    /// The lowest block it has; 0 or 1 when it has not thrown any away.
    pub earliest_block_height: u64,
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Answer {
            node_info: NodeInfo,
            sync_info: SyncInfo,
        }
        #[derive(Deserialize)]
        struct NodeInfo {
            network: String,
            #[serde(default)]
            moniker: String,
            #[serde(default)]
            version: String,
        }
        #[derive(Deserialize)]
        struct SyncInfo {
            #[serde(deserialize_with = "number")]
            latest_block_height: u64,
            #[serde(default, deserialize_with = "number")]
            earliest_block_height: u64,
            /// `syncing` in 0.20.
            #[serde(default, alias = "syncing")]
            catching_up: bool,
        }
        let Answer {
            node_info,
            sync_info,
        } = Answer::deserialize(deserializer)?;
        Ok(Self {
            chain_id: node_info.network,
            moniker: node_info.moniker,
            version: node_info.version,
            catching_up: sync_info.catching_up,
            latest_block_height: sync_info.latest_block_height,
            earliest_block_height: sync_info.earliest_block_height,
        })
    }
}

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

/// A block without its transactions' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockContent {
    /// Its height.
    pub height: u64,
    /// The chain it belongs to.
    pub chain_id: String,
    /// The time in its header: what the validators agreed on.
    pub header_time: HeaderTime,
    /// Its own hash.
    pub hash: Option<[u8; 32]>,
    /// The hash of the block before; `None` for the first.
    pub last_hash: Option<[u8; 32]>,
    /// The proposer's address, in hexadecimal.
    pub proposer: String,
    /// SHA-256 of each transaction, in the block's order.
    pub hashes: Vec<[u8; 32]>,
    /// The transactions' sizes in bytes, in sum.
    pub bytes: u64,
}

/// The codes of a block's transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockCodes {
    /// How many transactions there are.
    pub count: usize,
    /// The code of each; empty when all are 0.
    pub codes: Vec<u32>,
    /// The name space of each of `codes`.
    pub codespaces: Vec<Arc<str>>,
    /// The gas they wanted and used; `None` where the results were not read.
    pub gas: Option<Gas>,
}

/// The gas of a block's transactions, in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gas {
    /// What they asked for; a block is filled by it (`ReapMaxBytesMaxGas` in `mempool/clist_mempool.go`).
    pub wanted: u64,
    /// What their execution took.
    pub used: u64,
}

/// What a node answered to one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroadcastReply {
    /// CheckTx's code, or that of the execution if CheckTx accepted; 0 = accepted.
    pub code: u32,
    /// The application's words.
    pub log: String,
    /// SHA-256 of the transaction, in upper-case hexadecimal.
    pub hash: String,
    /// The block's height after `broadcast_tx_commit`, else 0.
    pub height: u64,
}

impl<'de> Deserialize<'de> for BroadcastReply {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            code: u32,
            log: String,
            hash: String,
            #[serde(deserialize_with = "number")]
            height: u64,
            check_tx: Option<CheckedTx>,
            #[serde(alias = "deliver_tx")]
            tx_result: Option<CheckedTx>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct CheckedTx {
            code: u32,
            log: String,
        }
        let answer = Answer::deserialize(deserializer)?;
        let (code, log) = match (answer.check_tx, answer.tx_result) {
            (Some(check), _) if check.code != 0 => (check.code, check.log),
            (Some(_), Some(executed)) => (executed.code, executed.log),
            _ => (answer.code, answer.log),
        };
        Ok(Self {
            code,
            log,
            hash: answer.hash,
            height: answer.height,
        })
    }
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

    /// At 2b52556 a node at height 2^64 - 1 had the follower add one to it.
    #[test]
    fn case_92_a_height_that_no_chain_has_is_not_read() {
        let latest = |height: &str| {
            let text = format!(
                r#"{{"node_info":{{"network":"c","version":"1"}},"sync_info":{{"latest_block_height":{height},"catching_up":false}}}}"#
            );
            let status = serde_json::from_str::<Status>(&text);
            status.ok().map(|status| status.latest_block_height)
        };
        let highest = i64::MAX.unsigned_abs();
        for (height, read) in [
            (7, true),
            (highest, true),
            (highest + 1, false),
            (u64::MAX, false),
        ] {
            let expected = read.then_some(height);
            assert_eq!(latest(&height.to_string()), expected);
            assert_eq!(latest(&format!("\"{height}\"")), expected);
        }
    }

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
