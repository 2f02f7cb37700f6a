//! The traffic of a mesh: the application above the gossip protocol, as a model.
//!
//! A [`Mix`] is the traffic as data: kinds of messages with their sizes, the transactions that make
//! them, what is sent periodically, and what is answered. A [`Timeline`] has what a generator offers
//! and when it is due. An [`App`] is one node's part: it makes messages, and gives the reaction of a node to
//! one that it sees for the first time. All of it is a function of a seed.

mod mix;
mod timeline;

use std::sync::Arc;

use base::{Random, mix};
use pacing::Nanos;

pub use mix::{Fan, Kind, KindId, Mix, MixError, Periodic, Request, Transaction};
pub use timeline::{Offer, Source, Timeline};

use crate::node::{PeerId, Routing};

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

/// One node's part: makes its messages, and gives the reaction to those of others.
#[derive(Debug, Clone)]
pub struct App {
    mix: Arc<Mix>,
    node: u16,
    seed: u64,
    is_generator: bool,
    random: Random,
    sequence: u64,
}

/// What a node does with a message that it sees for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// Its kind.
    pub kind: KindId,
    /// Broadcast it.
    pub relay: bool,
    /// Send this back to the peer that it came from.
    pub answer: Option<KindId>,
    /// Ask the mesh for this.
    pub request: Option<KindId>,
    /// Count so many transactions (TPS).
    pub transactions: u32,
    /// Count so many entries (EPS).
    pub entries: u32,
}

impl App {
    /// The part of node number `node`. One node of a mesh is the generator.
    pub fn new(mix: Arc<Mix>, node: u16, is_generator: bool, seed: u64) -> Self {
        Self {
            mix,
            node,
            seed,
            is_generator,
            random: Random::new(base::mix(seed ^ u64::from(node))),
            sequence: 0,
        }
    }

    /// The traffic.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }

    /// The transaction with this number in the schedule: a function of the seed alone.
    pub fn transaction(&self, index: u64) -> &Transaction {
        let place = Random::new(self.seed ^ mix(index)).unit();
        self.mix.transaction(place)
    }

    /// The messages of what is due; none of what is periodic and does not happen now.
    pub fn messages(&mut self, what: Source) -> Vec<KindId> {
        match what {
            Source::Transaction(index) => self.transaction(index).messages.clone(),
            Source::Periodic(place, count) => {
                let periodic = &self.mix.periodic()[place];
                if self.random.unit() < periodic.probability {
                    periodic.messages(count).to_vec()
                } else {
                    Vec::new()
                }
            }
        }
    }

    /// The peers that a new message of this kind goes to; an answer goes to the sender of the question.
    pub fn routing(&self, kind: KindId, answers: Option<PeerId>) -> Routing {
        match (answers, self.mix.kind(kind).fan) {
            (Some(peer), _) => Routing::Direct(peer),
            (None, Fan::One) => Routing::RandomPeer,
            (None, Fan::All) => Routing::Broadcast,
        }
    }

    /// A new message of this kind, unlike all others of the mesh.
    pub fn message(&mut self, kind: KindId, due: Nanos) -> Vec<u8> {
        let stamp = Stamp {
            node: self.node,
            sequence: self.sequence,
            due,
        };
        self.sequence += 1;
        let kind = self.mix.kind(kind);
        stamp.message(kind.tag, kind.size, self.seed)
    }

    /// What to do with a message that is seen for the first time; `None` when the mix has no such type.
    pub fn receive(&mut self, payload: &[u8]) -> Option<Reaction> {
        let id = self.mix.kind_of(payload)?;
        let kind = self.mix.kind(id);
        let (relay, transactions, entries) = (kind.relay, kind.transactions, kind.entries);
        let answer = kind.answer;
        let answer = answer.filter(|(_, probability)| self.random.unit() < *probability);
        let request = if self.is_generator {
            self.request(id)
        } else {
            None
        };
        Some(Reaction {
            kind: id,
            relay,
            answer: answer.map(|(kind, _)| kind),
            request,
            transactions,
            entries,
        })
    }

    fn request(&mut self, on: KindId) -> Option<KindId> {
        let mut requests = self.mix.requests(on);
        let random = &mut self.random;
        let asked = requests.find(|request| random.unit() < request.probability);
        asked.map(|request| request.message)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::app::{Fan, Kind, Request, Stamp};

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

    /// A question that is answered, and asked for a second one by the generator.
    fn app(is_generator: bool) -> App {
        let kind = |name: &str, tag, relay, answer| Kind {
            name: name.into(),
            tag,
            size: 64,
            fan: Fan::One,
            relay,
            answer,
            transactions: 2,
            entries: 1,
        };
        let kinds = vec![
            kind("question", 1, true, Some((Mix::id(1), 1.0))),
            kind("answer", 2, false, None),
        ];
        let transactions = [("common", 3.0), ("rare", 1.0)];
        let transactions = transactions.map(|(name, weight)| Transaction {
            name: name.into(),
            weight,
            messages: vec![Mix::id(0)],
        });
        let requests = vec![Request {
            on: Mix::id(0),
            message: Mix::id(0),
            probability: 1.0,
        }];
        let mix = Mix::new("test", kinds, transactions.into(), Vec::new(), requests).unwrap();
        App::new(Arc::new(mix), 3, is_generator, 7)
    }

    #[test]
    fn a_node_relays_answers_and_counts_and_only_the_generator_asks() {
        let question = app(false).message(Mix::id(0), Nanos::from_millis(5));
        let reaction = app(false).receive(&question).unwrap();
        assert!(reaction.relay);
        assert_eq!(
            (reaction.answer, reaction.request),
            (Some(Mix::id(1)), None)
        );
        assert_eq!((reaction.transactions, reaction.entries), (2, 1));
        let of_generator = app(true).receive(&question).unwrap();
        assert_eq!(of_generator.request, Some(Mix::id(0)));
        assert_eq!(app(true).receive(b"\x09unknown"), None);
        assert_eq!(app(true).receive(b""), None);
    }

    #[test]
    fn messages_differ_and_say_who_made_them_and_when_they_were_due() {
        let mut app = app(false);
        let one = app.message(Mix::id(0), Nanos::from_millis(5));
        let other = app.message(Mix::id(0), Nanos::from_millis(5));
        assert_ne!(one, other);
        let stamp = Stamp::of(&one).unwrap();
        assert_eq!(
            (stamp.node, stamp.sequence, stamp.due),
            (3, 0, Nanos::from_millis(5))
        );
        assert_eq!(one.len(), 64);
    }

    #[test]
    fn transactions_are_drawn_by_their_weights_and_by_nothing_but_seed_and_number() {
        let (one, other) = (app(true), app(false));
        let rare = (0..4000)
            .filter(|index| one.transaction(*index).name == "rare")
            .count();
        // Within six standard deviations of 1,000, and the same in every run.
        assert!((836..=1164).contains(&rare), "{rare}");
        assert!((0..100).all(|index| one.transaction(index) == other.transaction(index)));
    }
}
