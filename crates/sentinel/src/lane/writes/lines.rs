//! Lines: the writes that stay in order among each other.

use std::collections::BTreeSet;

use cosmos::Address;
use fairq::ClientKey;
use hashbrown::HashMap;

use super::state::WriteState;
use super::table::WriteId;
use crate::config::WriteOrder;
use crate::lane::job::Job;

/// What stays in order.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(in crate::lane) enum LineKey {
    Client(ClientKey),
    Connection(ClientKey, u64),
    /// Who writes as an account is not known before the node has checked it: so it is only one client's.
    Account(ClientKey, Address),
}

impl LineKey {
    /// The line of a write.
    pub(super) fn of(order: WriteOrder, job: &Job) -> Self {
        let account = (order == WriteOrder::Account)
            .then(|| job.place())
            .flatten();
        match (order, account) {
            (WriteOrder::Client, _) => Self::Client(job.client),
            (_, Some(place)) => Self::Account(job.client, place.signer),
            (_, None) => Self::Connection(job.client, job.connection),
        }
    }
}

/// What carries a write to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) enum Carrier {
    /// The connection at this place, which others use as well.
    Slot(usize),
    /// A request of its own.
    Alone,
}

/// How a write stands to the others of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lane) enum Position {
    /// Nothing of its line is before it.
    Free,
    /// Those before it are under way there.
    Behind(Carrier),
    /// Those before it have to be known of first.
    Blocked,
}

/// A line while anything of it is under way or held.
#[derive(Debug)]
struct Line {
    /// What carries those that are under way.
    carrier: Carrier,
    under_way: usize,
    /// Those that later ones wait for: to be sent, refused by a full mempool, or of unknown fate.
    blockers: BTreeSet<WriteId>,
    /// Those that wait.
    parked: BTreeSet<WriteId>,
}

/// All lines.
#[derive(Debug, Default)]
pub(super) struct Lines(HashMap<LineKey, Line>);

impl Lines {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn position(&self, key: &LineKey, id: WriteId) -> Position {
        let Some(line) = self.0.get(key) else {
            return Position::Free;
        };
        let is_before = |set: &BTreeSet<WriteId>| set.first().is_some_and(|first| *first < id);
        if is_before(&line.blockers) || is_before(&line.parked) {
            Position::Blocked
        } else if line.under_way > 0 {
            Position::Behind(line.carrier)
        } else {
            Position::Free
        }
    }

    /// Whether any of it is under way.
    pub(super) fn is_under_way(&self, key: &LineKey) -> bool {
        self.0.get(key).is_some_and(|line| line.under_way > 0)
    }

    fn entry(&mut self, key: LineKey, carrier: Carrier) -> &mut Line {
        self.0.entry(key).or_insert_with(|| Line {
            carrier,
            under_way: 0,
            blockers: BTreeSet::new(),
            parked: BTreeSet::new(),
        })
    }

    /// A write that `carrier` took last changes its state, from none when it comes and to none when it ends. Those that need not wait any
    /// more, in order.
    pub(super) fn change(
        &mut self,
        key: LineKey,
        id: WriteId,
        [from, to]: [Option<WriteState>; 2],
        carrier: Carrier,
    ) -> BTreeSet<WriteId> {
        let [left, entered] = [from, to].map(|state| state.and_then(Role::of));
        if left.is_none() && entered.is_none() {
            return BTreeSet::new();
        }
        let line = self.entry(key, carrier);
        match left {
            Some(Role::UnderWay) => line.under_way -= 1,
            Some(Role::Blocker) => drop(line.blockers.remove(&id)),
            Some(Role::Parked) => drop(line.parked.remove(&id)),
            None => {}
        }
        match entered {
            Some(Role::UnderWay) => {
                line.under_way += 1;
                line.carrier = carrier;
            }
            Some(Role::Blocker) => drop(line.blockers.insert(id)),
            Some(Role::Parked) => drop(line.parked.insert(id)),
            None => {}
        }
        if line.under_way > 0 || !line.blockers.is_empty() {
            return BTreeSet::new();
        }
        if line.parked.is_empty() {
            self.0.remove(&key);
            return BTreeSet::new();
        }
        std::mem::take(&mut line.parked)
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
