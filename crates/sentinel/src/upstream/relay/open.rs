//! The opening handshake of a WebSocket to a node (RFC 6455, section 4.1).

use httparse::{EMPTY_HEADER, Response, Status};
use rpc::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use wire::ws::frame;

use super::super::UpstreamError;
use super::super::dial::{Dialer, Stream};
use super::socket::{BUFFER_BYTES, NodeSocket};
use crate::ledger::Ledger;

/// Connects and shakes hands.
///
/// # Errors
/// [`UpstreamError`].
///
/// # Cancel safety
/// Dropping the future gives the attempt up.
pub(super) async fn open(dialer: Dialer, ledger: Ledger) -> Result<NodeSocket, UpstreamError> {
    let buffers = ledger.reserve(BUFFER_BYTES).ok_or(UpstreamError::Memory)?;
    let mut stream = dialer.dial().await?;
    let shaken = timeout(dialer.limit(), shake_hands(&dialer, &mut stream)).await;
    let endpoint = || dialer.endpoint().to_string();
    let rest = shaken.map_err(|_| UpstreamError::Timeout {
        endpoint: endpoint(),
    })??;
    NodeSocket::new(stream, &rest, &ledger, buffers).ok_or(UpstreamError::Memory)
}

/// What has come behind the handshake.
async fn shake_hands(dialer: &Dialer, stream: &mut Stream) -> Result<Vec<u8>, UpstreamError> {
    let endpoint = dialer.endpoint().with_transport(Transport::Ws);
    let garbage = |reason: String| UpstreamError::Garbage {
        endpoint: endpoint.to_string(),
        reason,
    };
    let broken = |error: std::io::Error| UpstreamError::Broken {
        endpoint: endpoint.to_string(),
        reason: error.to_string(),
    };
    let key = key();
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n",
        endpoint.path(),
        endpoint.authority(),
    );
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut head = Vec::new();
    loop {
        if stream.read_buf(&mut head).await.map_err(broken)? == 0 {
            return Err(garbage("the node closed during the handshake".to_owned()));
        }
        if let Some(used) = check(&head, &key).map_err(garbage)? {
            return Ok(head.split_off(used));
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(garbage("the handshake's head does not end".to_owned()));
        }
    }
}

/// The length of the answer's head; `None` while it is incomplete.
fn check(head: &[u8], key: &str) -> Result<Option<usize>, String> {
    let mut headers = [EMPTY_HEADER; 64];
    let mut answer = Response::new(&mut headers);
    let used = match answer.parse(head) {
        Ok(Status::Complete(used)) => used,
        Ok(Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("the answer is not HTTP ({error})")),
    };
    if answer.code != Some(101) {
        return Err(format!(
            "the node answered HTTP {}",
            answer.code.unwrap_or(0)
        ));
    }
    let value = |name: &str| {
        let mut headers = answer.headers.iter();
        headers
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map_or(&b""[..], |header| header.value.trim_ascii())
    };
    if value("sec-websocket-accept") != frame::accept_key(key).as_bytes() {
        return Err("the answer does not fit the key".to_owned());
    }
    if !value("sec-websocket-extensions").is_empty() {
        return Err("the answer names an extension that was not offered".to_owned());
    }
    Ok(Some(used))
}

/// A nonce of 16 bytes. It proves that the answer is one to this request and is no secret.
fn key() -> String {
    use std::hash::{BuildHasher, RandomState};
    let state = RandomState::new();
    let halves = [state.hash_one(1_u8), state.hash_one(2_u8)];
    let nonce: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    base64_simd::STANDARD.encode_to_string(nonce)
}

/// An answer to a handshake has some 150 bytes. It must leave room in the socket's input.
const MAX_HEAD_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    #[test]
    fn the_example_of_the_rfc_passes() {
        assert_eq!(check(ANSWER.as_bytes(), KEY), Ok(Some(ANSWER.len())));
        assert_eq!(check(&ANSWER.as_bytes()[..50], KEY), Ok(None));
    }

    #[test]
    fn case_23_other_answers_do_not() {
        assert!(check(ANSWER.as_bytes(), "another").is_err());
        assert!(check(b"HTTP/1.1 404 Not Found\r\n\r\n", KEY).is_err());
        assert!(check(b"SSH-2.0-OpenSSH\r\n", KEY).is_err());
        let more = ANSWER.replace("\r\n\r\n", "\r\nSec-WebSocket-Extensions: x\r\n\r\n");
        assert!(check(more.as_bytes(), KEY).is_err());
    }
}
