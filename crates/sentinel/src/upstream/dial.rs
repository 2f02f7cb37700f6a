//! From an endpoint to a stream of bytes, and what goes wrong on the way to a node.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use rpc::{Endpoint, Trust};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types as rustls_pki_types;
use tokio_util::either::Either;

use crate::refusal::{Reason, Refusal};

/// A connection to a node, encrypted or not.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Opens connections to one node.
#[derive(Clone)]
pub(super) struct Dialer(Arc<Target>);

struct Target {
    endpoint: Endpoint,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    limit: Duration,
}

impl Dialer {
    /// Prepares; `limit` is for name, connect and TLS together.
    ///
    /// # Errors
    /// [`UpstreamError::Setup`] when TLS is needed and cannot be set up.
    pub(super) fn new(
        endpoint: &Endpoint,
        trust: &Trust,
        limit: Duration,
    ) -> Result<Self, UpstreamError> {
        let tls = if endpoint.is_tls() {
            let config = trust.client_config();
            let config = config.map_err(|error| UpstreamError::setup(endpoint, &error))?;
            let name = ServerName::try_from(endpoint.host());
            let name = name.map_err(|error| UpstreamError::setup(endpoint, &error))?;
            Some((TlsConnector::from(config), name))
        } else {
            None
        };
        Ok(Self(Arc::new(Target {
            endpoint: endpoint.clone(),
            tls,
            limit,
        })))
    }

    /// The node.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// How long a connect may take.
    pub(super) fn limit(&self) -> Duration {
        self.0.limit
    }

    /// The node cannot be used.
    pub(super) fn setup(&self, reason: &impl ToString) -> UpstreamError {
        UpstreamError::setup(&self.0.endpoint, reason)
    }

    /// The node did not answer within the limit.
    pub(super) fn timeout(&self) -> UpstreamError {
        UpstreamError::Timeout(self.0.endpoint.to_string())
    }

    /// The connection to the node broke.
    pub(super) fn broken(&self, reason: &impl ToString) -> UpstreamError {
        UpstreamError::Broken(self.0.endpoint.to_string(), reason.to_string())
    }

    /// The node answered something unreadable.
    pub(super) fn garbage(&self, reason: &impl ToString) -> UpstreamError {
        UpstreamError::Garbage(self.0.endpoint.to_string(), reason.to_string())
    }

    async fn dial(&self) -> io::Result<Stream> {
        let Target { endpoint, tls, .. } = &*self.0;
        let tcp = TcpStream::connect((endpoint.host(), endpoint.port())).await?;
        tcp.set_nodelay(true)?;
        rpc::keep_alive(&tcp)?;
        match tls {
            None => Ok(Either::Left(tcp)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), tcp).await?;
                Ok(Either::Right(Box::new(stream)))
            }
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`UpstreamError::Connect`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up.
    pub(super) async fn connect(&self) -> Result<Stream, UpstreamError> {
        // A full backlog is late: the node takes no more connections.
        let late = |_| Err(io::Error::other("no connection in time"));
        let dialled = timeout(self.0.limit, self.dial()).await;
        dialled
            .unwrap_or_else(late)
            .map_err(|error| UpstreamError::Connect(self.0.endpoint.to_string(), error.to_string()))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialer").field(&self.0.endpoint).finish()
    }
}

/// Why a node gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// This endpoint cannot be used at all, and why.
    #[error("{0} cannot be used: {1}")]
    Setup(String, String),
    /// No connection to this endpoint, and why: nothing was sent.
    #[error("{0} cannot be reached: {1}")]
    Connect(String, String),
    /// No answer of this endpoint within the limit; the node may have seen the request.
    #[error("{0} did not answer in time")]
    Timeout(String),
    /// The connection to this endpoint ended before the answer did, and why; the node may have seen
    /// the request.
    #[error("{0} broke the connection off: {1}")]
    Broken(String, String),
    /// The answer of this endpoint is no HTTP, or not the answer to the request, and why.
    #[error("{0} answered something unreadable: {1}")]
    Garbage(String, String),
    /// The request cannot be put into HTTP, and why.
    #[error("the request cannot be forwarded: {0}")]
    Request(String),
    /// The answer is longer than this many bytes, which may be held.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(usize),
    /// The byte ledger is full.
    #[error("the buffers are full")]
    Memory,
    /// The node answered with a JSON-RPC error, and its text.
    #[error("the node refused: {0}")]
    Refused(String),
}

impl UpstreamError {
    /// This endpoint cannot be used, and why.
    pub(super) fn setup(endpoint: &Endpoint, reason: &impl ToString) -> Self {
        Self::Setup(endpoint.to_string(), reason.to_string())
    }

    /// Whether the node cannot have seen the request.
    pub(super) const fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(..))
    }
}

/// The text for the client of a read. The endpoint's address is left out: it is the operator's business.
impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Self {
        use UpstreamError::{
            Broken, Connect, Garbage, Memory, Refused, Request, Setup, Timeout, TooLarge,
        };
        let upstream = |text: &str| Self::new(Reason::Upstream, text);
        let text = error.to_string();
        match error {
            Memory => Self::buffers_full(),
            Request(_) => Self::new(Reason::Parse, text),
            Timeout(_) => upstream("the node did not answer in time").retry_after(SHORT_PAUSE),
            Broken(..) => upstream("the node broke the connection off").retry_after(SHORT_PAUSE),
            Garbage(..) => upstream("the node answered something that cannot be read"),
            Setup(..) | Connect(..) => upstream("no node can be reached").retry_after(SHORT_PAUSE),
            TooLarge(_) | Refused(_) => upstream(&text),
        }
    }
}

/// A node that restarts is back within seconds.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
