//! What goes into a node, what comes out of it, and what it counts.

use bytes::Bytes;

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
    /// The dialled peers and as many random others as the fan-out.
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
        /// Why, for the operator.
        reason: CloseReason,
    },
    /// A message that this node sees for the first time.
    Deliver {
        /// The sender; none for a message of this node's own.
        from: Option<PeerId>,
        /// The message.
        message: Bytes,
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
    /// The peer has all the links it wants.
    #[error("the peer is full")]
    Refused,
    /// Another connection leads to the same node.
    #[error("another connection leads to the same node")]
    Duplicate,
    /// [`super::Settings::max_pending`] connections have no handshake yet.
    #[error("too many connections are without a handshake")]
    TooManyPending,
    /// There was no handshake within [`super::Settings::handshake_timeout`].
    #[error("the peer sent no handshake in time")]
    NoHandshake,
    /// Nothing was read, or a write did not end, within [`super::Settings::deadline`].
    #[error("the peer reads or writes nothing")]
    Stalled,
}

base::counters! {
    /// Counters since the node's beginning.
    ///
    /// Laws: `received` + the node's own that it saw = `first_seen` + `duplicates`; `queued` =
    /// `messages_written` + `dropped` + `lost` + what still waits.
    pub struct Counts {
        /// Messages given to [`super::Node::publish`].
        offered,
        /// Messages of them for which there was no peer.
        unroutable,
        /// Messages put into peers' queues, one for each peer.
        queued,
        /// Parcels handed out in writes, messages and control parcels.
        parcels_written,
        /// Parcels of those that carry a message.
        messages_written,
        /// Writes handed out.
        writes,
        /// Bytes handed out.
        bytes_written,
        /// Parcels read.
        parcels_read,
        /// Bytes read.
        bytes_read,
        /// Bytes of the messages read.
        payload_read,
        /// Messages read, seen before or not.
        received,
        /// Messages seen for the first time, the node's own broadcasts among them.
        first_seen,
        /// Messages read that had been seen before.
        duplicates,
        /// Messages that a full queue gave up.
        dropped,
        /// Messages that waited for a peer when its link closed.
        lost,
        /// Identifiers of messages forgotten before their time, because more came than are remembered.
        forgotten,
        /// Announced or requested messages that there was no room to ask for, or that were gone.
        unserved,
        /// Announced messages that no peer sent.
        given_up,
        /// Connections that the node closed before a handshake.
        refused,
    }
}
