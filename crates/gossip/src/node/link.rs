//! One connection, what it carries, what waits for its peer, and the table of all connections.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use pacing::Nanos;
use slab::Slab;

use super::output::{CloseReason, Origin, PeerId, QueueLimits, Settings};
use crate::{
    codec::{Decoder, Encoder},
    parcel::{Identity, Parcel, ParcelKind, Version},
    topology::Endpoint,
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

/// A parcel that waits.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) kind: ParcelKind,
    pub(super) tag: Tag,
    pub(super) payload: Bytes,
}

/// How a parcel was routed, which V9 writes on it (factom-p2p, configuration.go).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    Broadcast,
    FullBroadcast,
    RandomPeer,
    Direct,
}

/// First in, first out; what comes to a full queue displaces the older half (factom-p2p,
/// parcelChannel.go).
#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Queue {
    pub(super) const fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a parcel, and returns how many messages that cost.
    pub(super) fn push(&mut self, parcel: Waiting) -> u64 {
        let mut dropped = 0;
        let full = self.waiting.len() >= self.limits.parcels;
        if full || self.bytes.saturating_add(parcel.payload.len()) > self.limits.bytes {
            let kept = self.waiting.len() / 2;
            while self.waiting.len() > kept {
                dropped += self
                    .pop()
                    .map_or(0, |parcel| u64::from(parcel.kind.is_message()));
            }
        }
        self.bytes += parcel.payload.len();
        self.waiting.push_back(parcel);
        dropped
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let parcel = self.waiting.pop_front()?;
        self.bytes -= parcel.payload.len();
        Some(parcel)
    }

    /// How many messages wait.
    pub(super) fn messages(&self) -> u64 {
        self.waiting
            .iter()
            .filter(|parcel| parcel.kind.is_message())
            .count() as u64
    }
}

/// An endpoint that the node keeps a link to.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) endpoint: Endpoint,
    /// When it was dialled last.
    pub(super) attempt: Option<Nanos>,
    /// It is this node itself, and never dialled again.
    pub(super) is_self: bool,
}

impl Dial {
    pub(super) const fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            attempt: None,
            is_self: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(parcels: usize, bytes: usize) -> Queue {
        Queue::new(QueueLimits { parcels, bytes })
    }

    fn parcel(number: u8) -> Waiting {
        Waiting {
            kind: ParcelKind::Message,
            tag: Tag::None,
            payload: Bytes::copy_from_slice(&[number]),
        }
    }

    fn drain(queue: &mut Queue) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop())
            .map(|parcel| parcel.payload[0])
            .collect()
    }

    #[test]
    fn up_to_its_capacity_a_queue_loses_nothing_and_keeps_the_order() {
        let mut queue = queue(10, 1 << 20);
        assert_eq!((0..10).map(|n| queue.push(parcel(n))).sum::<u64>(), 0);
        assert_eq!(drain(&mut queue), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn one_more_than_fits_displaces_exactly_the_older_half() {
        let mut queue = queue(10, 1 << 20);
        let before: u64 = (0..10).map(|n| queue.push(parcel(n))).sum();
        assert_eq!(before, 0);
        assert_eq!(queue.push(parcel(10)), 5);
        assert_eq!(drain(&mut queue), [5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn a_queue_of_an_odd_capacity_keeps_the_smaller_half_as_the_go_library_does() {
        // factom-p2p's own test: capacities 1 and 15, ten parcels each, then five and one more.
        let mut small = queue(1, 1 << 20);
        assert_eq!((0..10).map(|n| small.push(parcel(n))).sum::<u64>(), 9);
        assert_eq!(drain(&mut small), [9]);
        let mut large = queue(15, 1 << 20);
        assert_eq!((0..16).map(|n| large.push(parcel(n))).sum::<u64>(), 8);
        assert_eq!(drain(&mut large), (8..16).collect::<Vec<_>>());
    }

    #[test]
    fn a_queue_is_also_full_at_its_limit_of_bytes() {
        let mut queue = queue(1_000, 4);
        let before: u64 = (0..4).map(|n| queue.push(parcel(n))).sum();
        assert_eq!(before, 0);
        assert_eq!(queue.push(parcel(4)), 2);
        assert_eq!(drain(&mut queue), [2, 3, 4]);
    }
}
