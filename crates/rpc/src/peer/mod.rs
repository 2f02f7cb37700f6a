//! Bitcoin's peer-to-peer protocol as a client speaks it: which networks there are, how a connection begins, and
//! messages out of a stream. Without sockets: [`Connection`](crate::Connection) and the follower bring the bytes.

mod handshake;
mod network;

use std::fmt;

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::p2p::Magic;
use bitcoin::p2p::message::{MAX_MSG_SIZE, NetworkMessage, RawNetworkMessage};
use sha2::{Digest as _, Sha256};
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

/// Appends the message that carries a transaction which is serialised already.
pub fn write_peer_tx(out: &mut Vec<u8>, magic: [u8; 4], tx: &[u8]) {
    let checksum = Sha256::digest(Sha256::digest(tx));
    out.extend_from_slice(&magic);
    out.extend_from_slice(b"tx\0\0\0\0\0\0\0\0\0\0");
    out.extend_from_slice(&(tx.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum[..4]);
    out.extend_from_slice(tx);
}

/// What a node said of a message that it refused (BIP 61); nodes need not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerRejection {
    /// The command of the refused message.
    pub command: String,
    /// 0x01 malformed, 0x10 invalid, 0x12 duplicate, 0x40 not standard, 0x42 too little fee.
    pub code: u8,
    /// The node's words.
    pub reason: String,
}

impl PeerRejection {
    /// Reads a whole message; none if it is another one.
    pub fn read(message: &[u8]) -> Option<Self> {
        match read(message).ok()? {
            NetworkMessage::Reject(reject) => Some(Self {
                command: reject.message.into_owned(),
                code: reject.ccode as u8,
                reason: reject.reason.into_owned(),
            }),
            _ => None,
        }
    }
}

impl fmt::Display for PeerRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            command,
            code,
            reason,
        } = self;
        write!(f, "reject of {command} ({code:#04x}): {reason}")
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::Transaction;
    use bitcoin::absolute::LockTime;
    use bitcoin::hashes::Hash as _;
    use bitcoin::p2p::message_network::{Reject, RejectReason};
    use bitcoin::transaction::Version;

    use super::*;

    const MAGIC: [u8; 4] = PEER_NETWORKS[0].magic;

    #[test]
    fn a_transaction_that_is_serialised_already_becomes_the_message_that_the_library_writes() {
        let tx = Transaction {
            version: Version::TWO,
            lock_time: LockTime::ZERO,
            input: Vec::new(),
            output: vec![bitcoin::TxOut::NULL],
        };
        let mut message = Vec::new();
        write_peer_tx(&mut message, MAGIC, &serialize(&tx));
        assert_eq!(message, write(MAGIC, NetworkMessage::Tx(tx)));
    }

    #[test]
    fn a_damaged_message_is_refused_and_a_rejection_is_read() {
        let reject = Reject {
            message: "tx".into(),
            ccode: RejectReason::Duplicate,
            reason: "already spent".into(),
            hash: bitcoin::hashes::sha256d::Hash::all_zeros(),
        };
        let mut message = write(MAGIC, NetworkMessage::Reject(reject));
        let head = head(&message, MAGIC).unwrap().unwrap();
        assert_eq!(
            (head.command(), head.bytes),
            (&b"reject"[..], message.len())
        );
        let rejection = PeerRejection::read(&message).unwrap();
        assert_eq!(rejection.to_string(), "reject of tx (0x12): already spent");
        assert_eq!(
            PeerRejection::read(&write(MAGIC, NetworkMessage::Verack)),
            None
        );
        message[30] ^= 1;
        let text = read(&message).unwrap_err().to_string();
        assert!(text.contains("checksum"), "{text}");
    }
}
