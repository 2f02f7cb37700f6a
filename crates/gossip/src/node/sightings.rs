//! Which messages a node has seen, and what they are called.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher},
};

use base::mix;
use hashbrown::HashSet;
use pacing::Nanos;
use sha2::{Digest, Sha256};
use siphasher::sip128::SipHasher13;

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
