//! What a run plans to offer, as the recorder asks for it.

use measure::{ClosedLoop, Plan as RecorderPlan, SchedulePlan};
use pacing::{Nanos, Schedule, Step};
use sender::shard::Orders;

use crate::part::Part;
use crate::plan::{Load, Plan};

/// The schedule in the recorder's terms.
pub(super) enum RunPlan<'a> {
    Open(Box<OpenPlan<'a>>),
    Closed(ClosedLoop),
}

/// This generator's part of a schedule that ends early when the workload has no more transactions.
pub(super) struct OpenPlan<'a> {
    orders: &'a Orders,
    /// The revision that `schedule` is.
    revision: u32,
    schedule: SchedulePlan,
    supply: Option<u64>,
    /// When the last transaction of the workload is due; nothing is offered after it.
    used_up: Nanos,
    part: Part,
}

impl<'a> RunPlan<'a> {
    pub(super) fn new(plan: &Plan, orders: &'a Orders) -> Self {
        match &plan.load {
            Load::Open { schedule, .. } => {
                let supply = plan.workload.count();
                Self::Open(Box::new(OpenPlan {
                    orders,
                    revision: 0,
                    used_up: used_up(schedule, supply),
                    schedule: SchedulePlan::new(schedule.clone()),
                    supply,
                    part: plan.part,
                }))
            }
            Load::Flood { .. } => Self::Closed(ClosedLoop::new(Step {
                index: 0,
                start: Nanos::ZERO,
                end: None,
                rate: pacing::Rate::ZERO,
                pause: false,
                again_of: None,
            })),
        }
    }
}

/// When the last transaction of a workload is due.
fn used_up(schedule: &Schedule, supply: Option<u64>) -> Nanos {
    let used_up = supply.and_then(|supply| schedule.due(supply));
    used_up.unwrap_or(Nanos::MAX)
}

impl OpenPlan<'_> {
    /// The schedule as it is by now.
    fn schedule(&mut self) -> &mut SchedulePlan {
        let revision = self.orders.revision();
        if self.revision != revision
            && let Some(schedule) = self.orders.schedule()
        {
            self.revision = revision;
            self.used_up = used_up(&schedule, self.supply);
            self.schedule = SchedulePlan::new(schedule);
        }
        &mut self.schedule
    }
}

impl RecorderPlan for RunPlan<'_> {
    fn due_before(&mut self, t: Nanos) -> Option<u64> {
        match self {
            Self::Closed(closed) => closed.due_before(t),
            Self::Open(open) => {
                let due = open.schedule().due_before(t)?;
                let due = due.min(open.supply.unwrap_or(u64::MAX));
                Some(open.part.count(due))
            }
        }
    }

    fn step_at(&mut self, t: Nanos) -> Option<Step> {
        match self {
            Self::Closed(closed) => closed.step_at(t),
            Self::Open(open) => {
                let step = open.schedule().step_at(t).filter(|_| t < open.used_up)?;
                let end = step.end.unwrap_or(Nanos::MAX).min(open.used_up);
                Some(Step {
                    end: (end < Nanos::MAX).then_some(end),
                    ..step
                })
            }
        }
    }
}
