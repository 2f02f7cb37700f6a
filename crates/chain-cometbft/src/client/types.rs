//! What queries give back.

use std::sync::Arc;

use rpc::{Gas, HeaderTime, number};
use serde::Deserialize;
use serde::de::Deserializer;

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
}
