//! The connection to a node and its handshake.

use std::hash::{BuildHasher, RandomState};

use bytes::{Buf, BytesMut};
use rpc::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::ws::ClientHandshake;
use wire::ws::frame::MaskKeys;

use super::socket::{BUFFER_BYTES, INPUT_BYTES, NodeSocket};
use crate::ledger::Ledger;
use crate::upstream::UpstreamError;
use crate::upstream::dial::{Dialer, Stream};
use crate::upstream::http::Connect as _;

/// Connects and shakes hands.
///
/// # Errors
/// [`UpstreamError`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn open(dialer: Dialer, ledger: Ledger) -> Result<Box<NodeSocket>, UpstreamError> {
    let buffers = ledger.reserve(BUFFER_BYTES).ok_or(UpstreamError::Memory)?;
    let mut stream = dialer.connect().await?;
    let mut keys = MaskKeys::new(RandomState::new().hash_one(0_u64));
    let shaken = timeout(dialer.limit(), shake_hands(&dialer, &mut stream, &mut keys)).await;
    let input = shaken.map_err(|_| UpstreamError::Timeout(dialer.endpoint().to_string()))??;
    let socket = NodeSocket::new(stream, input, keys, &ledger, buffers);
    Ok(Box::new(socket))
}

/// What has come behind the handshake.
async fn shake_hands(
    dialer: &Dialer,
    stream: &mut Stream,
    keys: &mut MaskKeys,
) -> Result<BytesMut, UpstreamError> {
    let endpoint = dialer.endpoint().with_transport(Transport::Ws);
    let garbage = |reason: String| UpstreamError::Garbage(endpoint.to_string(), reason);
    let broken =
        |error: std::io::Error| UpstreamError::Broken(endpoint.to_string(), error.to_string());
    let handshake = ClientHandshake::new(&endpoint.path(), &endpoint.authority(), keys);
    let sent = stream.write_all(handshake.request()).await;
    sent.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut input = BytesMut::with_capacity(INPUT_BYTES);
    loop {
        if stream.read_buf(&mut input).await.map_err(broken)? == 0 {
            return Err(garbage("the node closed during the handshake".to_owned()));
        }
        let checked = handshake.check(&input, MAX_HEAD_BYTES);
        if let Some(used) = checked.map_err(|error| garbage(error.to_string()))? {
            input.advance(used);
            return Ok(input);
        }
    }
}

/// An answer to a handshake has some 150 bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;
