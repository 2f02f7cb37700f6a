//! How a write connection is opened.

use std::net::SocketAddr;
use std::time::Duration;

use rpc::{ConnectionError, ConnectionOptions, Endpoint};

use super::link::WriteConnection;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::lane) enum OpenError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the address of {0} cannot be found: {1}")]
    Resolve(String, std::io::Error),
    #[error("no connection within {} s (upstream.connect_timeout)", .0.as_secs_f64())]
    Timeout(Duration),
}

/// Opens a connection, all handshakes included.
///
/// # Cancel safety
/// The connection is closed when the future is dropped.
pub(super) async fn open(
    endpoint: Endpoint,
    timeout: Duration,
) -> Result<WriteConnection, OpenError> {
    let opening = async {
        let named = endpoint.clone();
        let resolving = tokio::task::spawn_blocking(move || named.resolve());
        let addresses = resolving
            .await
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|error| OpenError::Resolve(endpoint.to_string(), error))?;
        open_first(&endpoint, &addresses).await
    };
    tokio::time::timeout(timeout, opening)
        .await
        .unwrap_or(Err(OpenError::Timeout(timeout)))
}

/// Tries the addresses of a name in turn; the last error counts.
async fn open_first(
    endpoint: &Endpoint,
    addresses: &[SocketAddr],
) -> Result<WriteConnection, OpenError> {
    let options = ConnectionOptions {
        read_buffer_bytes: READ_BUFFER,
        ..ConnectionOptions::default()
    };
    let none = std::io::Error::other("the name has no address");
    let mut failure = OpenError::Resolve(endpoint.to_string(), none);
    for address in addresses {
        match WriteConnection::open(endpoint, *address, &options).await {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

/// Some 400 answers of 150 bytes.
const READ_BUFFER: usize = 64 << 10;
