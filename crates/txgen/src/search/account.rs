//! `search.json`: every point, and the conclusion from all. Written anew after each point, so that a
//! search that is killed leaves what it knows.

use measure::judge::PointJudgement;
use measure::limits::GROWTH_CONFIDENCE;
use measure::{Drift, KneeEstimate, LatencyFigure, Rationale};
use serde::Serialize;

use crate::run::Outcome;

/// The version of `search.json`.
pub(super) const SEARCH_FORMAT: &str = "tidegate.search/2";

/// The whole file.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Account {
    pub(super) format: &'static str,
    pub(super) version: &'static str,
    pub(super) command: Vec<String>,
    pub(super) started: String,
    pub(super) target: String,
    pub(super) limits: Limits,
    pub(super) points: Vec<PointRow>,
    pub(super) knee: Option<KneeRow>,
    /// A rate that a load may rely on by the trials, offered for longer after the search, and what that showed.
    pub(super) lasting: Option<Tested>,
    /// A rate above the interval that was offered last, and what that showed.
    pub(super) above: Option<Tested>,
    /// What shows that the target or its machine became slower in the search.
    pub(super) drift: Option<DriftRow>,
    /// Whether the last points contradict those before: these show nothing of the target as it is now.
    pub(super) contradicted: bool,
    pub(super) highest_held_tps: Option<f64>,
    pub(super) lowest_broken_tps: Option<f64>,
    pub(super) ended: Ended,
    pub(super) reason: String,
    pub(super) took_s: f64,
}

/// What counts as sustained.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Limits {
    pub(super) lost_share: f64,
    pub(super) growth_share: f64,
    pub(super) slo: Vec<String>,
}

/// Why a search is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ended {
    /// Not yet.
    #[default]
    Running,
    /// The interval is as narrow as asked, or the list of rates is done.
    Done,
    /// Everything held up to the highest rate allowed.
    NotReached,
    /// The lowest rate allowed did not hold.
    BelowMin,
    /// The generator could not offer more.
    GeneratorLimit,
    /// Time or trials are used up.
    OutOfTime,
    /// However long a rate was offered, it stayed open whether the target sustained it.
    Undecided,
    /// The target did not come to rest after a point.
    NotRecovered,
    /// The user stopped it.
    Interrupted,
    /// A point could not be played.
    Failed,
}

/// Where the knee is believed to be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct KneeRow {
    pub(super) rate_tps: f64,
    pub(super) low_tps: f64,
    pub(super) high_tps: f64,
    pub(super) confidence: f64,
}

/// A test of what a search found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Tested {
    /// Its number.
    pub(super) point: usize,
    pub(super) rate_tps: f64,
    pub(super) for_s: f64,
    /// `held`, `broken`, `undecided`, `starved` or `unusable`.
    pub(super) finding: &'static str,
    /// Whether it contradicts the interval that it tested.
    pub(super) refutes: bool,
}

/// How the target changed in the course of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct DriftRow {
    /// The most that it took before it became slower, or the lowest rate that broke before it became faster.
    pub(super) before_tps: f64,
    /// The lowest rate that has broken since, or the most that it has taken since.
    pub(super) since_tps: f64,
    /// When the last point before began, and the first one since, in seconds since the search did.
    pub(super) between_s: [f64; 2],
    /// Whether it became slower.
    pub(super) slower: bool,
}

impl Account {
    /// The test that is the last point, if it contradicts what was known before.
    pub(super) fn refuted(&self) -> Option<Tested> {
        let mut tests = self.lasting.into_iter().chain(self.above);
        tests.find(|it| it.point == self.points.len() && it.refutes)
    }

    /// Whether an interval is given whose upper end no test has tried, in a search that came to its tests.
    pub(super) fn lacks_test_above(&self) -> bool {
        let is_over = matches!(self.ended, Ended::Done | Ended::OutOfTime);
        is_over && self.knee.is_some() && self.lasting.is_some() && self.above.is_none()
    }
}

impl DriftRow {
    pub(super) fn new(drift: Drift, points: &[PointRow]) -> Self {
        Self {
            before_tps: drift.before,
            since_tps: drift.after,
            between_s: [drift.since.saturating_sub(1), drift.since].map(|it| points[it].begun_s),
            slower: drift.is_slower,
        }
    }
}

impl From<KneeEstimate> for KneeRow {
    fn from(estimate: KneeEstimate) -> Self {
        Self {
            rate_tps: tenths(estimate.rate),
            low_tps: tenths(estimate.low),
            high_tps: tenths(estimate.high),
            confidence: estimate.confidence,
        }
    }
}

/// One rate, offered once.
#[derive(Debug, Clone, Serialize)]
pub(super) struct PointRow {
    pub(super) number: usize,
    pub(super) rate_tps: f64,
    /// When it began, in seconds since the search did.
    pub(super) begun_s: f64,
    /// How long the rate was offered.
    pub(super) for_s: f64,
    /// The run folder, inside this one.
    pub(super) folder: String,
    pub(super) because: String,
    /// `held`, `broken`, `undecided`, `starved` or `unusable`.
    pub(super) finding: &'static str,
    pub(super) reasons: Vec<String>,
    pub(super) verdict: &'static str,
    pub(super) planned: u64,
    pub(super) lost_share: f64,
    pub(super) growth_share: Option<f64>,
    pub(super) growth_error: Option<f64>,
    /// How far the true growth may lie to either side, with [`GROWTH_CONFIDENCE`].
    pub(super) growth_margin: Option<f64>,
    pub(super) accepted_tps: Option<f64>,
    pub(super) committed_tps: Option<f64>,
    pub(super) accept_p99_ms: Option<LatencyFigure>,
    pub(super) commit_p50_ms: Option<LatencyFigure>,
    pub(super) commit_p95_ms: Option<LatencyFigure>,
    pub(super) commit_p99_ms: Option<LatencyFigure>,
    /// How exactly commits were seen, where blocks were not announced.
    pub(super) commit_resolution: Option<String>,
    /// Transactions that had not ended, where there were any: the latencies may be lower bounds.
    pub(super) unfinished: u64,
    /// How long the mempools took to empty once the run was over.
    pub(super) recovered_s: f64,
    /// Whether they did.
    pub(super) recovered: bool,
}

impl PointRow {
    pub(super) fn new(
        number: usize,
        rate: f64,
        because: String,
        outcome: &Outcome,
        judgement: &PointJudgement,
    ) -> Self {
        let summary = &outcome.summary;
        let latency = &summary.latency_ms;
        let step = summary.steps.first();
        let growth = judgement.growth;
        Self {
            number,
            rate_tps: rate,
            begun_s: 0.0,
            for_s: 0.0,
            folder: outcome
                .folder
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            because,
            finding: judgement.finding.name(),
            reasons: judgement.reasons.clone(),
            verdict: summary.verdict.schedule.name(),
            planned: summary.offered.planned,
            lost_share: judgement.lost_share,
            growth_share: growth.map(|growth| growth.tps / rate),
            growth_error: growth.map(|growth| growth.error_tps / rate),
            growth_margin: growth.map(|growth| growth.margin_tps(GROWTH_CONFIDENCE) / rate),
            accepted_tps: step.and_then(|step| step.accepted_tps),
            committed_tps: growth
                .filter(|_| summary.followed)
                .and_then(|growth| growth.committed_tps)
                .or_else(|| step.and_then(|step| step.committed_tps)),
            accept_p99_ms: latency.accept_response.figure("p99"),
            commit_p50_ms: latency.commit_from_due.figure("p50"),
            commit_p95_ms: latency.commit_from_due.figure("p95"),
            commit_p99_ms: latency.commit_from_due.figure("p99"),
            commit_resolution: summary.blocks.resolution(),
            unfinished: (latency.commit_from_due.censored).max(latency.accept_response.censored),
            recovered_s: 0.0,
            recovered: true,
        }
    }
}

/// Why a rate is tried, for people.
pub(super) fn because_words(because: Rationale) -> String {
    match because {
        Rationale::First => "the first".into(),
        Rationale::Higher => "everything held so far".into(),
        Rationale::Lower => "nothing held so far".into(),
        Rationale::Again => "once more, to be sure".into(),
        Rationale::Contradicted => "once more: what came since says the opposite".into(),
        Rationale::Lasting => "what a load may rely on, for longer".into(),
        Rationale::Above => "above the interval: whether it still breaks".into(),
        Rationale::Longer => "longer, as the point before was undecided".into(),
        Rationale::Middle { held, broken } => match (held, broken) {
            (Some(held), Some(broken)) => {
                format!("the middle of what is open; {held} held and {broken} did not")
            }
            _ => "the middle of what is open, against the noise".into(),
        },
    }
}

/// Rates are not known to more than a tenth.
fn tenths(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}
