//! The first parcel of each side of a link.

use crate::parcel::{ParcelKind, Version};

/// The sender's part of every parcel or handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Nodes of other networks are refused.
    pub network: u32,
    /// The node's own number.
    pub node_id: u32,
    /// The port on which the node accepts connections; 1 to 65,535.
    pub listen_port: u16,
}

/// The first parcel of each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// [`ParcelKind::Handshake`], or [`ParcelKind::PeerRequest`] from V9 nodes (a request that is
    /// to be served), or [`ParcelKind::Refusal`].
    pub kind: ParcelKind,
    /// The sender.
    pub identity: Identity,
    /// The version that the sender wants to speak, or that it agrees to.
    pub version: Version,
    /// The sender's random number, the same on all its links: a node that reads its own has dialled
    /// itself.
    pub nonce: u64,
    /// What the sender offers beyond factom-p2p, a bit each ([`FEATURE_ANNOUNCE`]). Only V11
    /// carries it, in a field that factom-p2p skips.
    pub features: u32,
}

/// The sender understands announcements in place of messages; see [`crate::Settings::announce`].
pub const FEATURE_ANNOUNCE: u32 = 1;
