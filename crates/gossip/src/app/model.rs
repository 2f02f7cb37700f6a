//! One node's part in the application.

use std::sync::Arc;

use base::{Random, mix};
use pacing::Nanos;

use super::{Fan, KindId, Mix, Source, Stamp, Transaction};
use crate::node::{PeerId, Routing};

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

    /// Whom a new message of this kind goes to; an answer, to the one that it answers.
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
    use super::*;
    use crate::app::{Fan, Kind, Request, Stamp};

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
