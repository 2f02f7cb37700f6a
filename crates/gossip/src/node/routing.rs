//! Parcels that come in, and the peers that new messages, or their identifiers, go on to.

use bytes::Bytes;
use pacing::Nanos;

use super::Node;
use super::link::{Link, Tag, Waiting};
use super::messages::Identifier;
use super::output::{CloseReason, Output, PeerId, Routing};
use crate::codec::CodecError;
use crate::parcel::{Parcel, ParcelKind};
use crate::topology::{below, shuffle};

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
        let is_up = |slot: &usize| self.links.get(*slot).is_some_and(Link::is_up);
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

    fn queue(&mut self, slot: usize, message: &Bytes, tag: Tag) {
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
                tag_message(&waiting.payload, &mut self.scratch);
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

    fn received_message(&mut self, slot: usize, message: &[u8]) {
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

/// Announcements: in place of a message its identifier is sent, and a peer that has not seen the message requests it.
///
/// factom-p2p has none. They go between nodes whose V11 handshakes both offer them; on other links messages are flooded.
impl Node {
    /// A payload on a link that announces.
    fn received_tagged(&mut self, slot: usize, payload: &[u8]) -> Result<(), CloseReason> {
        let malformed = CloseReason::Malformed(CodecError::Empty(ParcelKind::Message));
        let Some((first, rest)) = payload.split_first() else {
            return Err(malformed);
        };
        let (ids, partial) = rest.as_chunks::<ID_BYTES>();
        match *first {
            first_byte::MESSAGE if !rest.is_empty() => self.received_message(slot, rest),
            first_byte::ANNOUNCEMENT if partial.is_empty() => {
                for id in ids {
                    self.announced(slot, u128::from_be_bytes(*id));
                }
            }
            first_byte::REQUEST if partial.is_empty() => {
                for id in ids {
                    self.requested(slot, u128::from_be_bytes(*id));
                }
            }
            _ => return Err(malformed),
        }
        Ok(())
    }

    fn announced(&mut self, slot: usize, id: Identifier) {
        if self.sightings.contains(id) {
            return;
        }
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        match self.bodies.want(self.now, id, link.id) {
            Some(true) => {
                link.requested.push(id);
                self.wake(slot);
            }
            Some(false) => {}
            None => self.counts.unserved += 1,
        }
    }

    fn requested(&mut self, slot: usize, id: Identifier) {
        match self.bodies.held(id) {
            Some(body) => self.queue(slot, &body, Tag::None),
            None => self.counts.unserved += 1,
        }
    }

    /// Requests again what has been requested and has not come.
    pub(super) fn retry_requests(&mut self) {
        while let Some((id, holder)) = self.bodies.next_retry(self.now) {
            if let Some(slot) = self.links.slot(holder)
                && let Some(link) = self.links.get_mut(slot)
            {
                link.requested.push(id);
                self.wake(slot);
            }
        }
    }

    /// Encodes what the link has to announce and to request; gives how many parcels that are.
    fn write_ids(&mut self, slot: usize, bytes: &mut Vec<u8>) -> u32 {
        let Some(link) = self.links.get_mut(slot) else {
            return 0;
        };
        let requested = std::mem::take(&mut link.requested);
        let announced = std::mem::take(&mut link.announced);
        let mut parcels = 0;
        for (first, ids) in [
            (first_byte::REQUEST, requested),
            (first_byte::ANNOUNCEMENT, announced),
        ] {
            for ids in ids.chunks(MAX_IDS) {
                self.scratch.clear();
                self.scratch.push(first);
                self.scratch
                    .extend(ids.iter().flat_map(|id| id.to_be_bytes()));
                let parcel = Parcel::new(ParcelKind::Message, &self.scratch);
                link.encoder.parcel(&parcel, bytes);
                parcels += 1;
            }
        }
        parcels
    }
}

/// Puts a message behind the byte that distinguishes it from identifiers.
fn tag_message(message: &[u8], scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.push(first_byte::MESSAGE);
    scratch.extend_from_slice(message);
}

/// The first byte of a message on a link that announces; then follow the message, or identifiers.
mod first_byte {
    pub(super) const MESSAGE: u8 = 0;
    pub(super) const ANNOUNCEMENT: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
}

/// The bytes of an identifier.
const ID_BYTES: usize = 16;
/// The most identifiers in one parcel.
const MAX_IDS: usize = 1_024;
