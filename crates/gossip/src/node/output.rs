//! What goes into a node, what comes out of it, what it counts, and its settings.

use bytes::Bytes;
use pacing::Nanos;

use crate::{
    codec::CodecError,
    parcel::{Identity, Version},
    topology::Endpoint,
};

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

/// The receivers of a message.
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

base::settings! {
    /// A node's settings. The defaults are those of factom-p2p (configuration.go) where it has them, with
    /// the app's channel capacity; what it has not (`batch_bytes`, `announce`) is off.
    #[derive(Debug, Clone)]
    pub struct Settings {
        /// The node's identity.
        pub identity: Identity = Identity {
            network: 0x00f0_0b47,
            node_id: 1,
            listen_port: 8108,
        },
        /// The version of links that this node opens; of those that it accepts, the highest in gob.
        pub version: Version = Version::V11,
        /// Peers of older versions are refused.
        pub oldest_version: Version = Version::V9,
        /// The endpoints that this node keeps links to; it accepts all others. A broadcast always goes to them.
        pub dialled: Vec<Endpoint> = Vec::new(),
        /// How long after an attempt an endpoint may be dialled again.
        pub redial: Nanos = Nanos::from_secs(1),
        /// How many random peers a broadcast goes to, beside the dialled ones.
        pub fanout: usize = 16,
        /// Which messages a node broadcasts again when it first sees them.
        pub relayed: Relayed = Relayed::all(),
        /// Whether identifiers of messages are sent in place of messages, which peers then request: on V11 links
        /// whose other end does so too. On all other links messages are flooded.
        pub announce: bool = false,
        /// All queued parcels of a peer in one write, until it has this many bytes; 0 for one parcel a
        /// write. The bytes on the wire are the same.
        pub batch_bytes: usize = 0,
        /// What may wait for one peer.
        pub queue: QueueLimits = QueueLimits::default(),
        /// The longest payload that is accepted, in bytes. A link may make the node buffer as much, so
        /// choose it by (memory ÷ links).
        pub max_parcel: usize = 8 << 20,
        /// How many messages are remembered, to recognise them when they come again, in the last 10
        /// minutes. Each takes about 100 bytes. With fewer than arrive in the time that a message takes
        /// through the network, messages circulate.
        pub remembered: usize = 1 << 20,
        /// How long a link may take from its beginning to its handshake.
        pub handshake_timeout: Nanos = Nanos::from_secs(5),
        /// A link on which nothing was written for so long gets a ping.
        pub ping_after: Nanos = Nanos::from_secs(15),
        /// A link that reads nothing, or whose write does not end, for so long is closed.
        pub deadline: Nanos = Nanos::from_secs(300),
        /// How many links without a handshake are kept; further ones are closed at once.
        pub max_pending: usize = 64,
    }
}

base::settings! {
    /// What may wait for one peer. What comes to a full queue displaces its older half.
    #[derive(Debug, Clone, Copy)]
    pub struct QueueLimits {
        /// Parcels; at least 1. As many as a burst brings while the peer's node does something else.
        pub parcels: usize = 10_000,
        /// Bytes of payload. The payload of a broadcast is shared between the queues it waits in.
        pub bytes: usize = 32 << 20,
    }
}

/// Which messages a node broadcasts again, by their first byte (in the app: their type).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relayed([u64; 4]);

impl Relayed {
    /// Every message.
    pub const fn all() -> Self {
        Self([u64::MAX; 4])
    }

    /// Messages that begin with one of these bytes.
    pub fn kinds(first_bytes: &[u8]) -> Self {
        let mut bits = [0; 4];
        for byte in first_bytes {
            bits[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
        Self(bits)
    }

    /// Whether this message is one of them; an empty one is not.
    pub fn contains(&self, message: &[u8]) -> bool {
        message
            .first()
            .is_some_and(|byte| self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1)
    }
}
