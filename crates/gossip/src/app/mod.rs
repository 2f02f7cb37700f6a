//! The traffic of a mesh: the application above the gossip protocol, as a model.
//!
//! A [`Mix`] is the traffic as data: kinds of messages with their sizes, the transactions that make
//! them, what is sent periodically, and what is answered. A [`Timeline`] has what a generator offers
//! and when it is due. An [`App`] is one node's part: it makes messages, and gives the reaction of a node to
//! one that it sees for the first time. All of it is a function of a seed.

mod mix;
mod model;
mod timeline;

use base::mix;
use pacing::Nanos;

pub use mix::{Fan, Kind, KindId, Mix, MixError, Periodic, Request, Transaction};
pub use model::{App, Reaction};
pub use timeline::{Offer, Source, Timeline};

/// What a message carries to be distinguished from all others and to be timed: it takes the place of random
/// bytes, so the size is the kind's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The node that made it.
    pub node: u16,
    /// Which of that node's messages it is; below 2^48.
    pub sequence: u64,
    /// When it was due, since the origin, in whole microseconds.
    pub due: Nanos,
}

/// The type byte and the stamp: the least size of a message that carries one. Factom's shortest message
/// that is sent repeatedly (a dbstate request) has as many.
pub const STAMP_BYTES: usize = 15;

impl Stamp {
    /// The stamp of a message; `None` for one that is too short to have any.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let stamp = payload.get(1..STAMP_BYTES)?;
        let (node, rest) = stamp.split_at(2);
        let (sequence, due) = rest.split_at(6);
        Some(Self {
            node: u16::from_be_bytes([node[0], node[1]]),
            sequence: number(sequence),
            due: Nanos::from_micros(number(due)),
        })
    }

    /// The message of a kind with this stamp: `size` bytes, the same for the same stamp and seed.
    pub fn message(&self, tag: u8, size: usize, seed: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size.max(STAMP_BYTES) + 8);
        bytes.push(tag);
        bytes.extend_from_slice(&self.node.to_be_bytes());
        bytes.extend_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes.extend_from_slice(&self.due.as_micros().to_be_bytes()[2..]);
        let mut word = mix(seed ^ self.sequence ^ u64::from(self.node) << 48);
        while bytes.len() < size {
            word = mix(word);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(size);
        bytes
    }
}

/// Up to eight bytes, the most significant first.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_too_short_for_a_stamp_keeps_its_size_and_has_none() {
        let stamp = Stamp {
            node: 1,
            sequence: 7,
            due: Nanos::ZERO,
        };
        let message = stamp.message(13, 1, 0);
        assert_eq!(message, [13]);
        assert_eq!(Stamp::of(&message), None);
    }

    proptest! {
        #[test]
        fn a_stamp_is_read_as_it_was_written_and_the_size_is_exact(
            node: u16, sequence in 0_u64..1 << 48, due_us in 0_u64..1 << 48, size in 15_usize..1000, seed: u64,
        ) {
            let stamp = Stamp { node, sequence, due: Nanos::from_micros(due_us) };
            let message = stamp.message(6, size, seed);
            prop_assert_eq!(message.len(), size);
            prop_assert_eq!(Stamp::of(&message), Some(stamp));
            prop_assert_eq!(&message, &stamp.message(6, size, seed));
        }

        #[test]
        fn different_messages_differ(one in 0_u64..1000, other in 1000_u64..2000) {
            let message = |sequence| Stamp { node: 0, sequence, due: Nanos::ZERO }.message(1, 256, 3);
            prop_assert_ne!(&message(one)[STAMP_BYTES..], &message(other)[STAMP_BYTES..]);
        }
    }
}
