//! Whether the target sustained the point of a search, and if not, why.

use pacing::{Nanos, Schedule};

use super::admission::{Admission, Throughput};
use super::{Excess, steps};
use crate::format::counts::{Counts, sum};
use crate::format::fate::Cohort;
use crate::format::rows::SeriesRow;
use crate::format::summary::Summary;
use crate::limits::{
    BEHIND_LIMIT, BROKEN_CONFIDENCE, GROWTH_CONFIDENCE, GROWTH_LIMIT, HANDFUL, LOST_LIMIT,
    MIN_TREND_BLOCKS, STARVED_SHARE, UNSEEN_GROWTH_LIMIT,
};
use crate::stats::knee::{BacklogGrowth, BlockMark, Fall, Finding, Took, Trial, backlog_growth};

/// What a point came to.
#[derive(Debug, Clone, PartialEq)]
pub struct PointJudgement {
    /// Whether it was sustained, or is undecided, or is no result.
    pub finding: Finding,
    /// Why it is not `Held`.
    pub reasons: Vec<String>,
    /// Not accepted, or accepted and in no block by the end, as a share of planned.
    pub lost_share: f64,
    /// How the backlog grew; `None` with too few blocks.
    pub growth: Option<BacklogGrowth>,
    /// Whether only conditions of the user do not hold: then what was committed shows nothing of the knee.
    by_limits: bool,
    /// For which share of the time the node lacked the processor.
    lack: f64,
    /// Where it took less from some moment on, although the rate was none that overloads it by much.
    pub fall: Option<Fall>,
}

impl PointJudgement {
    /// What the point, offered at this rate, shows to a search.
    pub fn trial(&self, rate: f64) -> Trial {
        let lack = if self.finding == Finding::Held {
            0.0
        } else {
            self.lack
        };
        let took = self.growth.and_then(|growth| took(growth, lack));
        let fell_to = self.fall.map(|it| it.after_tps - 2.0 * it.after_error_tps);
        let took = took.map(|it| Took { fell_to, ..it });
        Trial {
            rate,
            finding: self.finding,
            took: took.filter(|_| !self.by_limits),
        }
    }
}

/// What the node took; `None` where it may have lacked the processor for all of the time.
fn took(growth: BacklogGrowth, lack: f64) -> Option<Took> {
    let (tps, error_tps) = (growth.committed_tps?, growth.committed_error_tps?);
    (lack < STARVED_SHARE).then_some(Took {
        tps,
        error_tps,
        lack,
        fell_to: None,
    })
}

/// What it took at first and not for longer. A load far above what it takes may slow it by itself, and the lack of the
/// processor may.
fn fall(growth: &BacklogGrowth, rate: f64, finding: Finding, lack: f64) -> Option<Fall> {
    let is_open = matches!(finding, Finding::Broken | Finding::Undecided);
    let is_near = |it: &Fall| rate <= it.before_tps * NEARLY_TAKEN;
    let fall = growth.fall.filter(|_| is_open).filter(is_near);
    fall.filter(|it| it.missing_share > lack)
}

fn fall_words(fall: &Fall) -> String {
    let Fall {
        before_tps,
        after_tps,
        at,
        ..
    } = fall;
    format!(
        "the node took {before_tps:.0}/s at first, and {after_tps:.0}/s from {:.0} s on",
        at.as_secs_f64()
    )
}

/// A rate that is this multiple of what the target takes overloads it by so little that it commits what it can: as far
/// above its interval a search ends.
const NEARLY_TAKEN: f64 = 1.1;

/// One rate, offered once, and everything that was seen of it.
#[derive(Debug)]
pub struct Point<'a> {
    /// The summary of its run.
    pub summary: &'a Summary,
    /// All blocks of its run, in order; its seconds ([`answer_mark`]) where blocks were not watched.
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
    /// Whether the generator's own lateness leaves open whether it holds.
    pub unresolved: bool,
}

impl Point<'_> {
    /// Whether the target sustained the rate.
    pub fn judge(&self) -> PointJudgement {
        let lost_share = self.summary.lost_share(self.followed);
        let growth = growth(self);
        let mut broken = Vec::new();
        if lost_share > LOST_LIMIT {
            broken.push(lost_words(self.summary, lost_share));
        }
        let (trend, why) = trend(self, growth.as_ref());
        if trend == Finding::Broken {
            broken.push(why.clone());
        }
        let by_load = !broken.is_empty();
        let grew = growth.map_or(0.0, |growth| growth.tps / self.rate);
        let missing = lost_share.max(grew);
        let lack = lack(self.summary);
        let bounded = growth.and_then(|growth| took(growth, lack));
        let starved = bounded.map_or(Finding::Unusable, |_| Finding::Starved);
        let limits = self.broken_limits.iter();
        let (open, shown): (Vec<_>, Vec<_>) = limits.partition(|limit| limit.unresolved);
        broken.extend(
            shown
                .iter()
                .map(|limit| format!("{} is broken ({})", limit.text, limit.value)),
        );
        let (finding, mut reasons) = match admitted(self) {
            Err(reason) if Admission::of(&self.summary.verdict).lacks_processor_alone() => {
                (starved, vec![reason])
            }
            Err(reason) => (Finding::Unusable, vec![reason]),
            // What a step shows of the node was judged with what it lacked.
            Ok(_) if by_load && excess(self).is_none() && missing <= lack => {
                broken.push(
                    "the node waited for a processor for as large a share of the time".into(),
                );
                (starved, broken)
            }
            Ok(_) if !broken.is_empty() => (Finding::Broken, broken),
            Ok(_) if !open.is_empty() => (
                Finding::Unusable,
                open.iter().map(|it| own_lateness(it)).collect(),
            ),
            Ok(_) if trend == Finding::Undecided => (Finding::Undecided, vec![why]),
            Ok(_) => (Finding::Held, broken),
        };
        let fall = growth.and_then(|growth| fall(&growth, self.rate, finding, lack));
        reasons.extend(fall.as_ref().map(fall_words));
        PointJudgement {
            finding,
            reasons,
            lost_share,
            growth,
            by_limits: !by_load && !self.broken_limits.is_empty(),
            lack,
            fall,
        }
    }
}

/// A trial shows something of the target at its rate when its run is admissible, and the generator offered the rate as
/// exactly as a search asks; otherwise why not.
fn admitted(point: &Point<'_>) -> Result<Throughput, String> {
    let summary = point.summary;
    let offered: Counts = sum(summary.steps.iter().map(|step| &step.counts));
    let cohort: Cohort = sum(summary.steps.iter().map(|step| &step.cohort));
    let lost = cohort.due_behind + cohort.due_crowded;
    if lost as f64 > BEHIND_LIMIT * offered.offered as f64 && lost >= HANDFUL {
        return Err(format!(
            "the generator could not offer it: {lost} of {} transactions did not leave while they were due; {}",
            offered.offered,
            what_lifts_it(point)
        ));
    }
    let admission = Admission::of(&summary.verdict);
    admission.throughput().ok_or_else(|| admission.why())
}

/// What would let the generator offer the rate. Over HTTP a connection carries one transaction at a
/// time, so Little's law gives how many are needed: the rate times the mean time of an answer.
fn what_lifts_it(point: &Point<'_>) -> String {
    let causes = &point.summary.late.causes;
    let service_ms = point.summary.latency_ms.accept_service.mean;
    if let Some(service_ms) = service_ms
        && causes.connection > causes.by_generator()
    {
        let rate = point.rate;
        let needed = (rate * service_ms / 1e3).ceil();
        return format!(
            "its connections were busy with answers that take {service_ms:.1} ms: {rate}/s × {service_ms:.1} ms needs \
             at least {needed:.0} of them (--connections), or a WebSocket where the target takes one (--transport ws)"
        );
    }
    if causes.source > causes.schedule {
        "transactions were not ready in time: give it more --signing-threads".into()
    } else {
        "its threads did not get the processor in time: give it more cores, or share the load \
              with a second generator"
            .into()
    }
}

/// For which share of a run's offering the node on this machine lacked the processor.
fn lack(summary: &Summary) -> f64 {
    let lack_s: f64 = summary.steps.iter().map(|step| step.node_lack_s).sum();
    lack_s / summary.time.offered_s.max(f64::MIN_POSITIVE)
}

/// A latency that may be the generator's own breaks nothing.
fn own_lateness(limit: &BrokenLimit) -> String {
    format!(
        "whether {} holds cannot be told: {}",
        limit.text, limit.value
    )
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

/// A second as a block of what was answered in it: what is due and unanswered grows as what is due and in no block
/// does.
pub fn answer_mark(row: &SeriesRow) -> BlockMark {
    let Counts {
        accepted,
        rejected,
        errors,
        ..
    } = row.counts;
    BlockMark {
        // What is due with the second's end is not due in it.
        observed: Nanos::from_nanos(Nanos::from_secs(row.second + 1).as_nanos() - 1),
        committed: accepted + rejected + errors,
    }
}

fn growth(point: &Point<'_>) -> Option<BacklogGrowth> {
    let schedule = point.schedule?;
    let mut until = offered_until(point.summary);
    if !point.followed {
        until = Nanos::from_secs(until.as_secs_f64() as u64);
    }
    let from = |from| backlog_growth(point.blocks, |t| schedule.due_before(t), from, until);
    // Blocks that get ever larger get ever rarer: then the first ones have to help.
    from(point.warmup).or_else(|| from(Nanos::ZERO))
}

fn offered_until(summary: &Summary) -> Nanos {
    Nanos::from_nanos((summary.time.offered_s * 1e9) as u64)
}

/// Whether its blocks come so seldom that no point of its length shows a trend. What waits at its end shows nothing: a chain
/// that keeps up may show a transaction two blocks after it came, which is more than the point has.
fn has_rare_blocks(point: &Point<'_>) -> bool {
    let until = offered_until(point.summary);
    let pairs = point.blocks.windows(2);
    let mut intervals: Vec<Nanos> = pairs
        .map(|pair| pair[1].observed.saturating_sub(pair[0].observed))
        .collect();
    intervals.sort_unstable();
    let median = intervals.get(intervals.len().saturating_sub(1) / 2);
    median.is_none_or(|interval| interval.saturating_mul(2) > until)
}

/// Whether the backlog grew, and the words for it unless it did not.
fn trend(point: &Point<'_>, growth: Option<&BacklogGrowth>) -> (Finding, String) {
    let blocks = growth.map_or(0, |growth| growth.blocks);
    let finding = match growth {
        Some(growth) => growth_finding(growth, point.rate),
        None if point.followed || point.schedule.is_some() => Finding::Undecided,
        None => Finding::Held,
    };
    if growth.is_none() || (finding == Finding::Undecided && blocks < MIN_TREND_BLOCKS) {
        let few = if !point.followed {
            "the point is too short to tell whether answers fell behind, use a longer --duration"
        } else if has_rare_blocks(point) {
            "blocks are too rare for such short points, use a longer --duration"
        } else {
            "too few blocks were seen to tell whether the backlog grew"
        };
        return match excess(point) {
            Some(reason) => (Finding::Broken, reason),
            None => (finding, few.into()),
        };
    }
    let words = growth.map_or(String::new(), |growth| {
        let percent = |tps: f64| tps / point.rate * 100.0;
        let (by, margin) = (growth.tps, growth.margin_tps(GROWTH_CONFIDENCE));
        let (share, margin) = (percent(by), percent(margin));
        let what = if point.followed {
            "the backlog"
        } else {
            "what was not answered"
        };
        match finding {
            Finding::Broken => format!("{what} grew by {share:.1} % of the rate ({by:.0}/s)"),
            _ => format!(
                "whether {what} grew cannot be told: by {share:.1} % of the rate, ± {margin:.1} %"
            ),
        }
    });
    (finding, words)
}

/// What the growth of the backlog shows of a rate, with [`GROWTH_CONFIDENCE`]. Broken:
/// it grew, with [`BROKEN_CONFIDENCE`], and by more than [`GROWTH_LIMIT`], and its blocks took less than the rate by more than
/// the standard error of that: both measure the same. Held: it did not, and would have been seen if it
/// mattered. Undecided: neither is shown.
pub fn growth_finding(growth: &BacklogGrowth, rate: f64) -> Finding {
    let margin = growth.margin_tps(GROWTH_CONFIDENCE);
    let grew = growth.tps > GROWTH_LIMIT * rate;
    let is_told = growth.blocks >= MIN_TREND_BLOCKS;
    let took = growth.committed_tps.zip(growth.committed_error_tps);
    let took_all = took.is_some_and(|(tps, error)| tps + error >= rate);
    if grew && is_told && !took_all && growth.tps > growth.margin_tps(BROKEN_CONFIDENCE) {
        return Finding::Broken;
    }
    let excluded = growth.tps + margin <= UNSEEN_GROWTH_LIMIT * rate;
    if !grew && excluded && growth.blocks >= MIN_TREND_BLOCKS {
        Finding::Held
    } else {
        Finding::Undecided
    }
}

/// With too few blocks for a trend, the coarser rule of ramps. What the generator did not offer in time
/// shows nothing about the target.
fn excess(point: &Point<'_>) -> Option<String> {
    let excesses = steps::excesses(&point.summary.steps, point.summary.step_terms());
    let mut excesses = excesses.into_iter().flatten();
    let excess = excesses.find(Excess::is_the_nodes)?;
    Some(excess.to_string())
}
