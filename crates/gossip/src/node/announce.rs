//! Announcements: in place of a message its identifier is sent, and a peer that has not seen the message requests it.
//!
//! factom-p2p has none. They go between nodes whose V11 handshakes both offer them; on other links messages are flooded.

use std::collections::VecDeque;

use bytes::Bytes;
use hashbrown::HashMap;
use pacing::Nanos;

use super::{
    CloseReason, Node, PeerId,
    link::Tag,
    routing::{Identifier, Keyed},
};
use crate::{
    codec::CodecError,
    parcel::{Parcel, ParcelKind},
};

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
/// Bytes of messages kept for requests: those of some seconds at the highest rates.
const MAX_BODY_BYTES: usize = 32 << 20;
const MAX_WANTED: usize = 1 << 16;
/// Peers that are remembered for one wanted message, in case that the first does not answer.
const MAX_HOLDERS: usize = 8;
/// How long a peer may take to answer a request before the next one is asked: longer than a loaded network takes.
const REQUEST_TIMEOUT: Nanos = Nanos::from_millis(500);
/// Requests for one message: of eight holders each twice, in eight seconds.
const MOST_REQUESTS: u32 = 16;

/// Messages that peers may request, and messages that this node has requested.
#[derive(Debug)]
pub(super) struct Bodies {
    held: HashMap<Identifier, Bytes, Keyed>,
    /// In the order in which they came.
    order: VecDeque<Identifier>,
    bytes: usize,
    wanted: HashMap<Identifier, Wanted, Keyed>,
    /// When each request times out. The timeout is constant, so the order of requests is that of time.
    timeouts: VecDeque<(Nanos, Identifier)>,
    given_up: u64,
}

/// A message that was requested and has not come.
#[derive(Debug)]
struct Wanted {
    /// Peers that announced it, the one to ask next first.
    holders: VecDeque<PeerId>,
    /// How often it was requested: a full queue may have dropped the request, or the answer.
    requests: u32,
}

impl Bodies {
    pub(super) fn new(key: u64) -> Self {
        Self {
            held: HashMap::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            bytes: 0,
            wanted: HashMap::with_hasher(Keyed(key)),
            timeouts: VecDeque::new(),
            given_up: 0,
        }
    }

    /// Keeps a message that was seen for the first time; it is not wanted any more.
    pub(super) fn hold(&mut self, id: Identifier, body: Bytes) {
        self.wanted.remove(&id);
        self.bytes += body.len();
        match self.held.insert(id, body) {
            Some(same) => self.bytes -= same.len(),
            None => self.order.push_back(id),
        }
        while self.bytes > MAX_BODY_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.held.remove(&oldest).map_or(0, |body| body.len());
        }
    }

    /// A peer has announced a message that this node does not have. Gives whether to request it from that peer now;
    /// none when there is no room to remember the request.
    fn want(&mut self, now: Nanos, id: Identifier, from: PeerId) -> Option<bool> {
        if let Some(wanted) = self.wanted.get_mut(&id) {
            if wanted.holders.len() < MAX_HOLDERS {
                // Those that were not asked come before those that were.
                let asked = wanted.requests.min(wanted.holders.len() as u32) as usize;
                wanted.holders.insert(wanted.holders.len() - asked, from);
            }
            return Some(false);
        }
        if self.wanted.len() >= MAX_WANTED {
            return None;
        }
        let first = Wanted {
            holders: VecDeque::from([from]),
            requests: 1,
        };
        self.wanted.insert(id, first);
        self.timeouts
            .push_back((now.saturating_add(REQUEST_TIMEOUT), id));
        Some(true)
    }

    /// When [`Bodies::next_retry`] has something to do.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.timeouts.front().map(|(at, _)| *at)
    }

    /// The next message whose request has timed out, and the peer to ask for it now.
    fn next_retry(&mut self, now: Nanos) -> Option<(Identifier, PeerId)> {
        while let Some(&(at, id)) = self.timeouts.front()
            && at <= now
        {
            self.timeouts.pop_front();
            let Some(wanted) = self.wanted.get_mut(&id) else {
                continue; // it has come
            };
            if wanted.requests < MOST_REQUESTS
                && let Some(holder) = wanted.holders.pop_front()
            {
                wanted.requests += 1;
                wanted.holders.push_back(holder);
                self.timeouts
                    .push_back((now.saturating_add(REQUEST_TIMEOUT), id));
                return Some((id, holder));
            }
            // The next peer that announces it is asked.
            self.wanted.remove(&id);
            self.given_up += 1;
        }
        None
    }

    /// Messages that no peer sent although each was asked again and again.
    pub(super) const fn given_up(&self) -> u64 {
        self.given_up
    }
}

impl Node {
    /// A payload on a link that announces.
    pub(super) fn received_tagged(
        &mut self,
        slot: usize,
        payload: &[u8],
    ) -> Result<(), CloseReason> {
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
        match self.bodies.held.get(&id).cloned() {
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
    pub(super) fn write_ids(&mut self, slot: usize, bytes: &mut Vec<u8>) -> u32 {
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
pub(super) fn tag_message(message: &[u8], scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.push(first_byte::MESSAGE);
    scratch.extend_from_slice(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_not_answered_goes_to_the_next_peer_that_announced_the_message() {
        let mut bodies = Bodies::new(1);
        let (second, third) = (PeerId(2), PeerId(3));
        assert_eq!(bodies.want(Nanos::ZERO, 7, PeerId(1)), Some(true));
        assert_eq!(bodies.want(Nanos::ZERO, 7, second), Some(false));
        assert_eq!(bodies.want(Nanos::ZERO, 7, third), Some(false));
        let due = bodies.next_due().unwrap();
        assert_eq!(bodies.next_retry(due.saturating_sub(Nanos::new(1))), None);
        assert_eq!(bodies.next_retry(due), Some((7, second)));
        assert_eq!(bodies.next_retry(due), None, "one peer at a time");
        let due = bodies.next_due().unwrap();
        assert_eq!(bodies.next_retry(due), Some((7, third)));
        bodies.hold(7, Bytes::from_static(b"message"));
        assert_eq!(bodies.next_retry(Nanos::from_secs(9)), None, "it has come");
    }

    #[test]
    fn a_message_that_its_peer_never_sends_is_given_up_counted_and_requested_of_the_next_that_announces_it()
     {
        let mut bodies = Bodies::new(1);
        bodies.want(Nanos::ZERO, 7, PeerId(1));
        let mut requests = 1;
        while let Some(due) = bodies.next_due() {
            requests += u32::from(bodies.next_retry(due) == Some((7, PeerId(1))));
        }
        assert_eq!((requests, bodies.given_up()), (MOST_REQUESTS, 1));
        let again = bodies.want(Nanos::from_secs(20), 7, PeerId(2));
        assert_eq!(again, Some(true));
    }
}
