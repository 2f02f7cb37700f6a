//! When the next transaction of a shard is due, from the schedule or from the answers; and why one left late: what kept the
//! shard from sending, and until when.

use measure::{Cause, LATE_LIMIT};
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

    /// Whether to break the connections now. True once in a pause: as soon as nothing is under
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

/// What keeps, or kept, due transactions from being sent.
#[derive(Debug, Default)]
pub(super) struct Blockage {
    cause: Option<Cause>,
    until: Nanos,
    /// Until when the node held connections up.
    held_until: Nanos,
    /// Until when something waited that was due by `held_until`. What was due by then leaves behind
    /// that backlog, so the node is why it is late, whatever slows the catch-up.
    node_until: Nanos,
    /// Since when something has waited all the time; `None` while nothing does.
    since: Option<Nanos>,
    /// For how much of that the node held connections up.
    held_for: Nanos,
    /// Whether it was noted in this turn of the loop.
    ongoing: bool,
    /// What keeps connections busy, and when they were last examined for that.
    judged: Option<Cause>,
    judged_at: Nanos,
}

impl Blockage {
    /// A new turn of the loop: whatever blocks has to be noted again.
    pub(super) fn begin_turn(&mut self) {
        self.ongoing = false;
    }

    /// What is due at `now` cannot be sent, for this cause.
    pub(super) fn note(&mut self, cause: Cause, now: Nanos) {
        if self.since.is_none() {
            (self.since, self.held_for, self.until) = (Some(now), Nanos::ZERO, now);
        }
        if cause == Cause::Node {
            let held = now.saturating_sub(self.until);
            self.held_for = self.held_for.saturating_add(held);
            if self.is_of_the_node(now) {
                (self.held_until, self.node_until) = (now, now);
            }
        }
        // A short wait for the node changes nothing about a backlog that is there for something else.
        let kept = self
            .cause
            .filter(|_| cause == Cause::Node && !self.is_of_the_node(now));
        self.cause = Some(kept.unwrap_or(cause));
        self.until = now;
        self.ongoing = true;
    }

    /// Whether what waits does so for the node's sake: it held connections up for a third of the time or more, so that the
    /// rest was spent on catching up.
    fn is_of_the_node(&self, now: Nanos) -> bool {
        let waited = now.saturating_sub(self.since.unwrap_or(now));
        self.held_for.saturating_mul(3) >= waited
    }

    /// What waited has left by `now`: what fell due until then waited behind it.
    pub(super) fn ended(&mut self, now: Nanos) {
        if self.cause == Some(Cause::Node) {
            self.node_until = now;
        }
        (self.until, self.since) = (now, None);
    }

    /// Whether something waited before what is due at `at`.
    pub(super) fn is_before(&self, at: Nanos) -> bool {
        at < self.until
    }

    /// Whether the node keeps the connections busy, or they are too few. `judge` examines them all; under a lasting
    /// backlog the question comes with every answer, so its answer stands for [`LATE_LIMIT`].
    pub(super) fn judged(&mut self, now: Nanos, judge: impl FnOnce() -> Cause) -> Cause {
        let recent = now.saturating_sub(self.judged_at) < LATE_LIMIT;
        match self.judged.filter(|_| recent) {
            Some(cause) => cause,
            None => {
                self.judged_at = now;
                *self.judged.insert(judge())
            }
        }
    }

    /// Notes that there is no room for what is due since `oldest`.
    pub(super) fn note_no_room(
        &mut self,
        now: Nanos,
        oldest: Nanos,
        judge: impl FnOnce() -> Cause,
    ) {
        let cause = self.judged(now, judge);
        self.note(cause, now);
        let is_behind = oldest <= self.held_until && self.held_until > Nanos::ZERO;
        if is_behind && self.is_of_the_node(now) {
            self.node_until = now;
        }
    }

    pub(super) fn is_ongoing(&self) -> bool {
        self.ongoing
    }

    /// Whether the node holds up what is due.
    pub(super) fn is_node(&self) -> bool {
        self.ongoing && self.cause == Some(Cause::Node)
    }

    /// Whether the ring is dry and must be looked at again soon.
    pub(super) fn is_source(&self) -> bool {
        self.ongoing && self.cause == Some(Cause::Source)
    }

    /// Why a transaction that is queued at `now` was not queued when it was due, apart from the part
    /// of the shard itself.
    pub(super) fn cause_of(&self, due: DueTx, now: Nanos) -> Cause {
        let own = due.seen.saturating_sub(due.at);
        let rest = now.saturating_sub(due.seen);
        if now.saturating_sub(due.at) <= LATE_LIMIT {
            return Cause::OnTime;
        }
        match self.cause {
            _ if rest <= own.min(LATE_LIMIT) => Cause::Schedule,
            _ if self.node_until >= due.seen
                && self.node_until > Nanos::ZERO
                && self.is_of_the_node(now) =>
            {
                Cause::Node
            }
            // More connections would only have shortened the catch-up after a stall.
            Some(Cause::Connection) if own > LATE_LIMIT => Cause::Schedule,
            Some(cause) if self.until >= due.seen => cause,
            _ => Cause::Schedule,
        }
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
