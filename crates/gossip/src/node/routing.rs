//! Parcels in, and to whom they go on.

use bytes::Bytes;
use pacing::Nanos;

use super::{
    CloseReason, Node, Output, PeerId, Routing, Spread,
    link::payload_of,
    queue::{Tag, Waiting},
};
use crate::{
    codec::{CodecError, decode_share},
    parcel::{Parcel, ParcelKind},
    topology::{below, shuffle},
};

/// The first byte of a message on a link that announces; then follow the message, or identifiers of
/// 16 bytes each. factom-p2p's nodes never see one: both handshakes have to offer it.
mod own {
    pub(super) const MESSAGE: u8 = 0;
    pub(super) const ANNOUNCEMENT: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    /// The link is not part of the sender's tree any more.
    pub(super) const PRUNE: u8 = 3;
}

/// The bytes of an identifier.
const ID: usize = 16;
/// The most identifiers in one parcel.
const MOST_IDS: usize = 1_024;

impl Node {
    /// Offers a message, and says for how many peers it was queued.
    ///
    /// A message for one random peer is first seen here when it comes back, as in the original, where
    /// a message costs 1 + N(N − 1) transmissions in a full mesh of N nodes. One that is broadcast and
    /// relayed is seen here at once and delivered to this node, too: so each message is first seen
    /// once by each node. Where messages are announced, every message that is relayed is broadcast.
    pub fn publish(&mut self, now: Nanos, message: &Bytes, routing: Routing) -> usize {
        self.now = now;
        self.counts.offered += 1;
        let id = self.identifier.of(message);
        let relayed = self.settings.relayed.contains(message);
        let routing = match routing {
            Routing::RandomPeer if relayed && self.settings.spread != Spread::Flood => {
                Routing::Broadcast
            }
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

    fn route(&mut self, message: &Bytes, id: u128, routing: Routing) -> usize {
        match routing {
            Routing::Broadcast => self.broadcast(message, id, Tag::Broadcast),
            Routing::FullBroadcast => self.broadcast(message, id, Tag::FullBroadcast),
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
        self.queue(slot, message, tag, None);
        1
    }

    /// factom-p2p, controller_routing.go: to the special peers and `fanout` random others, or to all
    /// when they are no more than that.
    fn broadcast(&mut self, message: &Bytes, id: u128, tag: Tag) -> usize {
        let mut slots: Vec<usize> = (self.links.up().iter().copied())
            .filter(|slot| !self.needs_not(*slot, id))
            .collect();
        if tag == Tag::Broadcast && self.settings.spread == Spread::Flood {
            self.choose(&mut slots);
        }
        for slot in &slots {
            self.pass_on(*slot, message, id, tag);
        }
        slots.len()
    }

    /// Whether the peer is known to have a message, and that counts.
    fn needs_not(&self, slot: usize, id: u128) -> bool {
        let counts =
            self.settings.resend_filter || self.links.get(slot).is_some_and(|link| link.announces);
        counts && self.sightings.has(self.now, id, slot)
    }

    /// Leaves the special peers and a random choice of the others.
    fn choose(&mut self, slots: &mut Vec<usize>) {
        if slots.len() <= self.settings.fanout {
            return;
        }
        let is_special = |slot: &usize| self.links.get(*slot).is_some_and(|link| link.special);
        let (mut special, mut regular): (Vec<usize>, Vec<usize>) =
            slots.iter().partition(|slot| is_special(slot));
        shuffle(&mut regular, &mut self.random);
        regular.truncate(self.settings.fanout);
        special.append(&mut regular);
        *slots = special;
    }

    /// The message itself, or its identifier.
    fn pass_on(&mut self, slot: usize, message: &Bytes, id: u128, tag: Tag) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let whole = !link.announces || (self.settings.spread == Spread::Tree && link.eager);
        if whole {
            self.queue(slot, message, tag, Some(id));
        } else {
            link.announced.push(id);
            self.wake(slot);
        }
    }

    fn queue(&mut self, slot: usize, message: &Bytes, tag: Tag, broadcast: Option<u128>) {
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        let parcel = Waiting {
            kind: ParcelKind::Message,
            tag,
            payload: message.clone(),
            broadcast,
        };
        self.counts.queued += 1;
        self.counts.dropped += link.queue.push(parcel);
        self.wake(slot);
    }

    /// A parcel without a message of the application.
    pub(super) fn queue_control(&mut self, slot: usize, kind: ParcelKind, payload: Bytes) {
        if let Some(link) = self.links.get_mut(slot) {
            let parcel = Waiting {
                kind,
                tag: Tag::None,
                payload,
                broadcast: None,
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

    fn write_ids(&mut self, slot: usize, bytes: &mut Vec<u8>) -> u32 {
        let Some(link) = self.links.get_mut(slot) else {
            return 0;
        };
        let requested = std::mem::take(&mut link.requested);
        let mut announced = std::mem::take(&mut link.announced);
        announced.retain(|id| !self.sightings.has(self.now, *id, slot));
        let mut parcels = 0;
        if std::mem::take(&mut link.prunes) {
            let parcel = Parcel::new(ParcelKind::Message, &[own::PRUNE]);
            link.encoder.parcel(&parcel, bytes);
            parcels += 1;
        }
        for (first, ids) in [(own::REQUEST, requested), (own::ANNOUNCEMENT, announced)] {
            for ids in ids.chunks(MOST_IDS) {
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

    fn write_queued(&mut self, slot: usize, bytes: &mut Vec<u8>) -> u32 {
        let Some(link) = self.links.get_mut(slot) else {
            return 0;
        };
        let filters = self.settings.resend_filter || link.announces;
        let mut parcels = 0;
        while parcels == 0 || bytes.len() < self.settings.batch_bytes {
            let Some(waiting) = link.queue.pop() else {
                break;
            };
            if filters
                && let Some(id) = waiting.broadcast
                && self.sightings.has(self.now, id, slot)
            {
                self.counts.filtered += 1;
                continue;
            }
            if waiting.kind.is_message() {
                self.counts.messages_written += 1;
            }
            if link.announces && waiting.kind.is_message() {
                self.scratch.clear();
                self.scratch.push(own::MESSAGE);
                self.scratch.extend_from_slice(&waiting.payload);
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
                return self.received_own(slot, parcel.payload);
            }
            ParcelKind::Message | ParcelKind::MessagePart => {
                self.received_message(slot, parcel.payload);
            }
            ParcelKind::Ping => {
                let pong = Bytes::from_static(payload_of(ParcelKind::Pong));
                self.queue_control(slot, ParcelKind::Pong, pong);
            }
            ParcelKind::PeerRequest => self.serve_peer_request(slot),
            ParcelKind::PeerResponse if std::mem::take(&mut link.asked) => {
                // factom-p2p ignores a list that it cannot read.
                let endpoints = decode_share(link.encoder.version(), parcel.payload);
                self.learn(endpoints.unwrap_or_default());
            }
            _ => {}
        }
        Ok(())
    }

    fn received_message(&mut self, slot: usize, message: &[u8]) {
        self.counts.received += 1;
        self.counts.payload_read += message.len() as u64;
        let id = self.identifier.of(message);
        if !self.sightings.note(self.now, id, Some(slot)) {
            self.counts.duplicates += 1;
            if self.settings.spread == Spread::Tree {
                self.prune(slot);
            }
            return;
        }
        let from = self.links.get(slot).map(|link| link.id);
        let message = Bytes::copy_from_slice(message);
        self.first_seen(id, from, &message);
        if self.settings.relayed.contains(&message) {
            self.broadcast(&message, id, Tag::Broadcast);
        }
    }

    /// This node's own message, which nobody has sent it.
    fn see(&mut self, id: u128, message: &Bytes) {
        if self.sightings.note(self.now, id, None) {
            self.first_seen(id, None, message);
        }
    }

    fn first_seen(&mut self, id: u128, from: Option<PeerId>, message: &Bytes) {
        self.counts.first_seen += 1;
        if self.settings.spread != Spread::Flood {
            self.bodies.hold(self.now, id, from, message.clone());
        }
        self.outputs.push_back(Output::Deliver {
            from,
            message: message.clone(),
            first_seen: self.now,
        });
    }

    /// A payload on a link that announces.
    fn received_own(&mut self, slot: usize, payload: &[u8]) -> Result<(), CloseReason> {
        let malformed = CloseReason::Malformed(CodecError::Empty(ParcelKind::Message));
        let Some((first, rest)) = payload.split_first() else {
            return Err(malformed);
        };
        let (ids, partial) = rest.as_chunks::<ID>();
        match *first {
            own::MESSAGE if !rest.is_empty() => self.received_message(slot, rest),
            own::ANNOUNCEMENT if partial.is_empty() => {
                for id in ids {
                    self.announced(slot, u128::from_be_bytes(*id));
                }
            }
            own::REQUEST if partial.is_empty() => {
                for id in ids {
                    self.requested(slot, u128::from_be_bytes(*id));
                }
            }
            own::PRUNE if rest.is_empty() => self.set_eager(slot, false),
            _ => return Err(malformed),
        }
        Ok(())
    }

    fn announced(&mut self, slot: usize, id: u128) {
        if self.sightings.note_holder(self.now, id, slot) {
            return;
        }
        let Some(link) = self.links.get_mut(slot) else {
            return;
        };
        match self
            .bodies
            .want(self.now, id, link.id, self.settings.spread)
        {
            Some(true) => {
                link.requested.push(id);
                self.wake(slot);
            }
            Some(false) => {}
            None => self.counts.unserved += 1,
        }
    }

    fn requested(&mut self, slot: usize, id: u128) {
        match self.bodies.get(id).cloned() {
            Some(body) => {
                self.queue(slot, &body, Tag::None, Some(id));
                self.set_eager(slot, true);
            }
            None => self.counts.unserved += 1,
        }
    }

    /// Requests what has been announced and has not come.
    pub(super) fn request_overdue(&mut self) {
        while let Some((id, holder)) = self.bodies.overdue(self.now) {
            if let Some(slot) = self.links.slot(holder)
                && let Some(link) = self.links.get_mut(slot)
            {
                link.requested.push(id);
                link.eager = true;
                self.wake(slot);
            }
        }
    }

    /// A message came twice: this link need not be part of the tree, unless it is the last that is.
    fn prune(&mut self, slot: usize) {
        let is_eager = |link: &super::Link| link.announces && link.eager;
        let eager = self.links.iter().filter(|(_, link)| is_eager(link));
        let is_last = eager.count() < 2;
        let is_part = self.links.get(slot).is_some_and(is_eager);
        if is_part && !is_last {
            if let Some(link) = self.links.get_mut(slot) {
                link.eager = false;
                link.prunes = true;
            }
            self.wake(slot);
        }
    }

    fn set_eager(&mut self, slot: usize, eager: bool) {
        if let Some(link) = self.links.get_mut(slot) {
            link.eager = eager;
        }
    }
}
