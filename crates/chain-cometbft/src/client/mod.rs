//! Asynchronous queries of one node, and what they give back.

mod decode;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rpc::{
    BroadcastMethod, ClientError, ClientOptions, Endpoint, Gas, HeaderTime, Mempool,
    encode_broadcast, number,
};
use serde::Deserialize;
use serde::de::Deserializer;

use self::decode::ResultsHash;
pub(crate) use self::decode::{BlockAnswer, CodesAnswer, hash_of_successes};
pub use self::decode::{ByHash, Naming};

/// Asks one CometBFT node, beside what [`rpc::Client`] asks of any node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client(rpc::Client);

impl Deref for Client {
    type Target = rpc::Client;

    fn deref(&self) -> &rpc::Client {
        &self.0
    }
}

impl Client {
    /// A client with the default options and this limit for every call.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(endpoint: &Endpoint, timeout: Duration) -> Result<Self, ClientError> {
        rpc::Client::new(endpoint, timeout).map(Self)
    }

    /// A client with these options.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn with_options(endpoint: &Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        rpc::Client::with_options(endpoint, options).map(Self)
    }

    /// The node's status.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.call("status", "{}").await
    }

    /// How full the mempool is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn num_unconfirmed_txs(&self) -> Result<Mempool, ClientError> {
        self.call("num_unconfirmed_txs", "{}").await
    }

    /// Transactions that wait in the mempool, the oldest first: a node gives 100 at most
    /// (`rpc/core/env.go`, `maxPerPage`).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn unconfirmed_txs(&self) -> Result<Vec<Vec<u8>>, ClientError> {
        #[derive(Deserialize)]
        struct Waiting {
            txs: Option<Vec<String>>,
        }
        let waiting: Waiting = self.call("unconfirmed_txs", r#"{"limit":"100"}"#).await?;
        let decode = |text: &String| base64_simd::STANDARD.decode_to_vec(text);
        let txs = waiting.txs.unwrap_or_default();
        let txs: Result<Vec<Vec<u8>>, _> = txs.iter().map(decode).collect();
        txs.map_err(|_| self.unexpected("unconfirmed_txs", "a transaction is not base64"))
    }

    /// The block of a height: header and the hashes of its transactions.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when the node does not have it (yet, or any more), and the others.
    pub async fn block(&self, height: u64) -> Result<BlockContent, ClientError> {
        let mut body = Vec::new();
        self.fetch("block", &at_height(height), &mut body).await?;
        let answer: BlockAnswer = self.decode("block", &body)?;
        answer
            .content
            .ok_or_else(|| self.unexpected("block", "the block is null"))
    }

    /// The codes with which the transactions of a block were executed.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when the node does not have them, and the others.
    pub async fn block_results(&self, height: u64) -> Result<BlockCodes, ClientError> {
        let mut body = Vec::new();
        self.fetch("block_results", &at_height(height), &mut body)
            .await?;
        self.decode("block_results", &body)
            .map(|answer: CodesAnswer| answer.codes)
    }

    /// The hash over the results of a height's transactions, which the next height's header carries:
    /// `last_results_hash`, some hundred bytes of answer whatever the block's size.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when the node does not have the next height, and the others.
    pub(crate) async fn results_hash(
        &self,
        height: u64,
        body: &mut Vec<u8>,
    ) -> Result<Option<[u8; 32]>, ClientError> {
        let next = height + 1;
        let params = format!(r#"{{"minHeight":"{next}","maxHeight":"{next}"}}"#);
        self.fetch("blockchain", &params, body).await?;
        let answer: ResultsHash = self.decode("blockchain", body)?;
        Ok(answer.of(next))
    }

    /// Sends one transaction. For measuring use a [`Connection`](rpc::Connection).
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when the node did not take it, and the others; after a timeout or a
    /// broken connection the node may have it all the same.
    pub async fn broadcast(
        &self,
        method: BroadcastMethod,
        tx: &[u8],
    ) -> Result<BroadcastReply, ClientError> {
        let mut request = Vec::new();
        encode_broadcast(&mut request, self.next_id(), method, tx);
        let mut body = Vec::new();
        self.post(&request, &mut body).await?;
        self.decode(method.name(), &body)
    }
}

pub(crate) fn at_height(height: u64) -> String {
    format!(r#"{{"height":"{height}"}}"#)
}

/// A node's status.
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
