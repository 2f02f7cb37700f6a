//! What stays in order: the writes of a connection, or of a client's account. What keeps the sequences of an
//! account from the node ([`Gap`]), and how many writes of a client have left its queue and cannot be sent ([`Aside`]).

use std::collections::{BTreeSet, HashMap};

use cosmos::Place;
use fairq::ClientKey;
use hashbrown::DefaultHashBuilder;
use pacing::Nanos;
use slab::Slab;

use super::{Event, WriteId, WriteState, Writes};

/// What stays in order: a client's connection or account, by [`Record::line`](crate::lane::job::Record).
pub(super) type LineKey = (ClientKey, u64);

/// What carries a write to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The connection at this place, which others use as well.
    Slot(usize),
    /// A request of its own.
    Alone,
}

/// How a write stands to the others of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// Nothing of its line is before it.
    Free,
    /// So many of those before it are under way there.
    Behind(Carrier, usize),
    /// Those before it have to be known of first.
    Blocked,
}

/// A line while any write is in it.
#[derive(Debug)]
struct Line {
    key: LineKey,
    writes: usize,
    /// What carries those that are under way.
    carrier: Carrier,
    under_way: usize,
    /// Those that later ones wait for: to be sent, refused by a full mempool, or of unknown fate.
    blockers: BTreeSet<WriteId>,
    /// Those that wait.
    parked: BTreeSet<WriteId>,
}

impl Line {
    /// Whether what comes next of it would have to wait here.
    fn is_blocked(&self) -> bool {
        !(self.blockers.is_empty() && self.parked.is_empty())
    }
}

/// The place of a line, for the writes that are in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineId(usize);

/// All lines. A write finds its line once, and keeps the place as long as it is in it.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The hasher mixes a secret of its own into each hash: clients choose accounts.
    places: HashMap<LineKey, usize, DefaultHashBuilder>,
    lines: Slab<Line>,
    /// Those that are blocked from now on, or not any more.
    turned: Vec<Hold>,
}

impl Lines {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// What is to be held in the fair queue from now on, or released.
    pub(super) fn take_turned(&mut self) -> Vec<Hold> {
        std::mem::take(&mut self.turned)
    }

    /// A write joins its line, the last of it.
    pub(super) fn join(&mut self, key: LineKey) -> LineId {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.lines.insert(Line {
                key,
                writes: 0,
                carrier: Carrier::Alone,
                under_way: 0,
                blockers: BTreeSet::new(),
                parked: BTreeSet::new(),
            })
        });
        self.lines[place].writes += 1;
        LineId(place)
    }

    /// A write that is nothing to its line any more leaves it.
    pub(super) fn leave(&mut self, LineId(place): LineId) {
        let line = &mut self.lines[place];
        line.writes -= 1;
        if line.writes == 0 {
            self.places.remove(&line.key);
            self.lines.remove(place);
        }
    }

    pub(super) fn position(&self, LineId(place): LineId, id: WriteId) -> Position {
        let line = &self.lines[place];
        let is_before = |set: &BTreeSet<WriteId>| set.first().is_some_and(|first| *first < id);
        if is_before(&line.blockers) || is_before(&line.parked) {
            Position::Blocked
        } else if line.under_way > 0 {
            Position::Behind(line.carrier, line.under_way)
        } else {
            Position::Free
        }
    }

    /// Whether any of it is under way.
    pub(super) fn is_under_way(&self, LineId(place): LineId) -> bool {
        self.lines[place].under_way > 0
    }

    /// A write that `carrier` took last changes its state, to none when it leaves. Those that need not wait any more, in
    /// order.
    pub(super) fn change(
        &mut self,
        LineId(place): LineId,
        id: WriteId,
        (from, to): (WriteState, Option<WriteState>),
        carrier: Carrier,
    ) -> Vec<WriteId> {
        let line = &mut self.lines[place];
        let was_blocked = line.is_blocked();
        match Role::of(from) {
            Some(Role::UnderWay) => line.under_way -= 1,
            Some(Role::Blocker) => drop(line.blockers.remove(&id)),
            Some(Role::Parked) => drop(line.parked.remove(&id)),
            None => {}
        }
        match to.and_then(Role::of) {
            Some(Role::UnderWay) => {
                line.under_way += 1;
                line.carrier = carrier;
            }
            Some(Role::Blocker) => drop(line.blockers.insert(id)),
            Some(Role::Parked) => drop(line.parked.insert(id)),
            None => {}
        }
        let is_blocked = line.is_blocked();
        if was_blocked != is_blocked {
            self.turned.push(Hold {
                client: line.key.0,
                line: Some(line.key.1),
                is_held: is_blocked,
            });
        }
        if line.parked.is_empty() || line.under_way > 0 || !line.blockers.is_empty() {
            return Vec::new();
        }
        line.parked.iter().copied().collect()
    }
}

/// What a write is to its line.
#[derive(Clone, Copy)]
enum Role {
    UnderWay,
    Blocker,
    Parked,
}

impl Role {
    const fn of(state: WriteState) -> Option<Self> {
        match state {
            WriteState::UnderWay => Some(Self::UnderWay),
            WriteState::Ready | WriteState::Refused | WriteState::FateUnknown => {
                Some(Self::Blocker)
            }
            WriteState::Parked => Some(Self::Parked),
            WriteState::New
            | WriteState::AwaitsBlock
            | WriteState::Confirming
            | WriteState::Accepted => None,
        }
    }
}

/// What the fair queue is to hold, or to release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) client: ClientKey,
    /// All of the client if none is given.
    pub(crate) line: Option<u64>,
    pub(crate) is_held: bool,
}

/// How many wait here, by client.
#[derive(Debug, Default)]
pub(super) struct Aside {
    of_clients: HashMap<ClientKey, usize, DefaultHashBuilder>,
    /// Of each client its share at most.
    counted: usize,
}

impl Aside {
    /// Whether what comes from the queues may wait here.
    pub(super) const fn has_room(&self) -> bool {
        self.counted < MOST
    }

    /// One more waits: its client is held once it has its share.
    pub(super) fn add(&mut self, client: ClientKey) -> Option<Hold> {
        let count = self.of_clients.entry(client).or_default();
        *count += 1;
        self.counted += usize::from(*count <= SHARE);
        (*count == SHARE).then_some(Hold {
            client,
            line: None,
            is_held: true,
        })
    }

    /// One of a client waits no more.
    pub(super) fn take(&mut self, client: ClientKey) -> Option<Hold> {
        let count = self.of_clients.get_mut(&client)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.of_clients.remove(&client);
        }
        self.counted -= usize::from(left < SHARE);
        (left == SHARE - 1).then_some(Hold {
            client,
            line: None,
            is_held: false,
        })
    }
}

/// As many as may be under way by default.
const MOST: usize = 512;
/// A sixteenth.
const SHARE: usize = MOST / 16;

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
