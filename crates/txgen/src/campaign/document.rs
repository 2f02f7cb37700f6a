//! `campaign.json`: what was planned, what has been played, and by how much the rate follows each resource that was
//! changed alone.

use std::collections::BTreeMap;

use measure::{Effect, Elasticity, Host, ScheduleVerdict};
use report::Table;
use serde::Serialize;
use serde_json::Value;

use super::figures::Figures;
use crate::scenario::{Change, NodeKind, Order};

/// The version of `campaign.json`.
pub(super) const FORMAT: &str = "tidegate.campaign/1";

/// The whole of `campaign.json`.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) name: String,
    pub(super) state: CampaignState,
    pub(super) scenario: String,
    pub(super) scenario_text: String,
    pub(super) scale: f64,
    pub(super) order: Order,
    pub(super) pause_s: f64,
    pub(super) version: &'static str,
    pub(super) command: Vec<String>,
    pub(super) host: Host,
    pub(super) started: String,
    pub(super) ended: Option<String>,
    /// What runs with one resource changed show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) prove: Vec<Proof>,
    pub(super) runs: Vec<Run>,
}

/// How far a campaign has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CampaignState {
    Running,
    Done,
    Interrupted,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunState {
    Waiting,
    Running,
    Done,
    Failed,
    Interrupted,
}

/// One run of `campaign.json`.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    pub(super) number: usize,
    /// Case and parameters; equal for repetitions.
    pub(super) cell: String,
    pub(super) label: String,
    pub(super) case: Option<String>,
    pub(super) parameters: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) change: Option<Change>,
    /// Case and parameters without the change.
    #[serde(skip)]
    pub(super) unchanged: String,
    pub(super) repeat: u32,
    pub(super) repeats: u32,
    pub(super) node: NodeKind,
    pub(super) fresh_node: bool,
    pub(super) sentinel: bool,
    pub(super) seed: u64,
    pub(super) planned_s: Option<f64>,
    /// The run folder, inside the campaign's.
    pub(super) folder: String,
    pub(super) state: RunState,
    pub(super) started: Option<String>,
    pub(super) took_s: Option<f64>,
    pub(super) exit_code: Option<u8>,
    pub(super) problem: Option<String>,
    pub(super) figures: Option<Figures>,
}

/// One resource, lowered or raised.
#[derive(Debug, Serialize)]
pub(super) struct Proof {
    /// Case and parameters.
    pub(super) of: String,
    pub(super) resource: String,
    /// What it was multiplied by.
    pub(super) factor: f64,
    /// Per cent of the committed rate for each per cent of the resource; none without a round that counts.
    pub(super) elasticity: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) effect: Effect,
    /// Rounds that count.
    pub(super) rounds: usize,
    /// Rounds of which a run was not the planned load, or all was committed that was offered: then the offer is what
    /// limits.
    pub(super) left_out: usize,
}

/// Of the runs that have been played, in the order of the file.
pub(super) fn proofs(runs: &[Run]) -> Vec<Proof> {
    let mut changes: Vec<(&str, &Change)> = Vec::new();
    for run in runs.iter().filter(|run| run.figures.is_some()) {
        let Some(change) = run.change.as_ref().filter(|change| change.factor != 1.0) else {
            continue;
        };
        if !changes.contains(&(&run.unchanged, change)) {
            changes.push((&run.unchanged, change));
        }
    }
    let proofs = changes
        .into_iter()
        .map(|(of, change)| proof(runs, of, change));
    proofs.collect()
}

fn proof(runs: &[Run], of: &str, change: &Change) -> Proof {
    let rate = |repeat: u32, factor: f64| {
        let mut same = runs.iter().filter(|run| {
            let changed = run.change.as_ref();
            let is_it = |it: &Change| it.resource == change.resource && it.factor == factor;
            run.unchanged == of && run.repeat == repeat && changed.is_some_and(is_it)
        });
        same.find_map(|run| Some(carried(run.figures.as_ref()?)))
    };
    let repeats = runs.iter().map(|run| run.repeat).max().unwrap_or(0);
    let played =
        (1..=repeats).filter_map(|repeat| Some((rate(repeat, 1.0)?, rate(repeat, change.factor)?)));
    let played: Vec<_> = played.collect();
    let counted = played.iter().filter_map(|(base, changed)| {
        let ratio = (*changed)? / (*base)?;
        Some((change.factor, ratio))
    });
    let counted: Vec<(f64, f64)> = counted.collect();
    let found = Elasticity::of(&counted);
    let interval = found.and_then(|found| found.interval);
    Proof {
        of: of.into(),
        resource: change.resource.clone(),
        factor: change.factor,
        elasticity: found.map(|found| found.value),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
        effect: found.map_or(Effect::CannotTell, |found| found.effect()),
        rounds: counted.len(),
        left_out: played.len() - counted.len(),
    }
}

/// What the node carried of a load that was more than it could.
fn carried(figures: &Figures) -> Option<f64> {
    let (committed, planned) = (figures.committed_tps?, figures.planned_tps?);
    let is_load = figures.verdict != ScheduleVerdict::Invalid;
    (is_load && committed < SATURATED * planned).then_some(committed)
}

/// The table of all; nothing where no resource was changed.
pub(super) fn table(proofs: &[Proof]) -> Option<Table> {
    let several = proofs.iter().any(|proof| proof.of != proofs[0].of);
    let mut table = Table::of(proofs.iter());
    if several {
        table = table.text("of", |proof| &*proof.of);
    }
    let table = table
        .text("resource", |proof| &*proof.resource)
        .figure("times", |proof| format!("{:.3}", proof.factor))
        .figure("elasticity (95 %)", |proof| {
            match (proof.elasticity, proof.low, proof.high) {
                (Some(value), Some(low), Some(high)) => {
                    format!("{value:.2} ({low:.2} to {high:.2})")
                }
                (Some(value), ..) => format!("{value:.2}"),
                _ => "-".into(),
            }
        })
        .figure("rounds", |proof| match proof.left_out {
            0 => proof.rounds.to_string(),
            left_out => format!("{}, {left_out} left out", proof.rounds),
        })
        .text("the rate", |proof| match proof.effect {
            Effect::Limits => "follows it",
            Effect::None => "does not follow it",
            Effect::CannotTell => "cannot tell",
        })
        .table();
    (!table.is_empty()).then_some(table)
}

/// A node that commits nearly all is not known to be at its limit.
const SATURATED: f64 = 0.95;
