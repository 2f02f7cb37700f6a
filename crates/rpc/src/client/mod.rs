//! Asynchronous queries of one node.

mod decode;
mod error;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use self::decode::ResultsHash;
use self::decode::held_back;
pub(crate) use self::decode::{BlockAnswer, CodesAnswer, hash_of_successes};
pub use self::error::ClientError;
pub use self::types::{
    BlockCodes, BlockContent, BroadcastReply, Gas, HeaderTime, Mempool, Status, TimeError, number,
};
use crate::codec::encode_call;
use crate::connection::{Connection, ConnectionError, ConnectionOptions, TaskConnection, Trust};
use crate::endpoint::{Endpoint, Transport};
use wire::jsonrpc::{BroadcastMethod, encode_broadcast};

base::settings! {
    /// What a [`Client`] may use.
    #[derive(Clone, Debug)]
    pub struct ClientOptions {
        /// The longest one call may take, connect and body included. Default 10 s.
        pub timeout: Duration = Duration::from_secs(10),
        /// The longest answer in bytes. A block of 50,000 transactions of 250 bytes is 17 MB of
        /// JSON, its results with the events of an application several times that. Default 512 MiB.
        pub max_answer_bytes: AnswerLimit = AnswerLimit::from(512 << 20),
        /// Whose certificates are accepted for `https` and `wss`.
        pub trust: Trust = Trust::native(),
    }
}

/// The longest answer in bytes. It may change while a client works: it holds for the calls that come after. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct AnswerLimit(Arc<AtomicUsize>);

impl AnswerLimit {
    /// Changes it.
    pub fn set(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl From<usize> for AnswerLimit {
    fn from(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }
}

impl ClientOptions {
    /// The usual ones, with this time for an answer and these roots.
    pub fn new(timeout: Duration, trust: &Trust) -> Self {
        Self {
            timeout,
            trust: trust.clone(),
            ..Self::default()
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
    endpoint: Endpoint,
    /// The same over HTTP.
    http: Endpoint,
    timeout: Duration,
    options: ConnectionOptions,
    max_answer_bytes: AnswerLimit,
    /// Connections that no query uses, at most [`MAX_IDLE`], with the longest answer that each takes.
    idle: Mutex<Vec<(usize, Connection)>>,
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
        check_trust(endpoint, &options.trust)?;
        let inner = Inner {
            endpoint: endpoint.clone(),
            http: endpoint.with_transport(Transport::Http),
            timeout: options.timeout,
            options: ConnectionOptions {
                read_buffer_bytes: READ_BUFFER_BYTES,
                trust: options.trust,
                ..Default::default()
            },
            max_answer_bytes: options.max_answer_bytes,
            idle: Mutex::default(),
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

    /// Sends one transaction. For measuring use a [`Connection`].
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

    /// Calls and leaves the answer's body in `body`. What a proxy holds back unasked is asked again.
    pub(crate) async fn fetch(
        &self,
        method: &str,
        params: &str,
        body: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let request = encode_call(self.next_id(), method, params).into_bytes();
        let end = Instant::now() + self.inner.timeout;
        loop {
            self.post_for(b"{", &request, body).await?;
            let pause = held_back(body).map(|pause| pause.max(LEAST_PAUSE));
            match pause.filter(|pause| *pause < end.saturating_duration_since(Instant::now())) {
                Some(pause) => sleep(pause).await,
                None => return Ok(()),
            }
        }
    }

    fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn post(&self, request: Vec<u8>, body: &mut Vec<u8>) -> Result<(), ClientError> {
        self.post_for(b"{", &request, body).await
    }

    /// Posts a JSON-RPC batch and leaves the array of its answers in `body`.
    ///
    /// # Errors
    /// [`ClientError`] when the node does not answer with one.
    pub async fn post_batch(&self, request: &[u8], body: &mut Vec<u8>) -> Result<(), ClientError> {
        self.post_for(b"[", request, body).await
    }

    /// Posts; the answer has to begin in this way.
    async fn post_for(
        &self,
        begin: &[u8],
        request: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<(), ClientError> {
        let queue = |connection: &mut Connection| {
            connection.queue(request);
        };
        let status = self.carry(queue, body).await?;
        if !body.trim_ascii_start().starts_with(begin) {
            return Err(self.not_rpc(Some(status), body));
        }
        Ok(())
    }

    /// The text that a GET of the endpoint's own path brings.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] for any other answer than 200, and the others.
    pub async fn text(&self) -> Result<String, ClientError> {
        let mut body = Vec::new();
        let path = self.inner.http.path();
        let path = match path.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        match self.get_at(path, &mut body).await? {
            200 => Ok(String::from_utf8_lossy(&body).into_owned()),
            status => Err(self.unexpected("GET", &format!("status {status}"))),
        }
    }

    async fn get_at(&self, path: &str, body: &mut Vec<u8>) -> Result<u16, ClientError> {
        let host = self.inner.http.authority();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let queue = |connection: &mut Connection| connection.queue_request(request.as_bytes());
        self.carry(queue, body).await
    }

    async fn carry(
        &self,
        queue: impl FnOnce(&mut Connection),
        body: &mut Vec<u8>,
    ) -> Result<u16, ClientError> {
        let endpoint = &self.inner.endpoint;
        match timeout(self.inner.timeout, self.inner.exchange(queue, body)).await {
            Ok(result) => result.map_err(|error| ClientError::of_connection(endpoint, &error)),
            Err(_) => Err(ClientError::Timeout {
                endpoint: endpoint.to_string(),
            }),
        }
    }

    /// The result in the body of an answer to `method`.
    ///
    /// # Errors
    /// [`ClientError`] when it is an error, or does not fit `T`.
    pub fn decode<'a, T: Deserialize<'a>>(
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

    /// An answer to `method` that does not fit.
    pub fn unexpected(&self, method: &str, reason: &str) -> ClientError {
        let endpoint = self.inner.endpoint.to_string();
        ClientError::Unexpected {
            endpoint,
            method: method.into(),
            reason: reason.into(),
        }
    }

    fn not_rpc(&self, status: Option<u16>, body: &[u8]) -> ClientError {
        ClientError::not_rpc(&self.inner.endpoint, status, body)
    }
}

impl Inner {
    /// Sends what `queue` queues and leaves the body of the answer in `body`; gives its status.
    async fn exchange(
        &self,
        queue: impl FnOnce(&mut Connection),
        body: &mut Vec<u8>,
    ) -> Result<u16, ConnectionError> {
        body.clear();
        let limit = self.max_answer_bytes.bytes();
        let mut connection = match self.take_idle(limit) {
            Some(connection) => TaskConnection::of(connection)?,
            None => {
                let options = ConnectionOptions {
                    max_message_bytes: limit,
                    ..self.options.clone()
                };
                TaskConnection::open(&self.http, &options).await?
            }
        };
        queue(connection.connection());
        let mut status = None;
        loop {
            let read = connection.read(|message| {
                body.extend_from_slice(message.body);
                status = Some(message.status);
            });
            let read = read.await;
            let Some(status) = status else {
                read?;
                continue;
            };
            // An error behind the answer is the end of the connection.
            let mut idle = self.idle.lock();
            if read.is_ok() && idle.len() < MAX_IDLE {
                idle.push((limit, connection.into_connection()));
            }
            return Ok(status);
        }
    }

    /// An idle connection of this limit that the node has not closed.
    fn take_idle(&self, limit: usize) -> Option<Connection> {
        let mut idle = self.idle.lock();
        std::iter::from_fn(|| idle.pop()).find_map(|(taken, mut connection)| {
            let is_open = taken == limit && connection.read(&mut |_| ()).is_ok();
            is_open.then_some(connection)
        })
    }
}

/// Whether TLS to this endpoint can be set up.
///
/// # Errors
/// [`ClientError::Setup`] when it cannot.
pub fn check_trust(endpoint: &Endpoint, trust: &Trust) -> Result<(), ClientError> {
    if !endpoint.is_tls() {
        return Ok(());
    }
    let config = trust.client_config();
    config.map(drop).map_err(|error| ClientError::Setup {
        endpoint: endpoint.to_string(),
        reason: error.to_string(),
    })
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

/// Connections that are kept for later queries; a follower has two queries under way at most.
const MAX_IDLE: usize = 4;
/// Before a question is asked again: many of them may wait.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
const READ_BUFFER_BYTES: usize = 64 << 10;
