//! What travels over a link: first a handshake of each side, then parcels of a type and a payload.

use std::{fmt, str::FromStr};

/// What a parcel is for; the numbers are those of the wire (factom-p2p, parcelType.go).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ParcelKind {
    /// Not used any more; accepted and ignored.
    Heartbeat = 0,
    /// Asks for a [`ParcelKind::Pong`].
    Ping = 1,
    /// The answer to a ping.
    Pong = 2,
    /// Asks for other endpoints; in V9 also the handshake.
    PeerRequest = 3,
    /// Endpoints, in the form that the protocol version has for them.
    PeerResponse = 4,
    /// Not used any more; accepted and ignored.
    Alert = 5,
    /// A message of the application.
    Message = 6,
    /// A message of the application, from old nodes; delivered as [`ParcelKind::Message`].
    MessagePart = 7,
    /// The first parcel of each side.
    Handshake = 8,
    /// In place of a handshake: the node is full, try the endpoints in the payload.
    Refusal = 9,
}

impl ParcelKind {
    const ALL: [Self; 10] = [
        Self::Heartbeat,
        Self::Ping,
        Self::Pong,
        Self::PeerRequest,
        Self::PeerResponse,
        Self::Alert,
        Self::Message,
        Self::MessagePart,
        Self::Handshake,
        Self::Refusal,
    ];

    /// The kind with this number, if there is one.
    pub fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The number on the wire.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// Whether the payload is a message of the application.
    pub const fn is_message(self) -> bool {
        matches!(self, Self::Message | Self::MessagePart)
    }
}

/// A parcel, with its payload borrowed from where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel<'a> {
    /// What it is for.
    pub kind: ParcelKind,
    /// How the sender routed it, as text. Only V9 carries it; empty elsewhere.
    pub target: &'a str,
    /// At least 1 byte; the protocol allows 128 MiB (factom-p2p, protocolV11.go), a node
    /// [`crate::Settings::max_parcel`].
    pub payload: &'a [u8],
}

impl<'a> Parcel<'a> {
    /// A parcel without a routing tag.
    pub const fn new(kind: ParcelKind, payload: &'a [u8]) -> Self {
        Self {
            kind,
            target: "",
            payload,
        }
    }
}

/// The form of a link's parcels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A gob stream with a header of 13 fields and a checksum.
    V9,
    /// V9's handshake, then a gob stream of type and payload.
    V10,
    /// A length and a protobuf message.
    V11,
}

impl Version {
    /// The number in a handshake: 9, 10 or 11.
    pub const fn number(self) -> u16 {
        match self {
            Self::V9 => 9,
            Self::V10 => 10,
            Self::V11 => 11,
        }
    }

    /// The version with this number.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            9 => Some(Self::V9),
            10 => Some(Self::V10),
            11 => Some(Self::V11),
            _ => None,
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix(['v', 'V']).unwrap_or(text).parse();
        number
            .ok()
            .and_then(Self::from_number)
            .ok_or_else(|| format!("there is no protocol {text:?}; there are v9, v10 and v11"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
    }
}

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
