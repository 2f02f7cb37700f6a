//! A plan divided among the shards: each one's transactions, due times and connections; and the part of the plan
//! that the recorder needs.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

use chain::WorkloadError;
use measure::{ClosedLoop, Plan as RecorderPlan, SchedulePlan};
use pacing::{Arrivals, Nanos, Schedule, Step};
use sender::Families;
use sender::shard::{Address, Offering, Ordered, Orders, Rules, ShardConfig, ShardLoad};
use sender::source::SourceConfig;

use super::nodes::Node;
use super::ramp::Ramp;
use crate::part::Part;
use crate::plan::{Load, Plan};

/// A plan and the nodes it goes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Division<'a> {
    plan: &'a Plan,
    nodes: &'a [Node],
}

impl<'a> Division<'a> {
    pub(super) const fn new(plan: &'a Plan, nodes: &'a [Node]) -> Self {
        Self { plan, nodes }
    }

    /// The ramp, if the load rises in steps until the target is saturated, or offers steps again.
    pub(super) fn ramp(&self) -> Option<Ramp> {
        let Load::Open {
            schedule,
            stop_when_saturated,
            ..
        } = &self.plan.load
        else {
            return None;
        };
        let repeats = self.plan.part.is_whole() && self.plan.workload.count().is_none();
        let how = (*stop_when_saturated, repeats);
        Some(Ramp::new(schedule.clone(), how, self.plan.step_terms()))
    }

    /// The transactions that the source of a shard makes.
    pub(super) fn source(&self, shard: u32) -> Result<SourceConfig, WorkloadError> {
        let plan = self.plan;
        let (first, stride) = plan.part.of_thread(shard, plan.threads);
        let threads = part(u64::from(plan.signing_threads.get()), shard, plan.threads).max(1);
        let streams: Result<Vec<_>, _> = (0..threads).map(|_| plan.workload.open()).collect();
        Ok(SourceConfig {
            streams: streams?,
            shard,
            first,
            stride,
            end: self.end(),
            largest: plan.workload.largest(),
            ahead: part(plan.signed_ahead, shard, plan.threads),
        })
    }

    /// The first index that is not offered.
    fn end(&self) -> u64 {
        let planned = match &self.plan.load {
            // Counting random arrivals takes long for long loads.
            Load::Open { schedule, .. } => match schedule.arrivals() {
                Arrivals::Poisson { .. } => u64::MAX,
                // More than planned are sent when a step is offered again.
                _ if self.ramp().is_some_and(|ramp| ramp.may_go_on()) => u64::MAX,
                Arrivals::Even | Arrivals::Burst { .. } => schedule.planned().unwrap_or(u64::MAX),
            },
            Load::Flood { count, .. } => *count,
        };
        planned.min(self.plan.workload.count().unwrap_or(u64::MAX))
    }

    /// When the offering ends: with the profile, or earlier with the last transaction of the
    /// workload.
    fn ends_at(&self, schedule: &Schedule) -> Nanos {
        let end = schedule.profile().duration().unwrap_or(Nanos::MAX);
        let used_up = self
            .plan
            .workload
            .count()
            .and_then(|supply| schedule.due(supply));
        used_up.map_or(end, |used_up| used_up.min(end))
    }

    /// A shard's due times in a schedule.
    pub(super) fn offering(&self, schedule: &Schedule, shard: u32) -> Offering {
        let (first, stride) = self.plan.part.of_thread(shard, self.plan.threads);
        Offering {
            dues: schedule.shard(first, stride),
            profile: schedule.profile().clone(),
            ends_at: self.ends_at(schedule),
        }
    }

    /// The configuration of a shard.
    ///
    /// # Errors
    /// When the workload cannot be opened.
    pub(super) fn shard(&self, shard: u32) -> Result<ShardConfig, WorkloadError> {
        let of = self.plan.threads.get();
        let load = match &self.plan.load {
            Load::Open {
                schedule,
                reconnect_in_pauses,
                ..
            } => ShardLoad::Open {
                offering: Box::new(self.offering(schedule, shard)),
                end: self.end(),
                reconnect_in_pauses: *reconnect_in_pauses,
            },
            Load::Flood { concurrency, .. } => ShardLoad::Flood {
                end: self.end(),
                slots: part(u64::from(concurrency.get()), shard, self.plan.threads) as usize,
            },
        };
        Ok(ShardConfig {
            shard,
            of,
            ordered: self.ordered(shard)?,
            families: self.families(),
            connections: self.connections(shard),
            rules: Rules {
                max_in_flight: self.max_in_flight(shard),
                ..self.plan.rules
            },
            load,
        })
    }

    /// This shard's part of what may be in flight, one at least.
    fn max_in_flight(&self, shard: u32) -> NonZeroU64 {
        let all = self.plan.rules.max_in_flight.get();
        NonZeroU64::new(part(all, shard, self.plan.threads)).unwrap_or(NonZeroU64::MIN)
    }

    /// The accounts whose order a shard keeps, if order matters.
    fn ordered(&self, shard: u32) -> Result<Option<Ordered>, WorkloadError> {
        let Some(sequences) = self.plan.workload.sequences() else {
            return Ok(None);
        };
        let (first, stride) = self.plan.part.of_thread(shard, self.plan.threads);
        Ok(Some(Ordered {
            sequences: sequences.clone(),
            first: u64::from(first),
            stride: u64::from(stride.get()),
            stream: self.plan.workload.open()?,
        }))
    }

    /// Which transactions have to go to the same node, where that makes a difference.
    fn families(&self) -> Option<Families> {
        let several = self.nodes.len() > 1;
        self.plan.workload.families().filter(|_| several)
    }

    /// This shard's connections: to the endpoints in turn, in each round from another local address.
    fn connections(&self, shard: u32) -> Vec<Address> {
        let count = self.nodes.len();
        let has_families = self.families().is_some();
        let threads = self.plan.threads.get() as usize;
        (0..self.plan.connections.get() as usize)
            // Another order in each round, so that every shard gets connections to every node.
            .flat_map(|round| (0..count).map(move |place| (round, place)))
            .filter(|(round, place)| {
                // A shard that sends children needs a connection to the node of each parent.
                let turn = if has_families {
                    *round
                } else {
                    round * count + place
                };
                turn % threads == shard as usize
            })
            .map(|(round, place)| {
                let node = &self.nodes[(round + place) % count];
                node.address.clone().reached_from(self.local_address(round))
            })
            .collect()
    }

    fn local_address(&self, round: usize) -> Option<IpAddr> {
        self.plan
            .sources
            .iter()
            .cycle()
            .nth(round % self.plan.sources.len().max(1))
            .copied()
    }
}

/// The `shard`-th of the `of` parts, equal up to 1, that add up to `whole`.
fn part(whole: u64, shard: u32, of: NonZeroU32) -> u64 {
    let (of, shard) = (u64::from(of.get()), u64::from(shard));
    whole / of + u64::from(shard < whole % of)
}

/// The part of the plan that the recorder needs: how many are due, and in which step.
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
            Load::Flood { .. } => Self::Closed(ClosedLoop),
        }
    }
}

/// When the last transaction of a workload is due.
fn used_up(schedule: &Schedule, supply: Option<u64>) -> Nanos {
    let used_up = supply.and_then(|supply| schedule.due(supply));
    used_up.unwrap_or(Nanos::MAX)
}

impl OpenPlan<'_> {
    /// The current schedule.
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
