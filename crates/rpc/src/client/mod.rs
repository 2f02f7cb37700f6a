//! Asynchronous queries of one node.

mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{Instant, sleep};

use self::types::cause;
pub use self::types::{ClientError, Gas, HeaderTime, Mempool, TimeError, number};
use crate::connection::Trust;
use crate::endpoint::Endpoint;

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
    /// Of the same node over HTTP.
    url: String,
    http: reqwest::Client,
    timeout: Duration,
    max_answer_bytes: AnswerLimit,
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
        let tls = options.trust.for_reqwest(endpoint.is_tls());
        let http = reqwest::Client::builder()
            .timeout(options.timeout)
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(MAX_IDLE)
            .tls_backend_preconfigured(tls.map_err(|error| setup(error.to_string()))?)
            .build();
        let inner = Inner {
            endpoint: endpoint.clone(),
            url: endpoint.http_url(),
            http: http.map_err(|error| setup(cause(&error)))?,
            timeout: options.timeout,
            max_answer_bytes: options.max_answer_bytes,
            next_id: AtomicU64::new(1),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The node's address.
    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
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
    ///
    /// # Errors
    /// [`ClientError`] when no JSON-RPC answer comes.
    pub async fn fetch(
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

    /// An id for the next request.
    pub fn next_id(&self) -> u64 {
        self.inner.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Posts a JSON-RPC request and leaves its answer in `body`. It is asked once.
    ///
    /// # Errors
    /// [`ClientError`] when no JSON-RPC answer comes.
    pub async fn post(&self, request: &[u8], body: &mut Vec<u8>) -> Result<(), ClientError> {
        self.post_for(b"{", request, body).await
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
        let post = self.inner.http.post(&self.inner.url);
        let post = post.header(CONTENT_TYPE, "application/json");
        let status = self.carry(post.body(request.to_vec()), body).await?;
        if !body.trim_ascii_start().starts_with(begin) {
            return Err(self.not_rpc(Some(status), body));
        }
        Ok(())
    }

    /// The status and the body that a GET of this path under the endpoint's brings.
    ///
    /// # Errors
    /// [`ClientError`] when no answer comes, or one that is too long.
    pub async fn get(&self, path: &str) -> Result<(u16, Vec<u8>), ClientError> {
        self.get_url(&format!("{}{path}", self.inner.url)).await
    }

    /// The text that a GET of the endpoint's own path brings, with a query such as `?columns=80`, or without one.
    ///
    /// # Errors
    /// [`ClientError::Unexpected`] for any other answer than 200, and the others.
    pub async fn text(&self, query: &str) -> Result<String, ClientError> {
        let url = self.inner.url.trim_end_matches('/');
        match self.get_url(&format!("{url}{query}")).await? {
            (200, body) => Ok(String::from_utf8_lossy(&body).into_owned()),
            (status, _) => Err(self.unexpected("GET", &format!("status {status}"))),
        }
    }

    async fn get_url(&self, url: &str) -> Result<(u16, Vec<u8>), ClientError> {
        let mut body = Vec::new();
        let status = self.carry(self.inner.http.get(url), &mut body).await?;
        Ok((status, body))
    }

    /// Sends a request and leaves the body of its answer in `body`; gives the status.
    async fn carry(
        &self,
        mut request: RequestBuilder,
        body: &mut Vec<u8>,
    ) -> Result<u16, ClientError> {
        body.clear();
        let endpoint = &self.inner.endpoint;
        let failed = |error: reqwest::Error| ClientError::of_request(endpoint, &error);
        let limit = self.inner.max_answer_bytes.bytes();
        if let Some(authorization) = endpoint.authorization() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let mut answer = request.send().await.map_err(failed)?;
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > limit {
                return Err(ClientError::TooLarge {
                    endpoint: endpoint.to_string(),
                    limit,
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer.status().as_u16())
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

/// The body of a call; `params` is a JSON object or array as text.
pub fn encode_call(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// How long a proxy wants to be left alone, which held a question back and did not ask the node: sentinel's
/// `(reason: rate, retry_after_ms: 5, not forwarded)`, where one client reads faster than it may.
fn held_back(body: &[u8]) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Answer {
        error: Refusal,
    }
    #[derive(Deserialize)]
    struct Refusal {
        data: String,
    }
    // Not every block is read twice.
    if body.len() > MAX_REFUSAL_BYTES {
        return None;
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let (_, rest) = answer.error.data.split_once("retry_after_ms: ")?;
    let (millis, rest) = rest.split_once(',')?;
    let is_held_back = rest.trim_end_matches(')').ends_with("not forwarded");
    is_held_back.then_some(Duration::from_millis(millis.parse().ok()?))
}

const MAX_REFUSAL_BYTES: usize = 1_024;

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
    let read = serde_json::from_slice::<Envelope<IgnoredAny>>(body);
    read.is_ok_and(|answer| answer.result.is_some() || answer.error.is_some())
}

/// Connections that are kept for later queries; a follower has two queries under way at most.
const MAX_IDLE: usize = 4;
/// Before a question is asked again: many of them may wait.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
