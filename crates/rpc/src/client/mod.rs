//! Asynchronous queries of one node.

mod decode;
mod error;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use self::decode::{BlockAnswer, CodesAnswer};
pub use self::error::ClientError;
pub(crate) use self::types::number;
pub use self::types::{
    BlockCodes, BlockContent, BlockMeta, Blockchain, BroadcastReply, HeaderTime, Mempool, Status,
    TimeError,
};
use crate::codec::encode_call;
use crate::connection::Trust;
use crate::endpoint::Endpoint;
use wire::jsonrpc::{BroadcastMethod, encode_broadcast};

/// What a [`Client`] may use.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The longest one call may take, connect and body included. Default 10 s.
    pub timeout: Duration,
    /// The longest answer in bytes. A block of 50,000 transactions of 250 bytes is 17 MB of
    /// JSON, its results with the events of an application several times that. Default 512 MiB.
    pub max_answer_bytes: usize,
    /// Whose certificates are accepted for `https` and `wss`.
    pub trust: Trust,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            max_answer_bytes: 512 << 20,
            trust: Trust::native(),
        }
    }
}

/// Asks one node over HTTP, on the same host and port also when the endpoint is a WebSocket.
///
/// Cheap to clone; clones share the connections. Every method is cancel safe: dropping the future
/// drops the call, which the node may still carry out.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    endpoint: Endpoint,
    url: String,
    options: ClientOptions,
    next_id: AtomicU64,
}

impl Client {
    /// A client with the default options and this limit for every call.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn new(endpoint: &Endpoint, timeout: Duration) -> Result<Self, ClientError> {
        Self::with_options(
            endpoint,
            ClientOptions {
                timeout,
                ..Default::default()
            },
        )
    }

    /// A client with these options.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when TLS is needed and cannot be set up.
    pub fn with_options(endpoint: &Endpoint, options: ClientOptions) -> Result<Self, ClientError> {
        let setup = |reason: String| ClientError::Setup {
            endpoint: endpoint.to_string(),
            reason,
        };
        // The library insists on a provider even where TLS is not used. A failure means that
        // somebody has installed one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .timeout(options.timeout)
            .http1_only()
            .tcp_nodelay(true)
            // The measured connections know no proxy either.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        builder = if endpoint.is_tls() {
            let config = options
                .trust
                .client_config()
                .map_err(|error| setup(error.to_string()))?;
            builder.tls_backend_preconfigured(config.as_ref().clone())
        } else {
            // Without this the roots of the system would be loaded for nothing.
            builder.tls_certs_only([])
        };
        let http = builder.build().map_err(|error| setup(error.to_string()))?;
        let inner = Inner {
            http,
            endpoint: endpoint.clone(),
            url: endpoint.http_url(),
            options,
            next_id: AtomicU64::new(1),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Whom it asks.
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    /// What the node says about itself.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.call("status", "{}").await
    }

    /// The chain's id as its genesis file has it.
    ///
    /// The file can be large; [`Status::chain_id`] says the same for less.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn genesis_chain_id(&self) -> Result<String, ClientError> {
        #[derive(Deserialize)]
        struct Answer {
            genesis: Genesis,
        }
        #[derive(Deserialize)]
        struct Genesis {
            chain_id: String,
        }
        self.call("genesis", "{}")
            .await
            .map(|answer: Answer| answer.genesis.chain_id)
    }

    /// How full the mempool is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn num_unconfirmed_txs(&self) -> Result<Mempool, ClientError> {
        self.call("num_unconfirmed_txs", "{}").await
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

    /// The headers of some heights, the highest first. The node cuts the range to at most 21
    /// blocks below `max` without saying so; never count with it.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn blockchain(&self, min: u64, max: u64) -> Result<Blockchain, ClientError> {
        let params = format!(r#"{{"minHeight":"{min}","maxHeight":"{max}"}}"#);
        self.call("blockchain", &params).await
    }

    /// Sends one transaction. For measuring use a [`Connection`](crate::Connection).
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
        self.post(request, &mut body).await?;
        self.decode(method.name(), &body)
    }

    /// Any method. `params` is a JSON object as text.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] when the result does not fit `T`, and the others.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &str,
    ) -> Result<T, ClientError> {
        let mut body = Vec::new();
        self.fetch(method, params, &mut body).await?;
        self.decode(method, &body)
    }

    /// Calls and leaves the answer's body in `body`.
    pub(crate) async fn fetch(
        &self,
        method: &str,
        params: &str,
        body: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        self.post(
            encode_call(self.next_id(), method, params).into_bytes(),
            body,
        )
        .await
    }

    fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn post(&self, request: Vec<u8>, body: &mut Vec<u8>) -> Result<(), ClientError> {
        let request = self
            .inner
            .http
            .post(&self.inner.url)
            .header("content-type", "application/json")
            .body(request);
        let status = self.carry(request, body).await?;
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(self.not_rpc(Some(status), body));
        }
        Ok(())
    }

    /// Leaves what stands at a path under the endpoint's in `body`; gives the HTTP status.
    pub(crate) async fn get(&self, path: &str, body: &mut Vec<u8>) -> Result<u16, ClientError> {
        let url = format!("{}{path}", self.inner.url);
        self.carry(self.inner.http.get(url), body).await
    }

    async fn carry(
        &self,
        request: reqwest::RequestBuilder,
        body: &mut Vec<u8>,
    ) -> Result<u16, ClientError> {
        body.clear();
        let failed = |error| ClientError::of_transport(&self.inner.endpoint, &error);
        let limit = self.inner.options.max_answer_bytes;
        let too_large = || ClientError::TooLarge {
            endpoint: self.inner.endpoint.to_string(),
            limit,
        };
        let mut answer = request.send().await.map_err(failed)?;
        let expected = answer.content_length().unwrap_or(0);
        if expected > limit as u64 {
            return Err(too_large());
        }
        body.reserve(usize::try_from(expected).unwrap_or(0));
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer.status().as_u16())
    }

    pub(crate) fn decode<'a, T: Deserialize<'a>>(
        &self,
        method: &str,
        body: &'a [u8],
    ) -> Result<T, ClientError> {
        match serde_json::from_slice::<Envelope<T>>(body) {
            Ok(Envelope {
                error: Some(error), ..
            }) => Err(ClientError::Rpc {
                method: method.into(),
                code: error.code,
                message: error.message,
                data: error.data.map(plain_text).unwrap_or_default(),
            }),
            Ok(Envelope {
                result: Some(result),
                ..
            }) => Ok(result),
            Ok(_) => Err(self.not_rpc(None, body)),
            Err(error) if error.is_data() && is_answer(body) => {
                Err(self.unexpected(method, &error.to_string()))
            }
            Err(_) => Err(self.not_rpc(None, body)),
        }
    }

    pub(crate) fn unexpected(&self, method: &str, reason: &str) -> ClientError {
        let endpoint = self.inner.endpoint.to_string();
        ClientError::Unexpected {
            endpoint,
            method: method.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn not_bigchaindb(&self, status: u16, body: &[u8]) -> ClientError {
        ClientError::not_bigchaindb(&self.inner.endpoint, status, body)
    }

    fn not_rpc(&self, status: Option<u16>, body: &[u8]) -> ClientError {
        ClientError::not_rpc(&self.inner.endpoint, status, body)
    }
}

pub(crate) fn at_height(height: u64) -> String {
    format!(r#"{{"height":"{height}"}}"#)
}

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct Envelope<T> {
    result: Option<T>,
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    #[serde(default)]
    message: String,
    data: Option<serde_json::Value>,
}

fn plain_text(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Whether a body is a JSON-RPC answer at all.
fn is_answer(body: &[u8]) -> bool {
    crate::codec::decode_answer(body).is_ok()
}
