//! Which messages a node has seen, and from whom.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher},
};

use hashbrown::HashMap;
use pacing::{Nanos, mix};

/// The messages of the last ten minutes, each with the peers that have it.
///
/// One table is both filters of the original: the app's ten buckets of a minute, which tell what was
/// seen before, and the library's three buckets of 20 s a peer, which tell what a peer needs not be
/// sent (factom-p2p, peerHashCache.go).
#[derive(Debug)]
pub(super) struct Sightings {
    known: HashMap<u128, Sighting, Keyed>,
    /// In the order of their first sight, with its minute.
    order: VecDeque<(u128, u32)>,
    most: usize,
    forgotten: u64,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    /// A bit for each of the first [`SLOTS`] links: whether it has sent the message.
    holders: u128,
    /// The interval of [`RESEND_INTERVAL`] in which the first holder sent it.
    heard: u32,
}

/// Links beyond these are sent what they have.
const SLOTS: usize = 128;
const MINUTES: u32 = 10;
const RESEND_BUCKETS: u32 = 3;
const RESEND_INTERVAL: u64 = 20;

impl Sightings {
    pub(super) fn new(most: usize, key: u64) -> Self {
        Self {
            known: HashMap::with_hasher(Keyed(key)),
            order: VecDeque::new(),
            most: most.max(1),
            forgotten: 0,
        }
    }

    /// Notes a message, sent by the link in this slot, and says whether it is new.
    pub(super) fn note(&mut self, now: Nanos, id: u128, slot: Option<usize>) -> bool {
        self.expire(now);
        let interval = interval(now);
        let bit = slot.map_or(0, bit);
        if let Some(sighting) = self.known.get_mut(&id) {
            sighting.hold(interval, bit);
            return false;
        }
        if self.order.len() >= self.most {
            self.forgotten += 1;
            self.forget_oldest();
        }
        let sighting = Sighting {
            holders: bit,
            heard: interval,
        };
        self.known.insert(id, sighting);
        self.order.push_back((id, minute(now)));
        true
    }

    /// Notes that the link in this slot has a message, if the message was seen; says whether it was.
    pub(super) fn note_holder(&mut self, now: Nanos, id: u128, slot: usize) -> bool {
        let Some(sighting) = self.known.get_mut(&id) else {
            return false;
        };
        sighting.hold(interval(now), bit(slot));
        true
    }

    /// Whether the link in this slot is known to have the message.
    pub(super) fn has(&self, now: Nanos, id: u128, slot: usize) -> bool {
        self.known.get(&id).is_some_and(|sighting| {
            sighting.holders & bit(slot) != 0 && sighting.is_fresh(interval(now))
        })
    }

    /// The slot is somebody else's from here on.
    pub(super) fn forget_slot(&mut self, slot: usize) {
        let kept = !bit(slot);
        for sighting in self.known.values_mut() {
            sighting.holders &= kept;
        }
    }

    /// How many were given up because more came than are remembered.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn expire(&mut self, now: Nanos) {
        let minute = minute(now);
        while let Some(&(_, first)) = self.order.front()
            && first + MINUTES <= minute
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((id, _)) = self.order.pop_front() {
            self.known.remove(&id);
        }
    }
}

impl Sighting {
    const fn is_fresh(&self, interval: u32) -> bool {
        interval.saturating_sub(self.heard) < RESEND_BUCKETS
    }

    fn hold(&mut self, interval: u32, bit: u128) {
        if !self.is_fresh(interval) {
            (self.holders, self.heard) = (0, interval);
        }
        self.holders |= bit;
    }
}

const fn bit(slot: usize) -> u128 {
    if slot < SLOTS { 1 << slot } else { 0 }
}

fn minute(now: Nanos) -> u32 {
    (now.as_secs() / 60) as u32
}

fn interval(now: Nanos) -> u32 {
    (now.as_secs() / RESEND_INTERVAL) as u32
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
        assert!(seen.note(seconds(30), 7, None));
        assert!(!seen.note(seconds(599), 7, None));
        assert!(seen.note(seconds(600), 7, None));
    }

    #[test]
    fn a_peer_is_known_to_have_what_it_sent_for_40_to_60_seconds() {
        let mut seen = Sightings::new(100, 1);
        seen.note(seconds(19), 7, Some(3));
        assert!(seen.has(seconds(59), 7, 3));
        assert!(!seen.has(seconds(60), 7, 3));
        assert!(!seen.has(seconds(20), 7, 4), "somebody else's");
        seen.note(seconds(70), 7, Some(4));
        assert!(seen.has(seconds(71), 7, 4));
        assert!(
            !seen.has(seconds(71), 7, 3),
            "its mark was of an old interval"
        );
    }

    #[test]
    fn a_new_link_in_an_old_ones_slot_is_sent_what_the_old_one_had() {
        let mut seen = Sightings::new(100, 1);
        seen.note(seconds(1), 7, Some(3));
        seen.forget_slot(3);
        assert!(!seen.has(seconds(1), 7, 3));
    }

    #[test]
    fn the_table_is_bounded_and_counts_what_it_gave_up() {
        let mut seen = Sightings::new(2, 1);
        for id in 0..5 {
            assert!(seen.note(seconds(1), id, None));
        }
        assert_eq!(
            (seen.known.len(), seen.order.len(), seen.forgotten()),
            (2, 2, 3)
        );
        assert!(!seen.note(seconds(1), 4, None));
        assert!(seen.note(seconds(1), 0, None), "forgotten, so new again");
    }

    #[test]
    fn links_past_the_128th_are_never_taken_to_have_a_message() {
        let mut seen = Sightings::new(2, 1);
        seen.note(seconds(1), 7, Some(128));
        assert!(!seen.has(seconds(1), 7, 128));
        assert!(!seen.has(seconds(1), 7, 0));
    }
}
