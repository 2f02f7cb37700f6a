//! BigchainDB's HTTP API and event stream.
//!
//! The API has no headers and no height to ask for: what is committed comes as events, one for each
//! valid transaction, and can be looked up block by block. So [`follow_bigchaindb`] takes events as
//! they come, and asks for blocks where events may have been lost.

mod follow;

pub use self::follow::{EventSource, follow_bigchaindb};

use std::borrow::Cow;

use rpc::{Client, ClientError, ClientOptions, Endpoint, Transport};
use serde::de::{self, Deserialize, Deserializer};
use wire::encoding::decode_hash;
use wire::jsonrpc::BroadcastMethod;

/// Asks a BigchainDB server over its HTTP API. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BigchaindbClient {
    http: Client,
    options: ClientOptions,
}

/// A server's version and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigchaindbAbout {
    /// The version of its software.
    pub version: String,
    /// The address of its events.
    pub streams: String,
}

/// The path, with its query, of a POST that brings in a transaction.
pub fn bigchaindb_transactions_path(method: BroadcastMethod) -> String {
    format!("/api/v1/transactions?mode={method}")
}

impl BigchaindbClient {
    /// A client for the server at this address.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(endpoint: &Endpoint, options: &ClientOptions) -> Result<Self, ClientError> {
        let http = Client::with_options(endpoint, options.clone())?;
        let options = options.clone();
        Ok(Self { http, options })
    }

    /// The address of the server.
    pub fn endpoint(&self) -> &Endpoint {
        self.http.endpoint()
    }

    /// How it asks.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    fn refused(&self, status: u16, body: &[u8]) -> ClientError {
        ClientError::not_bigchaindb(self.endpoint(), status, body)
    }

    /// The server's version, and where its events are.
    ///
    /// # Errors
    /// [`ClientError::NotBigchaindb`] when it is no BigchainDB, and the others.
    pub async fn about(&self) -> Result<BigchaindbAbout, ClientError> {
        #[derive(serde::Deserialize)]
        struct Root {
            software: String,
            version: String,
            api: Versions,
        }
        #[derive(serde::Deserialize)]
        struct Versions {
            v1: Links,
        }
        #[derive(serde::Deserialize)]
        struct Links {
            streams: String,
        }
        let (status, body) = self.http.get("").await?;
        match serde_json::from_slice::<Root>(&body) {
            Ok(root) if root.software == "BigchainDB" => Ok(BigchaindbAbout {
                version: root.version,
                streams: root.api.v1.streams,
            }),
            _ => Err(self.refused(status, &body)),
        }
    }

    /// The ids of the valid transactions of a block, in its order; `None` when the server has no
    /// block of this height (yet, or any more).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn block(&self, height: u64) -> Result<Option<Vec<[u8; 32]>>, ClientError> {
        #[derive(serde::Deserialize)]
        struct Block {
            height: u64,
            transactions: Vec<Transaction>,
        }
        #[derive(serde::Deserialize)]
        struct Transaction {
            #[serde(deserialize_with = "id")]
            id: [u8; 32],
        }
        let path = format!("api/v1/blocks/{height}");
        let (status, body) = self.http.get(&path).await?;
        if status == 404 {
            return Ok(None);
        }
        let refused = || self.refused(status, &body);
        let block: Block = serde_json::from_slice(&body).map_err(|_| refused())?;
        if block.height != height {
            return Err(refused());
        }
        let ids = block.transactions.into_iter().map(|tx| tx.id);
        Ok(Some(ids.collect()))
    }

    /// Whether a transaction is in a block.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn is_committed(&self, id: &str) -> Result<bool, ClientError> {
        let path = format!("api/v1/transactions/{id}");
        match self.http.get(&path).await? {
            (200, _) => Ok(true),
            (404, _) => Ok(false),
            (status, body) => Err(self.refused(status, &body)),
        }
    }

    /// The height of the newest block; 0 when there is none yet. It asks for two blocks when the newest is still the
    /// one that is `known`, and else for some 2 log2(height), because the API has no other way.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn newest_height(&self, known: u64) -> Result<u64, ClientError> {
        let has_known = known > 0 && self.block(known).await?.is_some();
        let (mut low, mut step) = (if has_known { known } else { 0 }, 1);
        // The blocks of a server that has thrown old ones away end the first search too early, so
        // one that keeps only the last N is recognised from N on.
        while self.block(low + step).await?.is_some() {
            low += step;
            step = step.saturating_mul(2);
        }
        let mut missing = low + step;
        while missing - low > 1 {
            let middle = low + (missing - low) / 2;
            match self.block(middle).await? {
                Some(_) => low = middle,
                None => missing = middle,
            }
        }
        Ok(low)
    }
}

impl BigchaindbAbout {
    /// Where the events of this server are: on the advertised port and path, and on the host that
    /// was asked, because many advertise a name that only they know, such as `localhost`.
    pub fn events_of(&self, endpoint: &Endpoint) -> Option<Endpoint> {
        let advertised: Endpoint = self.streams.parse().ok()?;
        if advertised.transport() != Transport::Ws {
            return None;
        }
        Some(advertised.on_host_of(endpoint))
    }
}

/// Reads an id of 64 hexadecimal digits.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    decode_hash(text.as_bytes()).ok_or_else(|| de::Error::custom("an id has 64 digits"))
}
