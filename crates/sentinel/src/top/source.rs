//! Asking the operator's listener.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hyper::Uri;
use rpc::{Client, ClientError, ClientOptions, Endpoint, Trust};
use tokio::runtime::{Builder, Runtime};

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
    #[error("{address} does not answer: {reason}; is sentinel running, and is this its --admin?")]
    Unreachable {
        /// Where it was looked for.
        address: Address,
        /// What went wrong.
        reason: String,
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

/// Asks one listener.
pub(super) struct Source {
    pub(super) address: Address,
    client: Client,
    runtime: Runtime,
}

impl Source {
    pub(super) fn new(address: &Address) -> anyhow::Result<Self> {
        let options = ClientOptions {
            max_answer_bytes: MOST_BYTES.into(),
            ..ClientOptions::new(PATIENCE, &Trust::native())
        };
        let endpoint: Endpoint = format!("http://{address}{PATH}").parse()?;
        Ok(Self {
            address: address.clone(),
            client: Client::with_options(&endpoint, options)?,
            runtime: Builder::new_current_thread().enable_all().build()?,
        })
    }

    /// The figures of now.
    pub(super) fn ask(&self) -> Result<Overview, SourceError> {
        let address = || self.address.clone();
        let strange = |reason| SourceError::Strange {
            address: address(),
            reason,
        };
        let unreachable = |reason| SourceError::Unreachable {
            address: address(),
            reason,
        };
        let answer = self.runtime.block_on(self.client.text());
        let text = answer.map_err(|error| match error {
            ClientError::Unreachable { reason, .. } => unreachable(reason),
            ClientError::Timeout { .. } => unreachable("timed out".into()),
            ClientError::Unexpected { reason, .. } => strange(reason),
            ClientError::NotRpc { answer, .. } => strange(format!("it answered {answer}")),
            other => strange(other.to_string()),
        })?;
        serde_json::from_str(&text).map_err(|error| strange(error.to_string()))
    }
}

/// Shorter than anybody waits for a key to be obeyed.
const PATIENCE: Duration = Duration::from_secs(2);
/// An overview has about 20 kB.
const MOST_BYTES: usize = 1 << 20;
