//! One connection and what it carries, and the table of all.

use std::collections::BTreeMap;

use pacing::Nanos;
use slab::Slab;

use super::output::{CloseReason, Origin, PeerId, Settings};
use super::queue::{Queue, Tag, Waiting};
use crate::{
    codec::{Decoder, Encoder},
    endpoint::Endpoint,
    parcel::{Identity, Parcel, Version},
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
    /// Whether this node dials the peer.
    pub(super) is_dialled: bool,
    /// Whether messages are announced on this link, and each begins with a byte of ours.
    pub(super) announces: bool,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// Bytes that go before every parcel: the handshake.
    pub(super) greeting: Vec<u8>,
    pub(super) queue: Queue,
    /// Identifiers to announce, and to request.
    pub(super) announced: Vec<u128>,
    pub(super) requested: Vec<u128>,
    /// A write is with the driver.
    pub(super) writing: bool,
    /// It is in the node's list of links that have something to write.
    pub(super) ready: bool,
    pub(super) last_read: Nanos,
    pub(super) last_write: Nanos,
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
            is_dialled: false,
            announces: false,
            encoder: Encoder::new(settings.version, settings.identity),
            decoder: Decoder::new(settings.max_parcel),
            greeting: Vec::new(),
            queue: Queue::new(settings.queue),
            announced: Vec::new(),
            requested: Vec::new(),
            writing: false,
            ready: false,
            last_read: now,
            last_write: now,
            parcels_written: 0,
            parcels_read: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.stage == Stage::Up
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
                    || !self.requested.is_empty()))
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

/// Links by the driver's number, each in a slot of its own as long as it lasts.
#[derive(Debug, Default)]
pub(super) struct Links {
    slots: Slab<Link>,
    by_id: BTreeMap<PeerId, usize>,
    /// The slots of the links that are up, in the order in which they came up.
    up: Vec<usize>,
}

impl Links {
    pub(super) fn insert(&mut self, link: Link) -> usize {
        let id = link.id;
        let slot = self.slots.insert(link);
        self.by_id.insert(id, slot);
        slot
    }

    pub(super) fn remove(&mut self, slot: usize) -> Option<Link> {
        let link = self.slots.try_remove(slot)?;
        self.by_id.remove(&link.id);
        self.up.retain(|up| *up != slot);
        Some(link)
    }

    pub(super) fn slot(&self, id: PeerId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Link> {
        self.slots.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Link> {
        self.slots.get_mut(slot)
    }

    pub(super) fn came_up(&mut self, slot: usize) {
        self.up.push(slot);
    }

    /// The links that parcels can be queued for.
    pub(super) fn up(&self) -> &[usize] {
        &self.up
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.slots.iter()
    }

    /// How many links have had no handshake.
    pub(super) fn pending(&self) -> usize {
        self.slots.len() - self.up.len()
    }
}
