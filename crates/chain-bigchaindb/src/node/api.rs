//! Queries of BigchainDB's HTTP API.

use std::borrow::Cow;

use serde::de::{self, Deserialize, Deserializer};
use wire::encoding::decode_hash;

use rpc::{Client, ClientError, ClientOptions, Endpoint, Transport};
use wire::jsonrpc::BroadcastMethod;

/// Asks a BigchainDB server over its HTTP API. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BigchaindbClient {
    client: Client,
}

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BigchaindbAbout {
    /// The version of its software.
    pub version: String,
    /// Where it says its events are.
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
    pub fn new(endpoint: &Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        Client::with_options(endpoint, options).map(|client| Self { client })
    }

    /// Whom it asks.
    pub fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    /// Who answers: the version, and where the events are.
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
        let mut body = Vec::new();
        let status = self.client.get("", &mut body).await?;
        match serde_json::from_slice::<Root>(&body) {
            Ok(root) if root.software == "BigchainDB" => Ok(BigchaindbAbout {
                version: root.version,
                streams: root.api.v1.streams,
            }),
            _ => Err(self.client.not_bigchaindb(status, &body)),
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
        let mut body = Vec::new();
        let path = format!("api/v1/blocks/{height}");
        let status = self.client.get(&path, &mut body).await?;
        if status == 404 {
            return Ok(None);
        }
        let refused = || self.client.not_bigchaindb(status, &body);
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
        let mut body = Vec::new();
        let path = format!("api/v1/transactions/{id}");
        match self.client.get(&path, &mut body).await? {
            200 => Ok(true),
            404 => Ok(false),
            status => Err(self.client.not_bigchaindb(status, &body)),
        }
    }

    /// The height of the newest block; 0 when there is none yet. It asks for some 2 log2(height)
    /// blocks, because the API has no other way.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn newest_height(&self) -> Result<u64, ClientError> {
        let (mut low, mut step) = (0, 1);
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
pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    decode_hash(text.as_bytes()).ok_or_else(|| de::Error::custom("an id has 64 digits"))
}
