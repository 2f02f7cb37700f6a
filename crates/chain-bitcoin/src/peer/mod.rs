//! Bitcoin's peer-to-peer protocol as a client speaks it: which networks there are, how a connection begins, and
//! messages out of a stream. Without sockets: the follower brings the bytes.

mod handshake;
mod network;

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::p2p::Magic;
use bitcoin::p2p::message::{MAX_MSG_SIZE, NetworkMessage, RawNetworkMessage};
use wire::p2p::{Head, HeadError};

pub(crate) use self::handshake::Handshake;
pub use self::network::{PEER_NETWORKS, PeerNetwork};

/// Why a stream is none of the protocol; final.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// Another network, or too large.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Its content is damaged.
    #[error("its message cannot be read: {0}")]
    Content(#[from] bitcoin::consensus::encode::Error),
}

/// The head of the message that begins here, once it is there.
pub(crate) fn head(bytes: &[u8], magic: [u8; 4]) -> Result<Option<Head>, PeerError> {
    Ok(Head::read(bytes, magic, MAX_MSG_SIZE)?)
}

/// Reads a whole message, its checksum included.
pub(crate) fn read(bytes: &[u8]) -> Result<NetworkMessage, PeerError> {
    let message: RawNetworkMessage = deserialize(bytes)?;
    Ok(message.into_payload())
}

/// A message as it is sent.
pub(crate) fn write(magic: [u8; 4], message: NetworkMessage) -> Vec<u8> {
    serialize(&RawNetworkMessage::new(Magic::from_bytes(magic), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = PEER_NETWORKS[0].magic;

    #[test]
    fn a_damaged_message_is_refused() {
        let mut message = write(MAGIC, NetworkMessage::Ping(7));
        let head = head(&message, MAGIC).unwrap().unwrap();
        assert_eq!((head.command(), head.bytes), (&b"ping"[..], message.len()));
        message[28] ^= 1;
        let text = read(&message).unwrap_err().to_string();
        assert!(text.contains("checksum"), "{text}");
    }
}
