//! `summary.json` of a mesh run. `docs/mesh.md` describes it.

use std::cmp::Ordering;

use measure::limits::SUSTAINED_SHARE;
use measure::{Evidence, EvidenceKind, MeshEvidence, Quantiles, ScheduleVerdict};
use serde::Serialize;

use super::account::{Account, PlayedMesh, ReachSummary, StepAccount};
use super::conservation::Conservation;
use super::control::Counters;
use super::figures::Figures;
use super::judge::{Bounds, GaveFirst, Judgement, judge};
use super::plan::{MeshPlan, PlanDocument};

/// The version of the files of a mesh run.
pub(crate) const FORMAT: &str = "tidegate.mesh/4";

/// The whole of `summary.json`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MeshSummary {
    pub(crate) format: &'static str,
    /// What is compared: `v11`, `v11+batch`, …
    pub(crate) variant: String,
    pub(crate) plan: PlanDocument,
    pub(crate) seed: u64,
    pub(crate) origin_unix_ns: u64,
    pub(crate) duration_s: f64,
    pub(crate) interrupted: bool,
    pub(crate) verdict: Judgement,
    pub(crate) offered: Offered,
    pub(crate) figures: Figures,
    pub(crate) latency_ms: Quantiles,
    pub(crate) lateness_ms: Quantiles,
    pub(crate) reach: ReachSummary,
    pub(crate) total: Counters,
    pub(crate) nodes: Vec<NodeSummary>,
    pub(crate) steps: Vec<StepSummary>,
    pub(crate) conservation: Conservation,
}

/// What the generator did.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Offered {
    pub(crate) planned: u64,
    pub(crate) offered: u64,
    /// Due and never offered: the generator's shortfall.
    pub(crate) missed: u64,
}

/// One node.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NodeSummary {
    pub(crate) node: u16,
    pub(crate) eps: f64,
    pub(crate) latency_ms: Quantiles,
    /// When it ended before it was asked to.
    pub(crate) ended_s: Option<f64>,
    pub(crate) total: Counters,
}

/// One step of the profile.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StepSummary {
    pub(crate) step: u32,
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) rate: f64,
    pub(crate) planned: u64,
    pub(crate) offered: u64,
    pub(crate) eps_host: f64,
    pub(crate) eps_sum: f64,
    /// Of each node, by its number.
    pub(crate) eps_nodes: Vec<f64>,
    /// Entries that came back to the host, as a share of those offered.
    pub(crate) came_back: Option<f64>,
    /// Bytes written per second by a node, in the mean: what the study calls uprate.
    pub(crate) uprate_bytes_per_s: f64,
    pub(crate) parcels_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) duplicate_share: Option<f64>,
    pub(crate) dropped: u64,
    pub(crate) latency_p50_ms: Option<f64>,
    pub(crate) latency_p99_ms: Option<f64>,
    pub(crate) lateness_p99_ms: Option<f64>,
    pub(crate) cpus: f64,
    pub(crate) outcome: StepOutcome,
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepOutcome {
    /// Nothing had given by its end.
    KeptUp,
    /// The mesh gave in it.
    GaveHere,
    /// The generator failed in it.
    NotOffered,
    /// Other programs had the CPUs that the mesh lacked.
    Disturbed,
    /// It came later, and some of it did not come back.
    AfterItGave,
    /// It came later, and all of it came back.
    KeptUpAgain,
}

impl StepSummary {
    /// Of the slowest node.
    pub(crate) fn eps_least(&self) -> f64 {
        let least = self.eps_nodes.iter().copied().reduce(f64::min);
        least.unwrap_or_default()
    }
}

impl MeshSummary {
    /// The summary of a run.
    pub(crate) fn of(plan: &MeshPlan, played: &PlayedMesh) -> Self {
        let account = &played.account;
        let bounds = Bounds {
            node_rate: &plan.document.node_rate,
            node_cpu: &plan.document.node_cpu,
            switch: plan.document.switch,
            entries: plan.mix.entries_per_transaction(),
            interrupted: played.interrupted,
        };
        let judgement = judge(account, &bounds);
        let planned = account.planned();
        let offered = account.total().offered;
        let censored = measure::Latency::new();
        Self {
            format: FORMAT,
            variant: plan.label(),
            plan: plan.document.clone(),
            seed: plan.document.seed,
            origin_unix_ns: played.origin_unix_ns,
            duration_s: account.duration.as_secs_f64(),
            interrupted: played.interrupted,
            offered: Offered {
                planned,
                offered,
                missed: planned.saturating_sub(offered),
            },
            figures: Figures::of(account),
            latency_ms: account.latency().quantiles(&censored),
            lateness_ms: account.lateness.quantiles(&censored),
            reach: account.reach.summary(plan.document.nodes, plan.sample()),
            total: account.total(),
            nodes: nodes(account, plan),
            steps: account
                .steps
                .iter()
                .map(|step| step_summary(step, account, &judgement))
                .collect(),
            conservation: Conservation::of(played, plan.document.topology, plan.document.fanout),
            verdict: Judgement {
                undrained: played.undrained.clone(),
                ..judgement
            },
        }
    }

    /// Whether what was offered came as planned until something of the mesh gave.
    pub(crate) fn is_valid(&self) -> bool {
        self.verdict.schedule != ScheduleVerdict::Invalid && !self.is_disturbed()
    }

    /// When nodes saw nothing of what was offered.
    pub(crate) fn outages(&self) -> impl Iterator<Item = &Evidence> {
        let is_outage =
            |it: &&Evidence| matches!(it.kind, EvidenceKind::Mesh(MeshEvidence::Outage { .. }));
        self.verdict.evidence.iter().filter(is_outage)
    }

    /// Whether other programs had the CPUs that the mesh lacked when it gave.
    pub(crate) fn is_disturbed(&self) -> bool {
        let first = self.verdict.gave_first.as_ref();
        first.is_some_and(GaveFirst::is_disturbed)
    }

    /// The step before the first one that was not sustained.
    pub(crate) fn last_sustained(&self) -> Option<&StepSummary> {
        let first = self
            .steps
            .iter()
            .position(|it| it.outcome != StepOutcome::KeptUp);
        let count = first.unwrap_or(self.steps.len());
        self.steps[..count].last()
    }
}

fn nodes(account: &Account, plan: &MeshPlan) -> Vec<NodeSummary> {
    let seconds = account.duration.as_secs_f64();
    let own = plan.own_nodes();
    let nodes = own.map(|node| (node, &account.nodes[usize::from(node)]));
    nodes
        .map(|(node, it)| NodeSummary {
            node,
            eps: it.offering.entries as f64 / seconds,
            latency_ms: it.latency.quantiles(&measure::Latency::new()),
            ended_s: it.ended_s,
            total: it.total,
        })
        .collect()
}

fn step_summary(step: &StepAccount, account: &Account, judgement: &Judgement) -> StepSummary {
    let from_s = step.step.start.as_secs_f64();
    let end = step.step.end.unwrap_or(account.duration);
    let seconds = step.seconds.max(1) as f64;
    let per_s = |count: u64| count as f64 / seconds;
    let received = step.all.messages_in;
    let ms =
        |latency: &measure::Latency, at| latency.quantile(at).map(pacing::Nanos::as_millis_f64);
    StepSummary {
        step: step.step.index,
        from_s,
        to_s: end.as_secs_f64(),
        rate: step.step.rate.as_f64(),
        planned: step.planned,
        offered: step.host.offered,
        eps_host: per_s(step.host.entries),
        eps_sum: per_s(step.all.entries),
        eps_nodes: step.entries.iter().copied().map(per_s).collect(),
        came_back: (step.host.offered > 0)
            .then(|| step.host.entries as f64 / step.host.offered as f64),
        uprate_bytes_per_s: per_s(step.all.bytes_out) / account.nodes.len().max(1) as f64,
        parcels_per_s: per_s(step.all.parcels_in),
        bytes_per_s: per_s(step.all.bytes_in),
        duplicate_share: (received > 0).then(|| step.all.duplicates as f64 / received as f64),
        dropped: step.all.dropped_full,
        latency_p50_ms: ms(&step.latency, 0.5),
        latency_p99_ms: ms(&step.latency, 0.99),
        lateness_p99_ms: ms(&step.lateness, 0.99),
        cpus: per_s(step.all.cpu_ns) / 1e9,
        outcome: outcome(step, judgement),
    }
}

fn outcome(step: &StepAccount, judgement: &Judgement) -> StepOutcome {
    let Some(first) = &judgement.gave_first else {
        return StepOutcome::KeptUp;
    };
    let came_back = step.host.entries as f64 >= SUSTAINED_SHARE * step.host.offered as f64;
    match step.step.index.cmp(&first.step) {
        Ordering::Less => StepOutcome::KeptUp,
        Ordering::Equal if first.is_generator() => StepOutcome::NotOffered,
        Ordering::Equal if first.is_disturbed() => StepOutcome::Disturbed,
        Ordering::Equal => StepOutcome::GaveHere,
        Ordering::Greater if came_back && step.all.dropped_full == 0 => StepOutcome::KeptUpAgain,
        Ordering::Greater => StepOutcome::AfterItGave,
    }
}

#[cfg(test)]
mod tests {
    use measure::{LimitedBy, Strength};
    use serde_json::json;

    use super::*;
    use crate::plan::tests::load;

    /// The machine was full in the second step.
    fn gave(points_to: LimitedBy) -> Judgement {
        let full = Evidence {
            kind: EvidenceKind::Mesh(MeshEvidence::MachineFull {
                cpus: 2.0,
                busy: 2.0,
                others: None,
                stolen: 0.0,
                waited_s: 0.0,
            }),
            points_to,
            strength: Strength::Strong,
            txs: 0,
            from_s: Some(1.0),
            until_s: None,
        };
        Judgement {
            schedule: ScheduleVerdict::Valid,
            gave_first: Some(GaveFirst {
                since_s: 1,
                step: 1,
                symptom: full.clone(),
                cause: Some(full),
            }),
            evidence: Vec::new(),
            undrained: None,
        }
    }

    /// Each step of 1,000 offered with what came back to the host and what was dropped.
    fn outcomes(steps: [(u64, u64); 3], judgement: &Judgement) -> Vec<StepOutcome> {
        let phase = json!({"profile": "ramp", "start": "1000/s", "step": "1000/s", "every": "1s", "to": "3000/s"});
        let mut account = Account::new(2, load(phase).schedule().unwrap());
        for (step, (came, dropped)) in account.steps.iter_mut().zip(steps) {
            step.host.offered = 1000;
            step.host.entries = came;
            step.all.dropped_full = dropped;
        }
        assert_eq!(account.steps.len(), 3);
        let steps = account.steps.iter();
        steps.map(|step| outcome(step, judgement)).collect()
    }

    #[test]
    fn a_step_after_the_first_symptom_is_judged_by_what_came_back_in_it() {
        use StepOutcome::{AfterItGave, GaveHere, KeptUp, KeptUpAgain};
        let gave = gave(LimitedBy::Node);
        let again = outcomes([(1000, 0), (700, 9), (1000, 0)], &gave);
        assert_eq!(again, [KeptUp, GaveHere, KeptUpAgain]);
        let lost = outcomes([(1000, 0), (700, 9), (900, 0)], &gave);
        assert_eq!(lost[2], AfterItGave);
        let dropped = outcomes([(1000, 0), (700, 9), (1000, 1)], &gave);
        assert_eq!(dropped[2], AfterItGave);
    }

    #[test]
    fn a_step_that_other_programs_disturbed_did_not_give() {
        let steps = [(1000, 0), (700, 9), (1000, 0)];
        let disturbed = gave(LimitedBy::Unknown);
        assert_eq!(outcomes(steps, &disturbed)[1], StepOutcome::Disturbed);
    }
}
