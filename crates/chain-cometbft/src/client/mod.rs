//! Asynchronous queries of one node.

mod decode;
mod types;

use std::ops::Deref;
use std::time::Duration;

use rpc::{BroadcastMethod, ClientError, ClientOptions, Endpoint, Mempool, encode_broadcast};
use serde::Deserialize;

use self::decode::ResultsHash;
pub(crate) use self::decode::{BlockAnswer, CodesAnswer, hash_of_successes};
pub use self::decode::{ByHash, Naming};
pub use self::types::{BlockCodes, BlockContent, BroadcastReply, Status};

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

    /// What the node says about itself.
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
