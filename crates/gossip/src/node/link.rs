//! One connection, and what it carries.

use pacing::Nanos;

use super::{
    output::{CloseReason, Origin, PeerId},
    queue::{Queue, Tag, Waiting},
    settings::Settings,
};
use crate::{
    codec::{Decoder, Encoder},
    endpoint::Endpoint,
    handshake::Identity,
    parcel::{Parcel, ParcelKind, Version},
};

/// Where a link is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// No handshake has come from the peer.
    Pending,
    /// Parcels go both ways.
    Up,
    /// It is closed once its last bytes are written.
    Leaving(CloseReason),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: PeerId,
    pub(super) origin: Origin,
    pub(super) stage: Stage,
    pub(super) since: Nanos,
    /// Where the peer accepts connections, once it is known.
    pub(super) endpoint: Option<Endpoint>,
    pub(super) node_id: u32,
    pub(super) special: bool,
    /// Whether messages are announced on this link, and each begins with a byte of ours.
    pub(super) announces: bool,
    /// Whether it is part of the spanning tree.
    pub(super) eager: bool,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// Bytes that go before every parcel: the handshake.
    pub(super) greeting: Vec<u8>,
    pub(super) queue: Queue,
    /// Identifiers to announce, and to request.
    pub(super) announced: Vec<u128>,
    pub(super) requested: Vec<u128>,
    /// The peer is to be told that the link is not part of the tree.
    pub(super) prunes: bool,
    /// A write is with the driver.
    pub(super) writing: bool,
    /// It is in the node's list of links that have something to write.
    pub(super) ready: bool,
    pub(super) last_read: Nanos,
    pub(super) last_write: Nanos,
    /// When the peer last asked for endpoints, and when it was last asked.
    pub(super) request_served: Option<Nanos>,
    pub(super) request_sent: Option<Nanos>,
    /// A peer response is awaited.
    pub(super) asked: bool,
    pub(super) parcels_written: u64,
    pub(super) parcels_read: u64,
}

impl Link {
    pub(super) fn new(now: Nanos, id: PeerId, origin: Origin, settings: &Settings) -> Self {
        Self {
            id,
            origin,
            stage: Stage::Pending,
            since: now,
            endpoint: None,
            node_id: 0,
            special: false,
            announces: false,
            eager: true,
            encoder: Encoder::new(settings.version, settings.identity),
            decoder: Decoder::new(settings.max_parcel),
            greeting: Vec::new(),
            queue: Queue::new(settings.queue),
            announced: Vec::new(),
            requested: Vec::new(),
            prunes: false,
            writing: false,
            ready: false,
            last_read: now,
            last_write: now,
            request_served: None,
            request_sent: None,
            asked: false,
            parcels_written: 0,
            parcels_read: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
    }

    /// The host of the other end.
    pub(super) fn host(&self) -> &str {
        match &self.origin {
            Origin::Dialled(endpoint) => endpoint.host(),
            Origin::Accepted(host) => host,
        }
    }

    /// What the link is up with, once its handshake has come.
    pub(super) fn is_known_as(&mut self, identity: Identity) {
        self.node_id = identity.node_id;
        self.endpoint = match &self.origin {
            Origin::Dialled(endpoint) => Some(endpoint.clone()),
            Origin::Accepted(host) => Endpoint::new(host, identity.listen_port).ok(),
        };
    }

    pub(super) fn has_something_to_write(&self) -> bool {
        !self.greeting.is_empty()
            || (self.is_up()
                && (self.queue.len() > 0
                    || !self.announced.is_empty()
                    || !self.requested.is_empty()
                    || self.prunes))
    }

    /// Appends a parcel that waited.
    pub(super) fn encode(&mut self, parcel: &Waiting, payload: &[u8], out: &mut Vec<u8>) {
        let direct;
        let target = match parcel.tag {
            // Only V9 writes it.
            _ if self.encoder.version() != Version::V9 => "",
            Tag::None => "",
            Tag::Broadcast => "<BROADCAST>",
            // So spelt in factom-p2p, configuration.go.
            Tag::FullBroadcast => "<FULLBORADCAST>",
            Tag::RandomPeer => "<RANDOMPEER>",
            Tag::Direct => {
                direct = self.hash();
                &direct
            }
        };
        let parcel = Parcel {
            kind: parcel.kind,
            target,
            payload,
        };
        self.encoder.parcel(&parcel, out);
    }

    /// What factom-p2p calls the peer (peer.go).
    fn hash(&self) -> String {
        let endpoint = self.endpoint.as_ref();
        endpoint.map_or_else(String::new, |endpoint| {
            format!("{endpoint} {:08x}", self.node_id)
        })
    }
}

/// The payloads of parcels that have nothing to say but their kind.
pub(super) const fn payload_of(kind: ParcelKind) -> &'static [u8] {
    match kind {
        ParcelKind::Ping => b"Ping",
        ParcelKind::Pong => b"Pong",
        _ => b"Peer Request",
    }
}
