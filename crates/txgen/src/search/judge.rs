//! Whether a point was sustained, and if not, why.

use measure::{
    BacklogGrowth, BlockMark, Finding, LATE_SHARE_INVALID, StepRow, Summary, backlog_growth,
};
use pacing::{Nanos, Schedule};

use crate::run::saturation;
use crate::threshold::Verdict;

/// What a point came to.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judgement {
    pub(super) finding: Finding,
    /// Why it is not `Held`.
    pub(super) reasons: Vec<String>,
    /// Not accepted, or accepted and in no block by the end, as a share of planned.
    pub(super) lost_share: f64,
    /// How the backlog grew; `None` with too few blocks.
    pub(super) growth: Option<BacklogGrowth>,
}

/// Everything that a judgement rests on.
pub(super) struct Evidence<'a> {
    pub(super) summary: &'a Summary,
    pub(super) blocks: &'a [BlockMark],
    /// When transactions were due; `None` in a closed loop.
    pub(super) schedule: Option<&'a Schedule>,
    pub(super) rate: f64,
    pub(super) warmup: Nanos,
    /// Whether blocks were watched.
    pub(super) followed: bool,
    /// The limits the user gave.
    pub(super) limits: &'a [Verdict],
}

pub(super) fn judge(evidence: &Evidence<'_>) -> Judgement {
    let lost_share = lost(evidence.summary, evidence.followed);
    let growth = growth(evidence);
    let mut broken = Vec::new();
    if lost_share > LOST_LIMIT {
        broken.push(lost_words(evidence.summary, lost_share));
    }
    match growth {
        Some(growth) => broken.extend(growing(&growth, evidence.rate)),
        None => broken.extend(excess(evidence).or_else(|| waiting(evidence))),
    }
    let overloaded = !broken.is_empty();
    broken.extend(
        evidence
            .limits
            .iter()
            .filter(|limit| !limit.held)
            .map(|limit| format!("{} is broken ({})", limit.text, limit.value_text())),
    );
    let (finding, reasons) = match unusable(
        evidence.summary,
        evidence.limits,
        overloaded,
        !broken.is_empty(),
    ) {
        Some(reason) => (Finding::Unusable, vec![reason]),
        None if broken.is_empty() => (Finding::Held, broken),
        None => (Finding::Broken, broken),
    };
    Judgement {
        finding,
        reasons,
        lost_share,
        growth,
    }
}

/// The trial says nothing about the target when the load was not offered through the generator's own
/// fault. Some lateness does not change a rate, but it does change latencies.
fn unusable(
    summary: &Summary,
    limits: &[Verdict],
    overloaded: bool,
    broken: bool,
) -> Option<String> {
    if !summary.conservation.holds {
        return Some("the account does not add up: see the point's summary".into());
    }
    let (offered, sent) = summary.steps.iter().fold((0, 0), |(offered, sent), step| {
        (offered + step.offered, sent + step.sent)
    });
    let late = summary.late.schedule + summary.late.source;
    let late_share = late as f64 / summary.offered.sent.max(1) as f64;
    let generator_late = late_share > LATE_SHARE_INVALID;
    let behind = (sent as f64) < (1.0 - BEHIND_LIMIT) * offered as f64;
    if generator_late && behind {
        return Some(format!(
            "the generator could not offer it: {sent} of {offered} transactions left while they were due"
        ));
    }
    if broken && !overloaded && generator_late {
        return own_lateness(summary, limits);
    }
    None
}

/// Latencies say nothing when much of them is the generator's own lateness.
fn own_lateness(summary: &Summary, limits: &[Verdict]) -> Option<String> {
    let latencies = &summary.latency_ms;
    limits.iter().filter(|limit| !limit.held).find_map(|limit| {
        let measured = match limit.text.split('.').next()?.trim() {
            "commit" => &latencies.commit_from_due,
            "accept" | "service" | "lateness" | "latency_ms" => &latencies.accept_response,
            _ => return None,
        };
        let share = latencies.lateness.p95? / measured.p95?;
        (share > OWN_LATENESS_LIMIT).then(|| {
            format!(
                "the generator's own lateness is {:.0} % of the latency that broke {}",
                share * 100.0,
                limit.text
            )
        })
    })
}

fn lost(summary: &Summary, followed: bool) -> f64 {
    let (offered, fate) = (&summary.offered, &summary.fate);
    let kept = if followed {
        fate.accepted
            .saturating_sub(fate.pending + fate.commit_failed)
    } else {
        fate.accepted
    };
    // What an aborted or interrupted point did not come to is nobody's loss.
    let by_the_end: u64 = ["interrupted", "stopped"]
        .iter()
        .filter_map(|reason| offered.unsent_by_reason.get(*reason))
        .sum();
    let planned = offered.planned.saturating_sub(by_the_end).max(1);
    (1.0 - kept as f64 / planned as f64).max(0.0)
}

fn lost_words(summary: &Summary, share: f64) -> String {
    let fate = &summary.fate;
    let most = [
        ("rejected", fate.rejected),
        ("without a usable answer", fate.errors + fate.unanswered),
        ("in no block by the end", fate.pending),
        ("failed in their block", fate.commit_failed),
        ("never sent", summary.offered.unsent),
    ]
    .into_iter()
    .max_by_key(|(_, count)| *count);
    let most = most.map_or("", |(name, _)| name);
    format!("{:.1} % were lost, most of them {most}", share * 100.0)
}

fn growth(evidence: &Evidence<'_>) -> Option<BacklogGrowth> {
    if !evidence.followed {
        return None;
    }
    let schedule = evidence.schedule?;
    let until = offered_until(evidence.summary);
    let from = |from| backlog_growth(evidence.blocks, |t| schedule.due_before(t), from, until);
    // Blocks that get ever larger get ever rarer: then the first ones have to help.
    from(evidence.warmup).or_else(|| from(Nanos::ZERO))
}

fn offered_until(summary: &Summary) -> Nanos {
    Nanos::from_nanos((summary.time.offered_s * 1e9) as u64)
}

/// With hardly a block at all: most of what was offered still waits when the offering ends.
fn waiting(evidence: &Evidence<'_>) -> Option<String> {
    if !evidence.followed {
        return None;
    }
    let until = offered_until(evidence.summary);
    let committed: u64 = evidence
        .blocks
        .iter()
        .filter(|block| block.observed < until)
        .map(|block| block.committed)
        .sum();
    let planned = evidence.summary.offered.planned;
    let share = 1.0 - committed as f64 / planned.max(1) as f64;
    (share > WAITING_LIMIT).then(|| {
        format!(
            "{:.0} % of what was offered was in no block by the end; blocks are too rare for such short points, \
             use a longer --duration",
            share * 100.0
        )
    })
}

fn growing(growth: &BacklogGrowth, rate: f64) -> Option<String> {
    let limit = (GROWTH_LIMIT * rate).max(ERRORS_TO_BE_SURE * growth.error_tps);
    (growth.tps > limit).then(|| {
        format!(
            "the backlog grew by {:.1} % of the rate ({:.0}/s)",
            growth.tps / rate * 100.0,
            growth.tps,
        )
    })
}

/// With too few blocks for a trend, the coarser rule of ramps.
fn excess(evidence: &Evidence<'_>) -> Option<String> {
    let steps: &[StepRow] = &evidence.summary.steps;
    let excess = saturation::excesses(steps, evidence.followed)
        .into_iter()
        .flatten()
        .next()?;
    Some(excess.to_string())
}

/// More of the planned may not be lost.
pub(super) const LOST_LIMIT: f64 = 0.01;
/// The backlog may not grow by a larger share of the rate.
pub(super) const GROWTH_LIMIT: f64 = 0.01;
/// A chain that keeps up leaves the block under way waiting, which in a point of two blocks is half.
const WAITING_LIMIT: f64 = 0.6;
/// A growth below twice its standard error may be chance.
const ERRORS_TO_BE_SURE: f64 = 2.0;
/// More of a latency may not be the generator's own lateness.
const OWN_LATENESS_LIMIT: f64 = 0.1;
/// More of what fell due may not have left by the end of the step.
const BEHIND_LIMIT: f64 = 0.02;
