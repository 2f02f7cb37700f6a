//! What one run of a campaign came to.

use measure::{BlockRow, LatencyFigure, LimitedBy, RateStats, ScheduleVerdict, StepRow};
use report::{CommittedCourse, Span, TmBench, TmBenchSpan};
use serde::Serialize;

use crate::folder::RecordedRun;
use crate::run::Outcome;

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

/// Finer than this a line in a plot is not.
const COURSE_POINTS: f64 = 120.0;
