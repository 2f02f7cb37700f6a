//! What keeps the sequences of an account from the node.

use cosmos::Place;
use pacing::Nanos;

use super::{Event, WriteId, WriteState, Writes};

/// What keeps a write back that the node refuses because earlier ones of its account are missing. Of several the last
/// one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// The client left them out.
    OfClient,
    /// The node had accepted them, and has lost them since.
    Lost,
    /// They are on their way.
    OnTheWay,
    /// A block has to count them.
    AwaitsBlock,
}

impl Writes {
    /// What is before a write of an account of which the node expects the sequence `expected`.
    pub(crate) fn gap(&self, id: WriteId, expected: u64) -> Gap {
        let states = self.before(id, expected).map(|(_, state)| state);
        let gaps = states.map(|state| match state {
            WriteState::Accepted => Gap::Lost,
            WriteState::AwaitsBlock | WriteState::FateUnknown | WriteState::Confirming => {
                Gap::AwaitsBlock
            }
            _ => Gap::OnTheWay,
        });
        match gaps.max() {
            None => Gap::OfClient,
            // The node has them, and its checks do not count them before a block (`mempool.recheck`).
            Some(Gap::Lost) if self.job(id).is_some_and(|job| job.notes.is_behind_lost) => {
                Gap::AwaitsBlock
            }
            Some(gap) => gap,
        }
    }

    /// Offers again what the node has lost before a write of the same account: how many.
    pub(crate) fn offer_before(&mut self, id: WriteId, expected: u64, now: Nanos) -> usize {
        let lost: Vec<WriteId> = self.before(id, expected).map(|(one, _)| one).collect();
        for one in &lost {
            self.apply(*one, Event::OfferAgain, now);
        }
        lost.len()
    }

    /// Those of the same client, and what the node has accepted: any other client's signer is a claim.
    fn before(&self, id: WriteId, expected: u64) -> impl Iterator<Item = (WriteId, WriteState)> {
        let client = self.job(id).map(|job| job.client);
        let binds = move |one: WriteId, state: WriteState| {
            state == WriteState::Accepted || self.job(one).map(|job| job.client) == client
        };
        let place = self.job(id).and_then(|job| job.place());
        let range = place.map(|later| {
            let sequence = expected.min(later.sequence);
            (Place { sequence, ..later }, WriteId::FIRST)..(later, WriteId::FIRST)
        });
        let found = range
            .into_iter()
            .flat_map(|range| self.by_place.range(range));
        found
            .filter_map(|(_, one)| Some((*one, self.state(*one)?)))
            .filter(move |(one, state)| binds(*one, *state))
    }
}
