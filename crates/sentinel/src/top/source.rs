//! Asking the operator's listener.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::overview::{Overview, PATH};

/// Where an operator's listener is: host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

/// Why a text is no such address.
#[derive(Debug, thiserror::Error)]
#[error(
    "{text:?} is no address of an operator's listener; write http://127.0.0.1:26681, 10.0.0.5:26681 or 26681"
)]
pub struct AddressError {
    text: String,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || AddressError { text: text.into() };
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self(format!("127.0.0.1:{port}")));
        }
        let url = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let url: Uri = url.parse().map_err(|_| error())?;
        let host = url.host().filter(|_| url.scheme_str() == Some("http"));
        let host = host.ok_or_else(error)?;
        Ok(Self(format!("{host}:{}", url.port_u16().unwrap_or(26681))))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    /// It cannot be reached.
    #[error("{address} does not answer: {source}; is sentinel running, and is this its --admin?")]
    Unreachable {
        /// Where it was looked for.
        address: Address,
        /// What went wrong.
        source: io::Error,
    },
    /// Something else answers there.
    #[error("what answers at {address} is not the operator's listener of this sentinel: {reason}")]
    Strange {
        /// Where it is.
        address: Address,
        /// What is wrong with its answer.
        reason: String,
    },
}

/// Asks one listener, a connection for each question.
pub(super) struct Source {
    pub(super) address: Address,
    runtime: Runtime,
}

impl Source {
    pub(super) fn new(address: &Address) -> io::Result<Self> {
        Ok(Self {
            address: address.clone(),
            runtime: Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// The figures of now.
    pub(super) fn ask(&self) -> Result<Overview, SourceError> {
        let address = || self.address.clone();
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let answer = self
            .runtime
            .block_on(async { timeout(PATIENCE, get(&self.address)).await });
        let body = answer
            .map_err(late)
            .flatten()
            .map_err(|source| SourceError::Unreachable {
                address: address(),
                source,
            })?;
        serde_json::from_slice(&body).map_err(|error| SourceError::Strange {
            address: address(),
            reason: error.to_string(),
        })
    }
}

async fn get(address: &Address) -> io::Result<Bytes> {
    let stream = TcpStream::connect(&address.0).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let request = Request::get(PATH)
        .header(HOST, &address.0)
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let asking = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        body.map(http_body_util::Collected::to_bytes)
            .map_err(io::Error::other)
    };
    tokio::pin!(asking);
    tokio::select! {
        body = &mut asking => body,
        Err(error) = connection => Err(io::Error::other(error)),
    }
}

/// Shorter than anybody waits for a key to be obeyed.
const PATIENCE: Duration = Duration::from_secs(2);
/// An overview has about 20 kB.
const MOST_BYTES: usize = 1 << 20;
