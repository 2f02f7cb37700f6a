//! The part of the schedule that the recorder needs.

use pacing::{Arrivals, Due, Nanos, Schedule, Shard, Step};

/// The plan that the run is measured against.
///
/// The recorder asks with instants that never go back, so an implementation may stream (a Poisson
/// schedule has no random access).
pub trait Plan: Send {
    /// How many transactions are due in `[0, t)`; `None` in a closed loop, where nothing is due
    /// and what is sent is what is offered.
    fn due_before(&mut self, t: Nanos) -> Option<u64>;

    /// The step that contains `t`, or `None` past the end of the profile.
    fn step_at(&mut self, t: Nanos) -> Option<Step>;
}

/// The plan of an open loop: a [`Schedule`].
#[derive(Debug)]
pub struct SchedulePlan {
    schedule: Schedule,
    streamed: Option<Streamed>,
}

impl SchedulePlan {
    /// The plan of `schedule`.
    pub fn new(schedule: Schedule) -> Self {
        // Poisson arrivals are counted from the first one on, so they are counted as time goes by.
        let streamed = matches!(schedule.arrivals(), Arrivals::Poisson { .. })
            .then(|| Streamed::new(schedule.iter()));
        Self { schedule, streamed }
    }
}

impl Plan for SchedulePlan {
    fn due_before(&mut self, t: Nanos) -> Option<u64> {
        Some(match &mut self.streamed {
            Some(streamed) => streamed.count_before(t),
            None => self.schedule.due_before(t),
        })
    }

    fn step_at(&mut self, t: Nanos) -> Option<Step> {
        let step = self.schedule.profile().step_at(t);
        step.end.is_none_or(|end| t < end).then_some(step)
    }
}

/// Due times that are counted one by one.
#[derive(Debug)]
struct Streamed {
    due: Shard,
    next: Option<Due>,
    counted: u64,
}

impl Streamed {
    fn new(mut due: Shard) -> Self {
        let next = due.next();
        Self {
            due,
            next,
            counted: 0,
        }
    }

    fn count_before(&mut self, t: Nanos) -> u64 {
        while self.next.is_some_and(|due| due.at < t) {
            self.counted += 1;
            self.next = self.due.next();
        }
        self.counted
    }
}

/// The plan of a closed loop: one step without end, nothing due.
#[derive(Debug, Clone)]
pub struct ClosedLoop {
    step: Step,
}

impl ClosedLoop {
    /// `step` describes the whole run; its rate is whatever the caller wants printed.
    pub const fn new(step: Step) -> Self {
        Self { step }
    }
}

impl Plan for ClosedLoop {
    fn due_before(&mut self, _t: Nanos) -> Option<u64> {
        None
    }

    fn step_at(&mut self, t: Nanos) -> Option<Step> {
        let ended = self.step.end.is_some_and(|end| t >= end);
        (!ended).then_some(self.step)
    }
}
