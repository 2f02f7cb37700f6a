//! Whether the target sustained the point of a search, and if not, why.

use pacing::{Nanos, Schedule};

use super::limits::{
    BEHIND_LIMIT, ERRORS_TO_BE_SURE, GROWTH_LIMIT, LATE_SHARE_INVALID, LOST_LIMIT,
    OWN_LATENESS_LIMIT, WAITING_LIMIT,
};
use super::steps;
use crate::counts::{Counts, sum};
use crate::knee::{BacklogGrowth, BlockMark, Finding, backlog_growth};
use crate::summary::Summary;

/// What a point came to.
#[derive(Debug, Clone, PartialEq)]
pub struct PointJudgement {
    /// Whether it was sustained, or is no result.
    pub finding: Finding,
    /// Why it is not `Held`.
    pub reasons: Vec<String>,
    /// Not accepted, or accepted and in no block by the end, as a share of planned.
    pub lost_share: f64,
    /// How the backlog grew; `None` with too few blocks.
    pub growth: Option<BacklogGrowth>,
}

/// One rate, offered once, and everything that was seen of it.
#[derive(Debug)]
pub struct Point<'a> {
    /// The summary of its run.
    pub summary: &'a Summary,
    /// All blocks of its run, in order.
    pub blocks: &'a [BlockMark],
    /// When transactions were due; `None` in a closed loop.
    pub schedule: Option<&'a Schedule>,
    /// Transactions per second.
    pub rate: f64,
    /// What happens before this is not judged.
    pub warmup: Nanos,
    /// Whether blocks were watched.
    pub followed: bool,
    /// The conditions of the user that do not hold.
    pub broken_limits: &'a [BrokenLimit],
}

/// A condition of the user that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenLimit {
    /// As given, for example `commit.p95<5s`.
    pub text: String,
    /// What was measured, for people.
    pub value: String,
}

impl Point<'_> {
    /// Whether the target sustained the rate.
    #[must_use]
    pub fn judge(&self) -> PointJudgement {
        let lost_share = lost(self.summary, self.followed);
        let growth = growth(self);
        let mut broken = Vec::new();
        if lost_share > LOST_LIMIT {
            broken.push(lost_words(self.summary, lost_share));
        }
        match growth {
            Some(growth) => broken.extend(growing(&growth, self.rate)),
            None => broken.extend(excess(self).or_else(|| waiting(self))),
        }
        let overloaded = !broken.is_empty();
        broken.extend(
            self.broken_limits
                .iter()
                .map(|limit| format!("{} is broken ({})", limit.text, limit.value)),
        );
        let (finding, reasons) = match unusable(self, overloaded) {
            Some(reason) => (Finding::Unusable, vec![reason]),
            None if broken.is_empty() => (Finding::Held, broken),
            None => (Finding::Broken, broken),
        };
        PointJudgement {
            finding,
            reasons,
            lost_share,
            growth,
        }
    }
}

/// The trial is no result about the target when the load was not offered through the generator's own
/// fault. Some lateness does not change a rate, but it does change latencies.
fn unusable(point: &Point<'_>, overloaded: bool) -> Option<String> {
    let summary = point.summary;
    if !summary.conservation.holds {
        return Some("the account does not add up: see the point's summary".into());
    }
    let counts: Counts = sum(summary.steps.iter().map(|step| &step.counts));
    let Counts { offered, sent, .. } = counts;
    let late = summary.late.causes.by_generator();
    let late_share = late as f64 / summary.offered.sent.max(1) as f64;
    let generator_late = late_share > LATE_SHARE_INVALID;
    let behind = (sent as f64) < (1.0 - BEHIND_LIMIT) * offered as f64;
    if generator_late && behind {
        return Some(format!(
            "the generator could not offer it: {sent} of {offered} transactions left while they were due"
        ));
    }
    if !overloaded && generator_late {
        return own_lateness(point);
    }
    None
}

/// Latencies say nothing when much of them is the generator's own lateness.
fn own_lateness(point: &Point<'_>) -> Option<String> {
    let latencies = &point.summary.latency_ms;
    point.broken_limits.iter().find_map(|limit| {
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
            .saturating_sub(fate.pending + fate.commit_failed + fate.unverified)
    } else {
        fate.accepted
    };
    // What was not sent because the point was ended early is not lost.
    let planned = offered.planned.saturating_sub(offered.unsent_by_the_end());
    let planned = planned.max(1);
    (1.0 - kept as f64 / planned as f64).max(0.0)
}

fn lost_words(summary: &Summary, share: f64) -> String {
    let fate = &summary.fate;
    let most = [
        ("rejected", fate.rejected),
        ("without a usable answer", fate.errors + fate.unanswered),
        ("in no block by the end", fate.pending),
        ("failed in their block", fate.commit_failed),
        ("in a block without results", fate.unverified),
        ("never sent", summary.offered.unsent),
    ]
    .into_iter()
    .max_by_key(|(_, count)| *count);
    let most = most.map_or("", |(name, _)| name);
    format!("{:.1} % were lost, most of them {most}", share * 100.0)
}

fn growth(point: &Point<'_>) -> Option<BacklogGrowth> {
    if !point.followed {
        return None;
    }
    let schedule = point.schedule?;
    let until = offered_until(point.summary);
    let from = |from| backlog_growth(point.blocks, |t| schedule.due_before(t), from, until);
    // Blocks that get ever larger get ever rarer: then the first ones have to help.
    from(point.warmup).or_else(|| from(Nanos::ZERO))
}

fn offered_until(summary: &Summary) -> Nanos {
    Nanos::from_nanos((summary.time.offered_s * 1e9) as u64)
}

/// With too few blocks for a trend: most of what was offered still waits when the offering ends.
fn waiting(point: &Point<'_>) -> Option<String> {
    if !point.followed {
        return None;
    }
    let until = offered_until(point.summary);
    let committed: u64 = point
        .blocks
        .iter()
        .filter(|block| block.observed < until)
        .map(|block| block.committed)
        .sum();
    let planned = point.summary.offered.planned;
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
fn excess(point: &Point<'_>) -> Option<String> {
    let excess = steps::excesses(&point.summary.steps, point.followed)
        .into_iter()
        .flatten()
        .next()?;
    Some(excess.to_string())
}
