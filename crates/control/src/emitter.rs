//! When writes leave: an exact emitter at the pace, under the ceiling.

use fairq::Gcra;
use pacing::{Nanos, Rate};

use crate::in_flight::AHEAD;
use crate::window::GROUP;

/// Lets out no more than a pace, and no more than the ceiling whatever the pace is.
#[derive(Clone, Debug)]
pub(crate) struct Emitter {
    ceiling: Gcra,
    pace: Gcra,
}

impl Emitter {
    pub(crate) fn new(most: Rate) -> Self {
        let ceiling = Gcra::new(most, AHEAD);
        let pace = ceiling.clone();
        Self { ceiling, pace }
    }

    /// Writes a second at most.
    pub(crate) const fn most(&self) -> Rate {
        self.ceiling.rate()
    }

    pub(crate) fn set_most(&mut self, now: Nanos, most: Rate) {
        self.ceiling.set_rate(now, most);
    }

    pub(crate) fn set_rate(&mut self, now: Nanos, rate: Rate) {
        self.pace.set_rate(now, rate);
    }

    /// Lets out so many at most: how many.
    pub(crate) fn take(&mut self, now: Nanos, count: usize) -> usize {
        let ready = (self.ceiling.ready(now)).saturating_sub(self.kept_of_ceiling().into());
        let count = u32::try_from(ready.min(count as u64)).unwrap_or(u32::MAX);
        let taken = self.pace.take_up_to(now, count);
        self.ceiling.take_up_to(now, taken);
        taken as usize
    }

    /// So many writes left of clients that ask for little, which the ceiling alone bounds.
    pub(crate) fn took_light(&mut self, now: Nanos, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.ceiling.take_up_to(now, count);
        self.pace.take_up_to(now, count);
    }

    /// How many clients that ask for little may send.
    pub(crate) fn light(&self, now: Nanos) -> usize {
        self.ceiling.ready(now) as usize
    }

    /// When a group of the `left` that wait may leave.
    pub(crate) fn next(&self, now: Nanos, left: usize) -> Nanos {
        let group = (self.pace.rate().as_f64() * GROUP).max(1.0) as u32;
        let group = group.min(u32::try_from(left).unwrap_or(u32::MAX));
        let of_ceiling = self.ceiling.next_at(now, group + self.kept_of_ceiling());
        self.pace.next_at(now, group).max(of_ceiling)
    }

    /// Of what the ceiling lets out at once one is kept for clients that ask for little, unless that is one in all.
    fn kept_of_ceiling(&self) -> u32 {
        u32::from(self.most().as_f64() * AHEAD.as_secs_f64() >= 2.0)
    }
}
