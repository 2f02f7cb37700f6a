//! What a node does, beside its identity.

use pacing::Nanos;

use crate::{
    endpoint::Endpoint,
    parcel::{Identity, Version},
};

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
