//! When the next transaction of a shard is due: from the schedule, or from the answers.

use pacing::{Due, Nanos, Profile, Step};

use super::load::{Offering, Orders};

/// Where a shard's due times come from.
pub(super) enum Pace {
    /// Open loop: the schedule decides.
    Open(Box<Open>),
    /// Closed loop: a transaction is due as soon as a slot is free.
    Closed(Closed),
}

/// The due times of one shard and the steps they belong to.
pub(super) struct Open {
    shard: u32,
    offering: Offering,
    next: Option<Due>,
    step: Step,
    /// Indices from here on have no transaction.
    end: u64,
    /// The revision of the schedule that is known, and from when on which due times hold by it.
    revision: u32,
    revised: Option<(Nanos, Offering)>,
}

/// The slots of one shard of a flood.
pub(super) struct Closed {
    next: u64,
    stride: u64,
    end: u64,
    slots: usize,
}

/// One due transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct DueTx {
    pub(super) index: u64,
    pub(super) at: Nanos,
    pub(super) step: u32,
    /// Since when the shard itself is not why it waits: when it saw it, or when it was due while others
    /// waited before it.
    pub(super) seen: Nanos,
}

impl Pace {
    pub(super) fn open(shard: u32, offering: Offering, end: u64) -> Self {
        let mut open = Box::new(Open {
            shard,
            step: offering.profile.step_at(Nanos::ZERO),
            offering,
            next: None,
            end,
            revision: 0,
            revised: None,
        });
        open.advance();
        Self::Open(open)
    }

    /// Takes over a schedule that was revised.
    pub(super) fn follow(&mut self, orders: &Orders) {
        if let Self::Open(open) = self
            && open.revision != orders.revision()
        {
            open.revision = orders.revision();
            open.revised = orders.revised(open.shard);
            open.revise();
        }
    }

    pub(super) fn closed(shard: u32, of: u32, end: u64, slots: usize) -> Self {
        Self::Closed(Closed {
            next: u64::from(shard),
            stride: u64::from(of),
            end,
            slots,
        })
    }

    /// The next transaction that is due by `now` and before `stop_at`, if any. `unanswered` counts the
    /// shard's transactions that were due and have no answer yet.
    pub(super) fn next(&mut self, now: Nanos, stop_at: Nanos, unanswered: usize) -> Option<DueTx> {
        match self {
            Self::Open(open) => open.next(now, stop_at),
            Self::Closed(closed) => closed.next(now, stop_at, unanswered),
        }
    }

    /// Whether a transaction is due by `now` whose turn the schedule decides.
    pub(super) fn has_due(&self, now: Nanos, stop_at: Nanos) -> bool {
        self.next_at().is_some_and(|at| at <= now && at < stop_at)
    }

    /// When the next transaction is due; `None` when there is none, or when an answer decides.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        match self {
            Self::Open(open) => open.next.map(|due| due.at),
            Self::Closed(_) => None,
        }
    }

    /// Whether nothing falls due any more before `stop_at`.
    pub(super) fn is_over(&self, now: Nanos, stop_at: Nanos) -> bool {
        match self {
            // A pause at the end belongs to the load as much as one in its middle.
            Self::Open(open) => now >= open.offering.ends_at.min(stop_at),
            Self::Closed(closed) => closed.next >= closed.end || now >= stop_at,
        }
    }
}

impl Open {
    fn next(&mut self, now: Nanos, stop_at: Nanos) -> Option<DueTx> {
        let due = self.next.filter(|due| due.at <= now && due.at < stop_at)?;
        self.advance();
        if self.step.end.is_some_and(|end| due.at >= end) {
            self.step = self.offering.profile.step_at(due.at);
        }
        Some(DueTx {
            index: due.index,
            at: due.at,
            step: self.step.index,
            seen: now,
        })
    }

    fn advance(&mut self) {
        self.next = self.offering.dues.next().filter(|due| due.index < self.end);
        self.revise();
    }

    /// Goes on by the revised schedule once the next transaction is one of its.
    fn revise(&mut self) {
        let next = self.next.map_or(Nanos::MAX, |due| due.at);
        if let Some((_, offering)) = self.revised.take_if(|(from, _)| *from <= next) {
            self.offering = offering;
            self.advance();
        }
    }
}

impl Closed {
    fn next(&mut self, now: Nanos, stop_at: Nanos, unanswered: usize) -> Option<DueTx> {
        if self.next >= self.end || unanswered >= self.slots || now >= stop_at {
            return None;
        }
        let index = self.next;
        self.next += self.stride;
        Some(DueTx {
            index,
            at: now,
            step: 0,
            seen: now,
        })
    }
}

/// The pauses of a profile whose connections are broken in each.
pub(super) struct Pauses {
    profile: Profile,
    /// The end of the last pause that was dealt with.
    done_until: Nanos,
}

impl Pauses {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            done_until: Nanos::ZERO,
        }
    }

    /// Whether to break the connections now. Says so once in a pause: as soon as nothing is under
    /// way, at the latest in the pause's middle.
    pub(super) fn is_time(&mut self, now: Nanos, under_way: usize) -> bool {
        if now < self.done_until {
            return false;
        }
        let step = self.profile.step_at(now);
        let end = step.end.unwrap_or(Nanos::MAX);
        // The last step is that of every later instant.
        if end == self.done_until {
            return false;
        }
        let half = Nanos::from_nanos(end.saturating_sub(step.start).as_nanos() / 2);
        if !step.pause || under_way > 0 && now < step.start.saturating_add(half) {
            return false;
        }
        self.done_until = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use pacing::Rate;

    use super::*;

    /// On a busy machine answers to the last transactions came after the end, and connections were broken at every look.
    #[test]
    fn the_last_pause_is_dealt_with_once_however_long_the_run_goes_on() {
        let second = Nanos::from_secs(1);
        let (rate, cycles) = (Rate::per_second(100).unwrap(), NonZeroU32::new(2).unwrap());
        let profile = Profile::square(rate, Rate::ZERO, second, second, cycles).unwrap();
        let breaks = |millis: [u64; 8]| {
            let mut pauses = Pauses::new(profile.clone());
            millis.map(|millis| pauses.is_time(Nanos::from_millis(millis), 0))
        };
        assert_eq!(
            breaks([500, 1_000, 1_500, 2_500, 3_000, 3_999, 4_000, 9_000]),
            [false, true, false, false, true, false, false, false]
        );
        assert_eq!(
            breaks([500, 1_000, 1_500, 2_500, 4_000, 4_001, 5_000, 9_000]),
            [false, true, false, false, true, false, false, false],
            "late for the whole of it"
        );
    }
}
