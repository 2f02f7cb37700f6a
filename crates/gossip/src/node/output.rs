//! What goes into a node and what comes out of it.

use bytes::Bytes;
use pacing::Nanos;

use crate::{codec::CodecError, endpoint::Endpoint, parcel::Version};

/// A connection, as its driver numbers it. Never the same number twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

/// Which side opened a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// This node, after [`Output::Connect`].
    Dialled(Endpoint),
    /// The other node, from this host.
    Accepted(String),
}

/// Whom a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The special peers and as many random others as the fan-out says.
    Broadcast,
    /// Every peer.
    FullBroadcast,
    /// One random peer.
    RandomPeer,
    /// This peer.
    Direct(PeerId),
}

/// What the driver has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Open a connection, then call [`super::Node::on_connected`]; when that fails, nothing.
    Connect {
        /// Where to.
        endpoint: Endpoint,
    },
    /// Write all of this to the connection, then call [`super::Node::on_writable`]. There is no
    /// further write for the peer before that.
    Write {
        /// The connection.
        peer: PeerId,
        /// Not empty. Made for one write call.
        bytes: Vec<u8>,
        /// How many parcels the bytes are. A handshake is not counted.
        parcels: u32,
    },
    /// Close the connection. The node has forgotten it already.
    Close {
        /// The connection.
        peer: PeerId,
        /// What the operator wants to know.
        reason: CloseReason,
    },
    /// A message that this node sees for the first time.
    Deliver {
        /// Who sent it; none for a message of this node's own.
        from: Option<PeerId>,
        /// The message.
        message: Bytes,
        /// The instant of the call that brought it.
        first_seen: Nanos,
    },
}

/// Why a node closes a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The peer sent what is no parcel.
    #[error(transparent)]
    Malformed(#[from] CodecError),
    /// The other end is this node itself.
    #[error("the node has dialled itself")]
    SelfDial,
    /// The peer belongs to another network.
    #[error("the peer's network is {theirs:#010x}, not {ours:#010x}")]
    WrongNetwork {
        /// From the peer's handshake.
        theirs: u32,
        /// This node's.
        ours: u32,
    },
    /// The peer's version is below [`super::Settings::oldest_version`].
    #[error("the peer speaks version {}, below the minimum", .0.number())]
    OldVersion(Version),
    /// A gob stream whose handshake asks for V11.
    #[error("the handshake asks for a version that its own form cannot carry")]
    WrongForm,
    /// This node has all the links it wants; the peer was told of others.
    #[error("the node is full, and named other nodes to the peer")]
    Full,
    /// The peer has all the links it wants.
    #[error("the peer is full")]
    Refused,
    /// Another connection leads to the same node.
    #[error("another connection leads to the same node")]
    Duplicate,
    /// The host connects more often than [`super::Peering::accept_every`] allows.
    #[error("the host connects too often")]
    TooOften,
    /// [`super::Settings::max_pending`] connections have no handshake yet.
    #[error("too many connections are without a handshake")]
    TooManyPending,
    /// There was no handshake within [`super::Settings::handshake_timeout`].
    #[error("the peer sent no handshake in time")]
    NoHandshake,
    /// Nothing was read, or a write did not end, within [`super::Settings::deadline`].
    #[error("the peer reads or writes nothing")]
    Stalled,
    /// A round of [`super::Peering::round`] chose it.
    #[error("the link was dropped so that the network mixes")]
    Mixed,
}
