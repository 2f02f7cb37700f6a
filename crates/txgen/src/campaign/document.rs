//! `campaign.json`: what was planned, what has been played, what each run came to, and by how much the rate follows each
//! resource that was changed alone.

use std::collections::BTreeMap;

use measure::{
    BlockRow, Effect, Elasticity, Host, LatencyFigure, LimitedBy, RateStats, ScheduleVerdict,
    StepRow,
};
use report::{CommittedCourse, Span, Table, TmBench, TmBenchSpan};
use serde::Serialize;
use serde_json::Value;

use crate::{
    folder::RecordedRun,
    run::Outcome,
    scenario::{Change, NodeKind, Order},
};

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

/// The figures of one run, as in `campaign.json`. Rates are per second of the time of offering.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    pub(super) verdict: ScheduleVerdict,
    pub(super) offered_s: f64,
    #[serde(skip)]
    followed: bool,
    pub(super) planned: u64,
    pub(super) sent: u64,
    pub(super) unsent: u64,
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    pub(super) errors: u64,
    pub(super) unanswered: u64,
    pub(super) committed: u64,
    pub(super) pending: u64,
    pub(super) planned_tps: Option<f64>,
    pub(super) sent_tps: Option<f64>,
    pub(super) accepted_tps: Option<f64>,
    /// With code 0, between the edges of blocks; `None` also for a load too short for two.
    pub(super) committed_tps: Option<f64>,
    pub(super) accept_p50_ms: Option<LatencyFigure>,
    pub(super) accept_p99_ms: Option<LatencyFigure>,
    pub(super) commit_p50_ms: Option<LatencyFigure>,
    pub(super) commit_p95_ms: Option<LatencyFigure>,
    pub(super) commit_p99_ms: Option<LatencyFigure>,
    /// How exactly commits were seen, where blocks were not announced.
    pub(super) commit_resolution: Option<String>,
    pub(super) blocks: u64,
    /// The longest time between two blocks while the load was offered.
    pub(super) longest_gap_s: Option<f64>,
    pub(super) knee_tps: Option<f64>,
    pub(super) limited_by: LimitedBy,
    /// Size of tm-bench's window, where it is asked for.
    pub(super) window: Option<usize>,
    /// The steps that are no pauses, as tm-bench saw each.
    pub(super) bursts: Vec<Burst>,
    /// Committed a second while the load was offered, in [`COURSE_POINTS`] points, for the plots.
    #[serde(skip)]
    pub(super) course: Vec<Span>,
}

/// One step under load by tm-bench's rules: by the times of the headers.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Burst {
    pub(super) step: u32,
    pub(super) start_s: f64,
    pub(super) end_s: f64,
    pub(super) planned_tps: f64,
    /// Of every block.
    pub(super) txs_avg: f64,
    pub(super) txs_stddev: f64,
    pub(super) txs_max: u64,
    pub(super) txs_total: u64,
    pub(super) blocks_total: u64,
    /// Of the newest blocks in the window.
    pub(super) window_txs_avg: f64,
    pub(super) window_blocks_total: u64,
}

impl Figures {
    /// Gathers them from the summary and the folder.
    pub(super) fn of(outcome: &Outcome, window: Option<usize>) -> Self {
        let summary = &outcome.summary;
        let (offered, fate, latency) = (&summary.offered, &summary.fate, &summary.latency_ms);
        let span = summary.time.offered_s;
        let mean = |stats: Option<RateStats>| stats.map(|stats| stats.mean);
        let rows: Vec<BlockRow> = RecordedRun::open(&outcome.folder)
            .and_then(|recorded| recorded.all_rows())
            .unwrap_or_default();
        Self {
            verdict: summary.verdict.schedule,
            offered_s: span,
            followed: summary.followed,
            planned: offered.planned,
            sent: offered.sent,
            unsent: offered.unsent,
            accepted: fate.accepted,
            rejected: fate.rejected,
            errors: fate.errors,
            unanswered: fate.unanswered,
            committed: fate.committed,
            pending: fate.pending,
            planned_tps: summary.rate.planned_tps,
            sent_tps: summary.rate.sent_tps,
            accepted_tps: mean(summary.rate.accepted_tps),
            committed_tps: mean(summary.rate.committed_tps),
            accept_p50_ms: latency.accept_response.figure("p50"),
            accept_p99_ms: latency.accept_response.figure("p99"),
            commit_p50_ms: latency.commit_from_due.figure("p50"),
            commit_p95_ms: latency.commit_from_due.figure("p95"),
            commit_p99_ms: latency.commit_from_due.figure("p99"),
            commit_resolution: summary.blocks.resolution(),
            blocks: summary.blocks.count,
            longest_gap_s: longest_gap(&rows, span),
            knee_tps: summary.knee.as_ref().map(|knee| knee.rate_tps),
            limited_by: summary.limited_by,
            window,
            bursts: bursts(outcome, &rows, window),
            course: course(&rows, span),
        }
    }

    /// Committed by the end, the drain included, as a share of what was planned: where it falls
    /// clearly below one, the node is saturated.
    pub(super) fn share(&self) -> Option<f64> {
        (self.planned > 0 && self.followed).then(|| self.committed as f64 / self.planned as f64)
    }

    /// Sent, and not accepted.
    pub(super) const fn refused(&self) -> u64 {
        self.rejected + self.errors + self.unanswered
    }

    /// Mean over the bursts of what tm-bench would print, and of the same over every block.
    pub(super) fn benched(&self) -> Option<(f64, f64)> {
        self.window?;
        let count = self.bursts.len() as f64;
        if self.bursts.is_empty() {
            return None;
        }
        let windowed = self.bursts.iter().map(|burst| burst.window_txs_avg);
        let all = self.bursts.iter().map(|burst| burst.txs_avg);
        Some((windowed.sum::<f64>() / count, all.sum::<f64>() / count))
    }
}

fn bursts(outcome: &Outcome, blocks: &[BlockRow], window: Option<usize>) -> Vec<Burst> {
    let Some(window) = window else {
        return Vec::new();
    };
    let origin = outcome.summary.time.origin_unix_ns;
    let loaded = outcome.summary.steps.iter().filter(|step| !step.pause);
    loaded
        .map(|step| burst(step, origin, blocks, window))
        .collect()
}

fn burst(step: &StepRow, origin: u64, blocks: &[BlockRow], window: usize) -> Burst {
    let span = TmBenchSpan {
        origin_unix_ns: origin,
        start_s: step.start_s,
        seconds: step.end_s - step.start_s,
        newest: None,
    };
    let all = TmBench::of(blocks, span);
    let newest = Some(window);
    let newest = TmBench::of(blocks, TmBenchSpan { newest, ..span });
    Burst {
        step: step.step,
        start_s: step.start_s,
        end_s: step.end_s,
        planned_tps: step.rate_tps,
        txs_avg: all.txs_per_sec.avg,
        txs_stddev: all.txs_per_sec.stddev,
        txs_max: all.txs_per_sec.max,
        txs_total: all.txs_per_sec.total,
        blocks_total: all.blocks_per_sec.total,
        window_txs_avg: newest.txs_per_sec.avg,
        window_blocks_total: newest.blocks_per_sec.total,
    }
}

/// Between blocks by our own clock. A span that begins or ends in a gap has lived through that part of it.
fn longest_gap(rows: &[BlockRow], end_s: f64) -> Option<f64> {
    if rows.is_empty() || end_s <= 0.0 {
        return None;
    }
    let seen = rows.iter().map(|block| block.observed_ns as f64 / 1e9);
    let inside = seen.filter(|at| *at <= end_s);
    let mut instants: Vec<f64> = inside.chain([0.0, end_s]).collect();
    instants.sort_by(f64::total_cmp);
    let gaps = instants.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.reduce(f64::max)
}

/// Committed a second while the load was offered, over equal stretches of at least a second.
fn course(rows: &[BlockRow], end_s: f64) -> Vec<Span> {
    let committed = CommittedCourse::of_blocks(rows);
    let width = (end_s / COURSE_POINTS).max(1.0);
    let starts = (0..).map(|number| f64::from(number) * width);
    let spans = starts.map(|from| (from, (from + width).min(end_s)));
    spans
        .take_while(|(from, to)| to > from)
        .map(|(from, to)| (from, to, committed.rate(from, to)))
        .collect()
}

/// A node that commits nearly all is not known to be at its limit.
const SATURATED: f64 = 0.95;

/// Finer than this a line in a plot is not.
const COURSE_POINTS: f64 = 120.0;
