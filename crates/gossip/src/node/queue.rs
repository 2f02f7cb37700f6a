//! What waits for one peer.

use std::collections::VecDeque;

use bytes::Bytes;

use super::output::QueueLimits;
use crate::parcel::ParcelKind;

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
