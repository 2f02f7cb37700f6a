//! How a connection between nodes begins: both send their version, both acknowledge the other's.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use bitcoin::p2p::message::NetworkMessage;
use bitcoin::p2p::message_network::VersionMessage;
use bitcoin::p2p::{Address, ServiceFlags};

/// The beginning of a connection that we opened.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    theirs: Option<VersionMessage>,
    acknowledged: bool,
}

impl Handshake {
    /// Our version, for the node at `address`. With `announcements` the node tells us of transactions.
    pub(crate) fn version(address: SocketAddr, announcements: bool) -> NetworkMessage {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        NetworkMessage::Version(VersionMessage {
            version: PROTOCOL_VERSION,
            // We have no blocks: nobody asks us for any.
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

/// With `feefilter` (70,013) and `reject` (70,002), and without what changes announcements: compact blocks
/// (70,014) and witness ids (70,016).
const PROTOCOL_VERSION: u32 = 70_013;
