//! Whose turn it is.
//!
//! Turns come in laps: in each lap a flow gets its quantum times its weight, and sends while it has some of it left.
//! The last item of a turn may cost more than what is left. The flow owes the rest, and its next turn is in the lap in
//! which that is repaid: a debt is a lap number, and not a number of visits, so that no price makes the search for the
//! next turn longer. A flow that has run empty rests until the lap of its next turn, and is forgotten then.

use std::collections::BTreeMap;

use super::FairQueue;
use super::clients::Flow;
use super::limits::{Backlog, Item, PARTS, Popped, counted};
use crate::key::ClientKey;

/// After so many turns of new flows an old one has its turn. Without that, a client with ever new
/// addresses would keep all others waiting.
const STREAK_MAX: u32 = 16;

/// How many flows that have rested are forgotten at each pop: each pop makes one rest at most.
const FORGOTTEN: usize = 2;

/// Flows that are looked at for one that may send.
const LOOKS: usize = 64;

/// The lap of a turn, and a number by which those of a lap come in the order in which they were given.
type Place = (u64, u64);

/// When a flow has its next turn.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    state: State,
    place: Place,
}

/// What a flow waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its first turn; new ones come first.
    New,
    /// Its next turn.
    Old,
    /// The lap of its next turn, with nothing to send.
    Resting,
    /// The same, with nothing that may leave.
    Held,
}

impl State {
    /// That of a flow of which nothing may leave.
    const fn without_turn(flow: &Flow) -> Option<Self> {
        if flow.load.entries == 0 {
            Some(Self::Resting)
        } else if flow.is_held || flow.ring.is_empty() {
            Some(Self::Held)
        } else {
            None
        }
    }
}

/// The order of turns. All that is done here takes the same time whatever flows owe, and grows with the logarithm of
/// their number.
#[derive(Default)]
pub(super) struct Turns {
    seats: [BTreeMap<Place, u32>; 4],
    /// The lap of the last turn of an old flow.
    lap: u64,
    given: u64,
    /// Turns of new flows since the last of an old one.
    streak: u32,
    /// Turns of old flows that none could take since the lap began.
    passed: usize,
}

impl Turns {
    /// How many flows have something to send.
    pub(super) fn backlogged(&self) -> usize {
        [State::New, State::Old, State::Held]
            .map(|state| self.len(state))
            .iter()
            .sum()
    }

    /// The flow whose turn it is.
    fn next(&mut self) -> Option<u32> {
        let [new, old] = [State::New, State::Old].map(|state| self.first(state));
        if let Some((_, flow)) = new
            && (self.streak < STREAK_MAX || self.pass_if_all_owe())
        {
            self.streak += 1;
            return Some(flow);
        }
        self.streak = 0;
        let ((lap, _), flow) = old?;
        self.advance(lap);
        Some(flow)
    }

    /// While new flows come first, laps pass by the turns that old ones have in between, also by those that none takes
    /// because all of them owe, or rest.
    fn pass_if_all_owe(&mut self) -> bool {
        let owe = self
            .first(State::Old)
            .is_none_or(|((lap, _), _)| lap > self.lap + 1);
        if owe {
            self.streak = 0;
            self.passed += 1;
            if self.passed >= self.len(State::Old) {
                self.advance(self.lap + 1);
            }
        }
        owe
    }

    fn advance(&mut self, lap: u64) {
        if lap > self.lap {
            self.lap = lap;
            self.passed = 0;
        }
    }

    /// Flows that have something to send, in the order of their turns.
    fn waiting(&self) -> impl Iterator<Item = u32> {
        let [new, old] = [State::New, State::Old].map(|state| self.seats[state as usize].values());
        new.chain(old).copied()
    }

    /// A flow that rests and owes nothing, if its turn would be next or its place is `wanted`.
    fn rested(&self, wanted: bool) -> Option<u32> {
        let (place, flow) = self.first(State::Resting)?;
        (self.is_next(place) || wanted && place.0 <= self.lap + 1).then_some(flow)
    }

    /// Whether the turn at this place would be next among those of old flows, and is in this lap or the next.
    fn is_next(&self, place: Place) -> bool {
        place.0 <= self.lap + 1 && self.first(State::Old).is_none_or(|(old, _)| place < old)
    }

    /// Lets the laps pass in which all who rest owe something.
    fn skip_debts(&mut self) {
        if let Some(((lap, _), _)) = self.first(State::Resting) {
            self.advance(lap - 1);
        }
    }

    fn len(&self, state: State) -> usize {
        self.seats[state as usize].len()
    }

    fn first(&self, state: State) -> Option<(Place, u32)> {
        let first = self.seats[state as usize].first_key_value();
        first.map(|(place, flow)| (*place, *flow))
    }

    /// A new place, so many laps from now.
    fn place_in(&mut self, laps: u64) -> Place {
        self.given += 1;
        (self.lap + laps, self.given)
    }

    fn take(&mut self, state: State, place: Place, flow: u32) -> Option<Seat> {
        self.seats[state as usize].insert(place, flow);
        Some(Seat { state, place })
    }

    fn leave(&mut self, seat: Option<Seat>) {
        if let Some(Seat { state, place }) = seat {
            self.seats[state as usize].remove(&place);
        }
    }
}

impl<T> FairQueue<T> {
    /// The item whose turn it is, at the cost that it has now, 1 to 16,384 (outside of that the nearer end counts): what
    /// is scarce may have changed since it was pushed.
    pub fn pop_at(&mut self, price: impl Fn(&Item<T>) -> u32) -> Option<Popped<T>> {
        for _ in 0..FORGOTTEN {
            self.forget_rested(false);
        }
        let flow = self.turns.next()?;
        Some(self.pop_of(flow, price))
    }

    /// The same of the first client in turn that `may` send, by what it has waiting. Looks at no more than 64 clients.
    pub fn pop_if(
        &mut self,
        price: impl Fn(&Item<T>) -> u32,
        may: impl Fn(&ClientKey, &Backlog) -> bool,
    ) -> Option<Popped<T>> {
        let may = |flow: &u32| may(&self.flows[*flow].owner, &self.flows[*flow].load);
        let flow = self.turns.waiting().take(LOOKS).find(may)?;
        Some(self.pop_of(flow, price))
    }

    fn pop_of(&mut self, flow: u32, price: impl Fn(&Item<T>) -> u32) -> Popped<T> {
        let ring = &mut self.flows[flow].ring;
        let lane = ring.head().expect("a flow with a turn has a lane");
        ring.rotate(&mut self.lanes);
        let entry = self.lanes[lane].fifo.head();
        let popped = self.take_out(entry.expect("a lane holds an entry"));
        let node = &mut self.flows[flow];
        node.is_in_turn = true;
        node.credit -= i64::from(counted(price(&popped.item))) * i64::from(PARTS);
        if node.credit <= 0 {
            self.end_turn(flow);
        }
        self.settle(flow);
        popped
    }

    /// A flow has something that may leave, and had nothing: it comes after those that are new, or has its turn when it would have had it, with
    /// what it has left after its debts.
    fn wake(&mut self, flow: u32) {
        let quantum = self.quantum(flow);
        let node = &mut self.flows[flow];
        self.turns.leave(node.seat);
        let due = node.seat.map(|seat| seat.place);
        let (state, place) = match due.filter(|due| !self.turns.is_next(*due)) {
            Some(due) => (State::Old, due),
            None => {
                if node.seat.is_none() {
                    node.credit = quantum;
                }
                (State::New, self.turns.place_in(0))
            }
        };
        node.seat = self.turns.take(state, place, flow);
    }

    /// What a flow waits for follows from what it has. One that has lost the last that may leave waits until the turn
    /// that it has not begun, or the one after.
    pub(super) fn settle(&mut self, flow: u32) {
        let quantum = self.quantum(flow);
        let node = &mut self.flows[flow];
        let is_waiting = |seat: &Seat| matches!(seat.state, State::New | State::Old);
        match (State::without_turn(node), node.seat) {
            (None, seat) if !seat.as_ref().is_some_and(is_waiting) => self.wake(flow),
            (Some(state), None) => {
                node.credit = quantum;
                let place = self.turns.place_in(1);
                node.seat = self.turns.take(state, place, flow);
            }
            (Some(state), Some(seat)) if seat.state != state => {
                if node.is_in_turn || seat.state == State::New {
                    self.end_turn(flow);
                } else {
                    self.turns.leave(node.seat);
                    node.seat = self.turns.take(state, seat.place, flow);
                }
            }
            _ => {}
        }
    }

    /// Repays what a flow owes by the laps that it takes. What is left of a turn is not saved.
    fn end_turn(&mut self, flow: u32) {
        let quantum = self.quantum(flow);
        let node = &mut self.flows[flow];
        let owed = (-node.credit).max(0);
        let laps = owed / quantum + 1;
        node.credit = laps * quantum - owed;
        node.is_in_turn = false;
        let state = State::without_turn(node).unwrap_or(State::Old);
        self.turns.leave(node.seat);
        let place = self.turns.place_in(laps.unsigned_abs());
        node.seat = self.turns.take(state, place, flow);
    }

    /// Whether there is a flow for another client. If none is free, who rests and owes nothing is forgotten; while nobody
    /// waits, debts keep nothing from anybody, and laps pass until somebody owes nothing.
    pub(super) fn has_place(&mut self, client: &ClientKey) -> bool {
        while self.clients.is_full() || self.clients.is_full_site(client) {
            if self.is_empty() {
                self.turns.skip_debts();
            }
            if !self.forget_rested(self.clients.is_full()) {
                return false;
            }
        }
        true
    }

    /// Forgets a flow that has rested, if there is one.
    fn forget_rested(&mut self, wanted: bool) -> bool {
        let Some(flow) = self.turns.rested(wanted) else {
            return false;
        };
        let Flow { owner, seat, .. } = self.flows.remove(flow);
        self.turns.leave(seat);
        self.clients.remove(&owner);
        true
    }

    fn quantum(&self, flow: u32) -> i64 {
        let parts = self.flows[flow].weight.parts();
        i64::from(self.limits.quantum) * i64::from(parts)
    }
}
