//! Bitcoin's peer-to-peer protocol as a client speaks it: which networks there are, how a connection begins, and
//! messages out of a stream. Without sockets: the follower brings the bytes.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, Magic, ServiceFlags};

/// Why a stream is none of the protocol; final.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// Another network's.
    #[error("its message begins with {0:02x?}, and those of this network with {1:02x?}")]
    Magic([u8; 4], [u8; 4]),
    /// Too much.
    #[error("its message has {0} bytes; at most {1} are read")]
    TooLarge(usize, usize),
    /// Its content is damaged.
    #[error("its message cannot be read: {0}")]
    Content(#[from] bitcoin::consensus::encode::Error),
}

/// Bytes of the message that begins here, whose content may have up to `limit`, once its head is there: 4 of the
/// network's magic, 12 of the command, 4 of the length, 4 of a checksum (`wire/message.go` of btcd 0.26).
pub(crate) fn message_bytes(
    bytes: &[u8],
    magic: [u8; 4],
    limit: usize,
) -> Result<Option<usize>, PeerError> {
    if let Some(found) = bytes.first_chunk::<4>().filter(|found| **found != magic) {
        return Err(PeerError::Magic(*found, magic));
    }
    let head = bytes.first_chunk::<24>();
    let Some([.., a, b, c, d, _, _, _, _]) = head else {
        return Ok(None);
    };
    let content = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    if content > limit {
        return Err(PeerError::TooLarge(content, limit));
    }
    Ok(Some(24 + content))
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

/// A network of Bitcoin nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerNetwork {
    /// Its name.
    pub name: &'static str,
    /// What each message begins with.
    pub magic: [u8; 4],
    /// The hash of its first block, in the order of bytes in which it is shown.
    pub genesis: [u8; 32],
}

impl fmt::Display for PeerNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Networks that are known: a load on one with coins of worth has to be impossible by accident. Magics and
/// first blocks are those of `wire/protocol.go` and `chaincfg/genesis.go` of btcd 0.26 and of
/// `wire/protocol.go` of bchd 0.20.
pub const PEER_NETWORKS: [PeerNetwork; 3] = [
    PeerNetwork {
        name: "regtest",
        magic: [0xfa, 0xbf, 0xb5, 0xda],
        genesis: REGTEST,
    },
    PeerNetwork {
        name: "simnet",
        magic: [0x16, 0x1c, 0x14, 0x12],
        genesis: SIMNET,
    },
    PeerNetwork {
        name: "Bitcoin Cash regtest",
        magic: [0xda, 0xb5, 0xbf, 0xfa],
        genesis: REGTEST,
    },
];

const REGTEST: [u8; 32] = [
    0x0f, 0x91, 0x88, 0xf1, 0x3c, 0xb7, 0xb2, 0xc7, 0x1f, 0x2a, 0x33, 0x5e, 0x3a, 0x4f, 0xc3, 0x28,
    0xbf, 0x5b, 0xeb, 0x43, 0x60, 0x12, 0xaf, 0xca, 0x59, 0x0b, 0x1a, 0x11, 0x46, 0x6e, 0x22, 0x06,
];
const SIMNET: [u8; 32] = [
    0x68, 0x3e, 0x86, 0xbd, 0x5c, 0x6d, 0x11, 0x0d, 0x91, 0xb9, 0x4b, 0x97, 0x13, 0x7b, 0xa6, 0xbf,
    0xe0, 0x2d, 0xbb, 0xdb, 0x8e, 0x3d, 0xff, 0x72, 0x2a, 0x66, 0x9b, 0x5d, 0x69, 0xd7, 0x7a, 0xf6,
];

/// The beginning of a connection that we opened.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    theirs: Option<VersionMessage>,
    acknowledged: bool,
}

impl Handshake {
    /// Our version, for the node at `address`. With `announcements` the node announces transactions.
    pub(crate) fn version(address: SocketAddr, announcements: bool) -> NetworkMessage {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        NetworkMessage::Version(VersionMessage {
            version: PROTOCOL_VERSION,
            // We have no blocks, so no peer asks us for any.
            services: ServiceFlags::NONE,
            timestamp: now.map_or(0, |now| now.as_secs() as i64),
            receiver: Address::new(&address, ServiceFlags::NONE),
            sender: Address::new(&nobody, ServiceFlags::NONE),
            nonce: RandomState::new().hash_one(address),
            user_agent: concat!("/txgen:", env!("CARGO_PKG_VERSION"), "/").into(),
            start_height: 0,
            relay: announcements,
        })
    }

    /// Takes a message of the node: what to send back.
    pub(crate) fn take(&mut self, message: NetworkMessage) -> Option<NetworkMessage> {
        match message {
            NetworkMessage::Version(version) => {
                self.theirs = Some(version);
                // btcd takes nothing but this between both versions and the end of the handshake.
                Some(NetworkMessage::Verack)
            }
            NetworkMessage::Verack => {
                self.acknowledged = true;
                None
            }
            _ => None,
        }
    }

    /// The node's version, once both are done.
    pub(crate) fn done(&self) -> Option<&VersionMessage> {
        self.theirs.as_ref().filter(|_| self.acknowledged)
    }

    /// Why the node may have ended the connection now.
    pub(crate) fn hint(&self) -> &'static str {
        match self.theirs {
            None => {
                "the node ended the connection before its version message: it is on another network, has banned this \
                 address, or has no room for peers; its log says which"
            }
            Some(_) => {
                "the node ended the connection in the middle of the handshake: it has banned this address, or has no \
                 room for peers; its log says which"
            }
        }
    }
}

/// The built-in node's largest block; bchd's are of 32,000,000 bytes, btcd's of 4,000,000.
pub(crate) const MOST_BYTES: usize = 104_857_600;
/// With `feefilter` (70,013) and `reject` (70,002), and without what changes announcements: compact blocks
/// (70,014) and witness ids (70,016).
const PROTOCOL_VERSION: u32 = 70_013;

#[cfg(test)]
mod tests {
    use bitcoin::Network;
    use bitcoin::blockdata::constants::genesis_block;
    use bitcoin::hashes::Hash as _;
    use bitcoin::p2p::Magic;

    use super::*;

    const MAGIC: [u8; 4] = PEER_NETWORKS[0].magic;

    #[test]
    fn a_damaged_message_is_refused() {
        let mut message = write(MAGIC, NetworkMessage::Ping(7));
        for end in 0..24 {
            let head = message_bytes(&message[..end], MAGIC, 8);
            assert_eq!(head.unwrap(), None);
        }
        let bytes = message_bytes(&message, MAGIC, 8).unwrap();
        assert_eq!(bytes, Some(message.len()));
        message[28] ^= 1;
        let text = read(&message).unwrap_err().to_string();
        assert!(text.contains("checksum"), "{text}");
    }

    #[test]
    fn another_network_s_message_and_one_that_is_too_large_are_refused() {
        let message = write(MAGIC, NetworkMessage::Ping(7));
        let refused = |bytes: &[u8], magic| {
            let refused = message_bytes(bytes, magic, 7);
            refused.unwrap_err().to_string()
        };
        let large = refused(&message, MAGIC);
        assert_eq!(large, "its message has 8 bytes; at most 7 are read");
        let other = refused(&message[..4], PEER_NETWORKS[1].magic);
        let text = "its message begins with [fa, bf, b5, da], and those of this network with [16, 1c, 14, 12]";
        assert_eq!(other, text);
    }

    #[cfg(feature = "fixture")]
    #[test]
    fn the_largest_block_of_the_built_in_node_is_a_message() {
        let mut message = write(MAGIC, NetworkMessage::Verack);
        message[16..20].copy_from_slice(&(*devnode::BLOCK_BYTES.end() as u32).to_le_bytes());
        let read = |message: &[u8]| message_bytes(message, MAGIC, MOST_BYTES);
        assert!(read(&message).unwrap().is_some());
        message[19] += 1;
        assert!(read(&message).is_err());
    }

    #[test]
    fn regtest_is_what_the_library_knows_of_it() {
        let regtest = PEER_NETWORKS[0];
        assert_eq!(Magic::from_bytes(regtest.magic), Magic::REGTEST);
        let mut genesis = genesis_block(Network::Regtest).block_hash().to_byte_array();
        genesis.reverse();
        assert_eq!(regtest.genesis, genesis);
    }
}
