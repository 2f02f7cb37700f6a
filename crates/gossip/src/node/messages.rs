//! Messages by their identifiers: those that a node has seen, those that peers may request of it, and those that it has
//! requested.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};

use base::mix;
use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use pacing::Nanos;
use sha2::{Digest, Sha256};
use siphasher::sip128::SipHasher13;

use super::output::PeerId;

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

    /// A message that is kept.
    pub(super) fn held(&self, id: Identifier) -> Option<Bytes> {
        self.held.get(&id).cloned()
    }

    /// A peer has announced a message that this node does not have. Gives whether to request it from that peer now;
    /// none when there is no room to remember the request.
    pub(super) fn want(&mut self, now: Nanos, id: Identifier, from: PeerId) -> Option<bool> {
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
    pub(super) fn next_retry(&mut self, now: Nanos) -> Option<(Identifier, PeerId)> {
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

/// Bytes of messages kept for requests: those of some seconds at the highest rates.
const MAX_BODY_BYTES: usize = 32 << 20;
const MAX_WANTED: usize = 1 << 16;
/// Peers that are remembered for one wanted message, in case that the first does not answer.
const MAX_HOLDERS: usize = 8;
/// How long a peer may take to answer a request before the next one is asked: longer than a loaded network takes.
const REQUEST_TIMEOUT: Nanos = Nanos::from_millis(500);
/// Requests for one message: of eight holders each twice, in eight seconds.
const MOST_REQUESTS: u32 = 16;

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
