//! Whose turn it is.
//!
//! Turns come in laps: in each lap a flow gets its quantum times its weight, and sends while it has some of it left.
//! The last item of a turn may cost more than what is left. The flow owes the rest, and its next turn is in the lap in
//! which that is repaid: a debt is a lap number, and not a number of visits, so that no price makes the search for the
//! next turn longer. A flow that has run empty rests until the lap of its next turn, and is forgotten then.

use std::collections::BTreeMap;

/// After so many turns of new flows an old one has its turn. Without that, a client with ever new
/// addresses would keep all others waiting.
const STREAK_MAX: u32 = 16;

/// The lap of a turn, and a number by which those of a lap come in the order in which they were given.
type Place = (u64, u64);

/// The turns of a flow.
#[derive(Default)]
pub(super) struct Turn {
    /// When the next one is. None until the flow's first item has been counted.
    seat: Option<Seat>,
    /// What it may send in the next one, or in that which it is in.
    credit: i64,
    is_under_way: bool,
}

#[derive(Clone, Copy)]
struct Seat {
    wait: Wait,
    place: Place,
}

/// What a flow waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its first turn; new ones come first.
    First,
    /// Its next turn.
    Next,
    /// The lap of its next turn, with nothing to send.
    Rest,
    /// The same, with nothing that may leave.
    Release,
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
        [Wait::First, Wait::Next, Wait::Release]
            .map(|wait| self.len(wait))
            .iter()
            .sum()
    }

    /// The flow whose turn it is.
    pub(super) fn next(&mut self) -> Option<u32> {
        let [new, old] = [Wait::First, Wait::Next].map(|wait| self.first(wait));
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
            .first(Wait::Next)
            .is_none_or(|((lap, _), _)| lap > self.lap + 1);
        if owe {
            self.streak = 0;
            self.passed += 1;
            if self.passed >= self.len(Wait::Next) {
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
    pub(super) fn waiting(&self) -> impl Iterator<Item = u32> {
        let [new, old] = [Wait::First, Wait::Next].map(|wait| self.seats[wait as usize].values());
        new.chain(old).copied()
    }

    /// A flow that rests and owes nothing, if its turn would be next or its place is `wanted`.
    pub(super) fn rested(&self, wanted: bool) -> Option<u32> {
        let (place, flow) = self.first(Wait::Rest)?;
        (self.is_next(place) || wanted && place.0 <= self.lap + 1).then_some(flow)
    }

    /// Whether the turn at this place would be next among those of old flows, and is in this lap or the next.
    fn is_next(&self, place: Place) -> bool {
        place.0 <= self.lap + 1 && self.first(Wait::Next).is_none_or(|(old, _)| place < old)
    }

    /// Lets the laps pass in which all resting clients have debts.
    pub(super) fn skip_debts(&mut self) {
        if let Some(((lap, _), _)) = self.first(Wait::Rest) {
            self.advance(lap - 1);
        }
    }

    fn len(&self, wait: Wait) -> usize {
        self.seats[wait as usize].len()
    }

    fn first(&self, wait: Wait) -> Option<(Place, u32)> {
        let first = self.seats[wait as usize].first_key_value();
        first.map(|(place, flow)| (*place, *flow))
    }

    /// A new place, so many laps from now.
    fn place_in(&mut self, laps: u64) -> Place {
        self.given += 1;
        (self.lap + laps, self.given)
    }

    fn take(&mut self, wait: Wait, place: Place, flow: u32) -> Option<Seat> {
        self.seats[wait as usize].insert(place, flow);
        Some(Seat { wait, place })
    }

    /// A flow has no turn any more.
    pub(super) fn leave(&mut self, turn: &Turn) {
        if let Some(Seat { wait, place }) = turn.seat {
            self.seats[wait as usize].remove(&place);
        }
    }

    /// A flow sends something of this cost. `without` is what it waits for if nothing more of it may leave; `quantum` is what
    /// it may send in a turn.
    pub(super) fn send(
        &mut self,
        flow: u32,
        turn: &mut Turn,
        cost: i64,
        (without, quantum): (Option<Wait>, i64),
    ) {
        turn.is_under_way = true;
        turn.credit -= cost;
        if turn.credit <= 0 {
            self.end_turn(flow, turn, (without, quantum));
        }
    }

    /// What a flow waits for follows from what it has. One that has lost the last that may leave waits until the turn
    /// that it has not begun, or the one after.
    pub(super) fn settle(
        &mut self,
        flow: u32,
        turn: &mut Turn,
        (without, quantum): (Option<Wait>, i64),
    ) {
        let is_waiting = |seat: &Seat| matches!(seat.wait, Wait::First | Wait::Next);
        match (without, turn.seat) {
            (None, seat) if !seat.as_ref().is_some_and(is_waiting) => {
                self.wake(flow, turn, quantum);
            }
            (Some(wait), None) => {
                turn.credit = quantum;
                let place = self.place_in(1);
                turn.seat = self.take(wait, place, flow);
            }
            (Some(wait), Some(seat)) if seat.wait != wait => {
                if turn.is_under_way || seat.wait == Wait::First {
                    self.end_turn(flow, turn, (without, quantum));
                } else {
                    self.leave(turn);
                    turn.seat = self.take(wait, seat.place, flow);
                }
            }
            _ => {}
        }
    }

    /// A flow has something that may leave, and had nothing: it comes after those that are new, or has its turn when it would
    /// have had it, with what it has left after its debts.
    fn wake(&mut self, flow: u32, turn: &mut Turn, quantum: i64) {
        self.leave(turn);
        let due = turn.seat.map(|seat| seat.place);
        let (wait, place) = match due.filter(|due| !self.is_next(*due)) {
            Some(due) => (Wait::Next, due),
            None => {
                if turn.seat.is_none() {
                    turn.credit = quantum;
                }
                (Wait::First, self.place_in(0))
            }
        };
        turn.seat = self.take(wait, place, flow);
    }

    /// Repays what a flow owes by the laps that it takes. What is left of a turn is not saved.
    fn end_turn(&mut self, flow: u32, turn: &mut Turn, (without, quantum): (Option<Wait>, i64)) {
        let owed = (-turn.credit).max(0);
        let laps = owed / quantum + 1;
        turn.credit = laps * quantum - owed;
        turn.is_under_way = false;
        self.leave(turn);
        let place = self.place_in(laps.unsigned_abs());
        turn.seat = self.take(without.unwrap_or(Wait::Next), place, flow);
    }
}
