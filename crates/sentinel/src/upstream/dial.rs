//! From an endpoint to a stream of bytes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rpc::{Endpoint, Trust};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsConnector, rustls::pki_types as rustls_pki_types};
use tokio_util::either::Either;

use super::UpstreamError;

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
    /// [`UpstreamError::Connect`] and [`UpstreamError::ConnectTimeout`].
    ///
    /// # Cancel safety
    /// Dropping the future gives the attempt up.
    pub(super) async fn connect(&self) -> Result<Stream, UpstreamError> {
        let node = || self.0.endpoint.to_string();
        match timeout(self.0.limit, self.dial()).await {
            Ok(dialled) => {
                dialled.map_err(|error| UpstreamError::Connect(node(), error.to_string()))
            }
            // A full backlog looks like this: the node takes no more connections.
            Err(_) => Err(UpstreamError::ConnectTimeout(node())),
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialer").field(&self.0.endpoint).finish()
    }
}
