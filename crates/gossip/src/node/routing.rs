//! Parcels that come in, which messages a node has seen, and the peers that new messages go on to.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher},
};

use base::mix;
use bytes::Bytes;
use hashbrown::HashSet;
use pacing::Nanos;
use sha2::{Digest, Sha256};
use siphasher::sip128::SipHasher13;

use super::{
    CloseReason, Node, Output, PeerId, Routing, announce,
    link::{Tag, Waiting},
};
use crate::{
    parcel::{Parcel, ParcelKind},
    topology::{below, shuffle},
};

impl Node {
    /// Offers a message; gives for how many peers it was queued.
    ///
    /// A message for one random peer is first seen here when it comes back, as in the original, where
    /// a message costs 1 + N(N − 1) transmissions in a full mesh of N nodes. One that is broadcast and
    /// relayed is seen here at once and delivered to this node, too: so each message is first seen
    /// once by each node. Where messages are announced, every message that is relayed is broadcast.
    pub fn publish(&mut self, now: Nanos, message: &Bytes, routing: Routing) -> usize {
        self.now = now;
        self.counts.offered += 1;
        let id = self.naming.of(message);
        let relayed = self.settings.relayed.contains(message);
        let routing = match routing {
            Routing::RandomPeer if relayed && self.settings.announce => Routing::Broadcast,
            routing => routing,
        };
        if relayed && matches!(routing, Routing::Broadcast | Routing::FullBroadcast) {
            self.see(id, message);
        }
        let reached = self.route(message, id, routing);
        if reached == 0 {
            self.counts.unroutable += 1;
        }
        reached
    }

    fn route(&mut self, message: &Bytes, id: Identifier, routing: Routing) -> usize {
        match routing {
            Routing::Broadcast => self.broadcast(message, id, Tag::Broadcast, None),
            Routing::FullBroadcast => self.broadcast(message, id, Tag::FullBroadcast, None),
            Routing::RandomPeer => {
                let up = self.links.up();
                let chosen = up.get(below(up.len(), &mut self.random)).copied();
                self.send_to(chosen, message, Tag::RandomPeer)
            }
            Routing::Direct(peer) => {
                let chosen = self.links.slot(peer);
                self.send_to(chosen, message, Tag::Direct)
            }
        }
    }

    fn send_to(&mut self, slot: Option<usize>, message: &Bytes, tag: Tag) -> usize {
        let is_up = |slot: &usize| self.links.get(*slot).is_some_and(super::Link::is_up);
        let Some(slot) = slot.filter(is_up) else {
            return 0;
        };
        self.queue(slot, message, tag);
        1
    }

    /// factom-p2p, controller_routing.go: to the dialled peers and `fanout` random others, or to all
    /// when they are no more than that. A message that came `from` a link that announces is not announced back.
    fn broadcast(
        &mut self,
        message: &Bytes,
        id: Identifier,
        tag: Tag,
        from: Option<usize>,
    ) -> usize {
        let mut slots: Vec<usize> = self.links.up().to_vec();
        if tag == Tag::Broadcast && !self.settings.announce {
            self.choose(&mut slots);
        }
        let is_announcing = |slot: usize| self.links.get(slot).is_some_and(|it| it.announces);
        slots.retain(|slot| from != Some(*slot) || !is_announcing(*slot));
        for slot in &slots {
            self.pass_on(*slot, message, id, tag);
        }
        slots.len()
    }

    /// Leaves the dialled peers and a random choice of the others.
    fn choose(&mut self, slots: &mut Vec<usize>) {
        if slots.len() <= self.settings.fanout {
            return;
        }
        let is_dialled = |slot: &usize| self.links.get(*slot).is_some_and(|link| link.is_dialled);
        let (mut dialled, mut others): (Vec<usize>, Vec<usize>) =
            slots.iter().partition(|slot| is_dialled(slot));
        shuffle(&mut others, &mut self.random);
        others.truncate(self.settings.fanout);
        dialled.append(&mut others);
        *slots = dialled;
    }

    /// The message itself, or its identifier.
    fn pass_on(&mut self, slot: usize, message: &Bytes, id: Identifier, tag: Tag) {
        match self.links.get_mut(slot) {
            Some(link) if link.announces => {
                link.announced.push(id);
                self.wake(slot);
            }
            _ => self.queue(slot, message, tag),
        }
    }

    pub(super) fn queue(&mut self, slot: usize, message: &Bytes, tag: Tag) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let parcel = Waiting {
            kind: ParcelKind::Message,
            tag,
            payload: message.clone(),
        };
        self.counts.queued += 1;
        self.counts.dropped += link.queue.push(parcel);
        self.wake(slot);
    }

    /// A ping or a pong.
    pub(super) fn queue_control(&mut self, slot: usize, kind: ParcelKind, payload: &'static [u8]) {
        if let Some(link) = self.links.get_mut(slot) {
            let parcel = Waiting {
                kind,
                tag: Tag::None,
                payload: Bytes::from_static(payload),
            };
            self.counts.dropped += link.queue.push(parcel);
            self.wake(slot);
        }
    }

    /// What a link writes next, all of it in one write.
    pub(super) fn write(&mut self, slot: usize) -> Option<Output> {
        let link = self.links.get_mut(slot)?;
        link.ready = false;
        let (peer, last_write) = (link.id, self.now);
        let mut bytes = std::mem::take(&mut link.greeting);
        let mut parcels = 0;
        if link.is_up() {
            parcels += self.write_ids(slot, &mut bytes);
            parcels += self.write_queued(slot, &mut bytes);
        }
        if bytes.is_empty() {
            return None;
        }
        self.counts.writes += 1;
        self.counts.bytes_written += bytes.len() as u64;
        self.counts.parcels_written += u64::from(parcels);
        let link = self.links.get_mut(slot)?;
        link.writing = true;
        link.last_write = last_write;
        link.parcels_written += u64::from(parcels);
        Some(Output::Write {
            peer,
            bytes,
            parcels,
        })
    }

    fn write_queued(&mut self, slot: usize, bytes: &mut Vec<u8>) -> u32 {
        let Some(link) = self.links.get_mut(slot) else {
            return 0;
        };
        let mut parcels = 0;
        while parcels == 0 || bytes.len() < self.settings.batch_bytes {
            let Some(waiting) = link.queue.pop() else {
                break;
            };
            if waiting.kind.is_message() {
                self.counts.messages_written += 1;
            }
            if link.announces && waiting.kind.is_message() {
                announce::tag_message(&waiting.payload, &mut self.scratch);
                link.encode(&waiting, &self.scratch, bytes);
            } else {
                link.encode(&waiting, &waiting.payload, bytes);
            }
            parcels += 1;
        }
        parcels
    }

    /// A parcel has come on a link that is up.
    pub(super) fn received(&mut self, slot: usize, parcel: &Parcel<'_>) -> Result<(), CloseReason> {
        self.counts.parcels_read += 1;
        let Some(link) = self.links.get_mut(slot) else {
            return Ok(());
        };
        link.parcels_read += 1;
        match parcel.kind {
            ParcelKind::Message | ParcelKind::MessagePart if link.announces => {
                return self.received_tagged(slot, parcel.payload);
            }
            ParcelKind::Message | ParcelKind::MessagePart => {
                self.received_message(slot, parcel.payload);
            }
            ParcelKind::Ping => self.queue_control(slot, ParcelKind::Pong, b"Pong"),
            // Requests for endpoints are not answered: the links are laid out in advance.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn received_message(&mut self, slot: usize, message: &[u8]) {
        self.counts.received += 1;
        self.counts.payload_read += message.len() as u64;
        let id = self.naming.of(message);
        if !self.sightings.note(self.now, id) {
            self.counts.duplicates += 1;
            return;
        }
        let from = self.links.get(slot).map(|link| link.id);
        let message = Bytes::copy_from_slice(message);
        self.first_seen(id, from, &message);
        if self.settings.relayed.contains(&message) {
            self.broadcast(&message, id, Tag::Broadcast, Some(slot));
        }
    }

    /// A message that this node made itself.
    fn see(&mut self, id: Identifier, message: &Bytes) {
        if self.sightings.note(self.now, id) {
            self.first_seen(id, None, message);
        }
    }

    fn first_seen(&mut self, id: Identifier, from: Option<PeerId>, message: &Bytes) {
        self.counts.first_seen += 1;
        if self.settings.announce {
            self.bodies.hold(id, message.clone());
        }
        self.outputs.push_back(Output::Deliver {
            from,
            message: message.clone(),
        });
    }
}

/// 128 bits that stand for a message.
pub(super) type Identifier = u128;

/// How a node derives the identifier of a message.
#[derive(Debug)]
pub(super) enum Naming {
    /// For this node alone: a secret key keeps others from finding two messages with one identifier.
    Own(SipHasher13),
    /// The first half of the SHA-256, where nodes send each other identifiers.
    Shared,
}

impl Naming {
    pub(super) fn new(is_shared: bool, seed: u64) -> Self {
        if is_shared {
            return Self::Shared;
        }
        Self::Own(SipHasher13::new_with_keys(mix(seed ^ 3), mix(seed ^ 4)))
    }

    pub(super) fn of(&self, message: &[u8]) -> Identifier {
        match self {
            Self::Own(hasher) => hasher.hash(message).as_u128(),
            Self::Shared => {
                let digest: [u8; 32] = Sha256::digest(message).into();
                digest.first_chunk().copied().map_or(0, u128::from_be_bytes)
            }
        }
    }
}

/// The messages of the last ten minutes: the app's ten buckets of a minute.
#[derive(Debug)]
pub(super) struct Sightings {
    seen: HashSet<Identifier, Keyed>,
    /// In the order of their first sight, with its minute.
    order: VecDeque<(Identifier, u32)>,
    most: usize,
    forgotten: u64,
}

const MINUTES: u32 = 10;

impl Sightings {
    pub(super) fn new(most: usize, key: u64) -> Self {
        Self {
            seen: HashSet::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            most: most.max(1),
            forgotten: 0,
        }
    }

    /// Notes a message; gives whether it is new.
    pub(super) fn note(&mut self, now: Nanos, id: Identifier) -> bool {
        let minute = (now.as_secs() / 60) as u32;
        while let Some(&(_, first)) = self.order.front()
            && first + MINUTES <= minute
        {
            self.forget_oldest();
        }
        if self.seen.contains(&id) {
            return false;
        }
        if self.order.len() >= self.most {
            self.forgotten += 1;
            self.forget_oldest();
        }
        self.seen.insert(id);
        self.order.push_back((id, minute));
        true
    }

    /// Whether the message was seen.
    pub(super) fn contains(&self, id: Identifier) -> bool {
        self.seen.contains(&id)
    }

    /// How many were given up because more came than are remembered.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn forget_oldest(&mut self) {
        if let Some((id, _)) = self.order.pop_front() {
            self.seen.remove(&id);
        }
    }
}

/// Identifiers are hashes already; the key keeps strangers from choosing where they fall.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keyed(pub(super) u64);

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher(self.0)
    }
}

pub(super) struct KeyedHasher(u64);

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u128(&mut self, id: u128) {
        self.0 = mix(self.0 ^ id as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn a_message_is_new_once_in_ten_minutes() {
        let mut seen = Sightings::new(100, 1);
        assert!(seen.note(seconds(30), 7));
        assert!(!seen.note(seconds(599), 7));
        assert!(seen.note(seconds(600), 7));
    }

    #[test]
    fn the_table_is_bounded_and_counts_what_it_gave_up() {
        let mut seen = Sightings::new(2, 1);
        for id in 0..5 {
            assert!(seen.note(seconds(1), id));
        }
        assert_eq!((seen.seen.len(), seen.forgotten()), (2, 3));
        assert!(seen.note(seconds(1), 0));
        assert!(!seen.note(seconds(1), 4));
    }
}
