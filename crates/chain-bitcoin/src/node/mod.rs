//! Queries to Bitcoin nodes over JSON-RPC, and followers of their blocks, which a reorganisation may replace.
//!
//! Ids have their bytes in the order in which they are shown, so that the text of an id is its bytes in hexadecimal.

mod branch;
mod follow;
mod observe;
mod peer;

pub use self::follow::{follow_bitcoin, follow_bitcoin_peer};
pub use self::peer::{PeerInfo, probe_peer};

use rpc::{Client, ClientError, ClientOptions, Endpoint, Mempool};
use serde::{Deserialize, Deserializer, de};
use wire::encoding::decode_hash;

use crate::workload::hash_text;

/// Asks a Bitcoin node (btcd, bchd, Bitcoin Core) over its JSON-RPC. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BitcoinClient {
    client: Client,
}

/// The node's version, chain and relay fee.
#[derive(Clone, Debug, PartialEq)]
pub struct BitcoinInfo {
    /// The hash of the first block, which identifies the chain.
    pub genesis: [u8; 32],
    /// The version as a number: btcd 0.26.2 is 260200.
    pub version: u64,
    /// The height of the newest block.
    pub blocks: u64,
    /// The least fee in satoshi for 1,000 bytes.
    pub relay_fee: u64,
}

/// A block, with the ids of its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BitcoinBlock {
    /// Its hash.
    #[serde(deserialize_with = "hash")]
    pub hash: [u8; 32],
    /// The hash of the block before; missing for the first.
    #[serde(rename = "previousblockhash", default, deserialize_with = "some_hash")]
    pub previous: Option<[u8; 32]>,
    /// Its height.
    pub height: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The time in its header, in seconds since the Unix epoch.
    pub time: i64,
    /// Ids of its transactions, the coinbase first.
    #[serde(rename = "tx", deserialize_with = "hashes")]
    pub txs: Vec<[u8; 32]>,
}

/// An unspent output.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct BitcoinOutput {
    /// Its value in coins of 100,000,000 satoshi.
    pub value: f64,
    /// Blocks on top of it, its own included; 0 in the mempool.
    pub confirmations: u64,
    /// Its locking script.
    #[serde(rename = "scriptPubKey")]
    pub script: BitcoinScript,
}

/// A locking script.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BitcoinScript {
    /// Its bytes in hexadecimal.
    pub hex: String,
}

impl BitcoinOutput {
    /// Its value in satoshi.
    pub fn satoshi(&self) -> u64 {
        (self.value * SATOSHI).round() as u64
    }
}

/// Counters of the built-in node's admission.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BitcoinAdmission {
    /// `serial` or `parallel`.
    pub mode: String,
    /// Threads that check transactions.
    pub validators: u64,
    /// Transactions checked since the start.
    pub checked: u64,
    /// Nanoseconds of processor time that checks took, of all threads.
    pub checking_ns: u64,
}

/// A transaction that a node refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct BitcoinRefusal {
    /// The code, such as -26.
    pub code: i64,
    /// The node's message.
    pub message: String,
}

impl BitcoinClient {
    /// A client for the node at this address.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(endpoint: &Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        Client::with_options(endpoint, options).map(|client| Self { client })
    }

    /// The node's address.
    pub fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    /// Asks for the node's version, chain and relay fee: by `getinfo`, or by several calls where that is missing.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn info(&self) -> Result<BitcoinInfo, ClientError> {
        #[derive(Deserialize)]
        struct Info {
            version: u64,
            relayfee: f64,
        }
        let genesis = self.block_hash(0).await?;
        let info: Info = match self.client.call("getinfo", "[]").await {
            Err(ClientError::Rpc { .. }) => self.client.call("getnetworkinfo", "[]").await?,
            info => info?,
        };
        Ok(BitcoinInfo {
            genesis,
            version: info.version,
            blocks: self.client.call("getblockcount", "[]").await?,
            relay_fee: (info.relayfee * SATOSHI).round() as u64,
        })
    }

    /// The hash of the newest block of the best chain.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn best_block(&self) -> Result<[u8; 32], ClientError> {
        let Hash(hash) = self.client.call("getbestblockhash", "[]").await?;
        Ok(hash)
    }

    /// The hash of the block at a height of the best chain.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn block_hash(&self, height: u64) -> Result<[u8; 32], ClientError> {
        let Hash(hash) = self
            .client
            .call("getblockhash", &format!("[{height}]"))
            .await?;
        Ok(hash)
    }

    /// A block by its hash.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn block(&self, hash: &[u8; 32]) -> Result<BitcoinBlock, ClientError> {
        let params = format!("[\"{}\",1]", hash_text(hash));
        self.client.call("getblock", &params).await
    }

    /// The number and bytes of transactions in the mempool.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn mempool(&self) -> Result<Mempool, ClientError> {
        self.client.call("getmempoolinfo", "[]").await
    }

    /// The ids of all transactions in the mempool. The answer has 67 bytes for each.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn mempool_ids(&self) -> Result<Vec<[u8; 32]>, ClientError> {
        let ids: Vec<Hash> = self.client.call("getrawmempool", "[]").await?;
        Ok(ids.into_iter().map(|Hash(id)| id).collect())
    }

    /// One output; `None` if it is spent or unknown.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn output(
        &self,
        txid: &[u8; 32],
        index: u32,
    ) -> Result<Option<BitcoinOutput>, ClientError> {
        let mut outputs = self.outputs(&[(*txid, index)]).await?;
        Ok(outputs.pop().flatten())
    }

    /// Several outputs in one request; `None` for one that is spent or unknown.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn outputs(
        &self,
        outpoints: &[([u8; 32], u32)],
    ) -> Result<Vec<Option<BitcoinOutput>>, ClientError> {
        // A missing output is answered with null, which is a result only in a batch's answer.
        let call = |(id, (txid, index)): (usize, &([u8; 32], u32))| {
            let params = format!("[\"{}\",{index},true]", hash_text(txid));
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"gettxout","params":{params}}}"#)
        };
        let answers: Vec<Answer<BitcoinOutput>> = self
            .batch("gettxout", outpoints.iter().enumerate().map(call))
            .await?;
        let output = |answer: Answer<BitcoinOutput>| match answer.error {
            Some(error) => Err(ClientError::Rpc {
                method: "gettxout".into(),
                code: error.code,
                message: error.message,
                data: String::new(),
            }),
            None => Ok(answer.result),
        };
        answers.into_iter().map(output).collect()
    }

    /// Sends calls of one method in one request; the results are as many as the calls.
    async fn batch<T: de::DeserializeOwned>(
        &self,
        method: &str,
        calls: impl Iterator<Item = String>,
    ) -> Result<Vec<Answer<T>>, ClientError> {
        let calls: Vec<String> = calls.collect();
        let request = format!("[{}]", calls.join(","));
        let mut body = Vec::new();
        self.client
            .post_batch(request.as_bytes(), &mut body)
            .await?;
        let unexpected = |reason: &str| self.client.unexpected(method, reason);
        let answers: Vec<Answer<T>> =
            serde_json::from_slice(&body).map_err(|error| unexpected(&error.to_string()))?;
        if answers.len() == calls.len() {
            Ok(answers)
        } else {
            Err(unexpected("a batch of another length"))
        }
    }

    /// The addresses of the node's peers, as far as it knows where they listen.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn peers(&self) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Peer {
            addr: String,
        }
        let peers: Vec<Peer> = self.client.call("getpeerinfo", "[]").await?;
        Ok(peers.into_iter().map(|peer| peer.addr).collect())
    }

    /// The counters of admission; only the built-in node has them.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] from every other node, and the other kinds of [`ClientError`].
    pub async fn admission(&self) -> Result<BitcoinAdmission, ClientError> {
        self.client.call("getadmissioninfo", "[]").await
    }

    /// Lets the node mine blocks that pay to its own address, and returns their hashes.
    ///
    /// # Errors
    /// [`ClientError::Rpc`] when it has no address to pay to, and the other kinds of [`ClientError`].
    pub async fn generate(&self, blocks: u64) -> Result<Vec<String>, ClientError> {
        self.client.call("generate", &format!("[{blocks}]")).await
    }

    /// Offers transactions in hexadecimal in one request; the result has the node's answer to each.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send(
        &self,
        transactions: &[String],
    ) -> Result<Vec<Result<String, BitcoinRefusal>>, ClientError> {
        let call = |(id, tx): (usize, &String)| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"sendrawtransaction","params":["{tx}"]}}"#
            )
        };
        let calls = transactions.iter().enumerate().map(call);
        let answers: Vec<Answer<String>> = self.batch("sendrawtransaction", calls).await?;
        Ok(answers
            .into_iter()
            .map(|answer| match (answer.result, answer.error) {
                (Some(txid), None) => Ok(txid),
                (_, Some(refusal)) => Err(refusal),
                (None, None) => Err(BitcoinRefusal {
                    code: 0,
                    message: "neither a result nor an error".into(),
                }),
            })
            .collect())
    }
}

#[derive(Deserialize)]
struct Hash(#[serde(deserialize_with = "hash")] [u8; 32]);

#[derive(Deserialize)]
struct Answer<T> {
    #[serde(default = "Option::default")]
    result: Option<T>,
    error: Option<BitcoinRefusal>,
}

fn hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    some_hash(deserializer)?.ok_or_else(|| de::Error::custom(HASH))
}

fn some_hash<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The first block's predecessor is left out, or empty.
    match text.as_str() {
        "" => Ok(None),
        text => read_hash(text).map(Some).map_err(de::Error::custom),
    }
}

fn hashes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<[u8; 32]>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let read = texts.iter().map(|text| read_hash(text));
    read.collect::<Result<_, _>>().map_err(de::Error::custom)
}

fn read_hash(text: &str) -> Result<[u8; 32], &'static str> {
    decode_hash(text.as_bytes()).ok_or(HASH)
}

const HASH: &str = "a hash has 64 hexadecimal digits";
/// Satoshi in a coin.
const SATOSHI: f64 = 1e8;
