//! Which steps a target sustained, and when a ramp has saturated it.

use super::admission::Commits;
use crate::format::evidence::StepTerms;
use crate::format::evidence::{Excess, Shortfall};
use crate::format::rows::StepRow;
use crate::format::summary::{Knee, LoadModel, Summary};
use crate::limits::{
    BACKLOG_BLOCKS, DISPLACED_PART, HANDFUL, LEFT_BEHIND_BLOCKS, LEFT_BEHIND_S, MIN_OFFERED,
    MIN_RATE_BLOCKS, SATURATED_STEPS, STALLED_STEPS, STARVED_SHARE, SUSTAINED_SHARE, UNSEEN_BLOCKS,
};
use crate::stats::silence;

/// The conclusion from all steps of a ramp.
#[derive(Debug, Clone, PartialEq)]
pub struct RampJudgement {
    /// The highest step that was sustained, if the target was also driven past it.
    knee: Option<Knee>,
    /// Why `knee` is what it is.
    pub reason: String,
    /// Whether a ramp without a last step has found what it looked for.
    pub saturated: bool,
    /// Whether as many steps as end it otherwise, and as many again, failed in a row and most of them show nothing of
    /// their rate.
    pub stalled: bool,
    /// The first step that shows nothing of its rate and was not offered again, unless the last ones failed again.
    pub again: Option<u32>,
}

impl RampJudgement {
    /// The highest step that was sustained, if the target was also driven past it.
    pub(super) fn knee(&self, _: Commits) -> Option<Knee> {
        self.knee.clone()
    }
}

/// Judges every step, in order; `None` for one that was sustained, too small to judge, or cut off before
/// its transactions had time for their fates.
///
/// A step is judged by its cohort, the transactions due in it: under 95 % of what was offered of it accepted, or
/// committed with code 0, while they were awaited (see [`StepRow::awaited_s`]), or sent after it because of the node.
/// It was offered when no more than 5 % of it were out of it by the generator's doing (see [`Displaced`]): how late
/// they left within it decides how exact its latencies are, not what the node sustained.
/// What it was short of while the node on this machine lacked the processor for as long is no statement about the node.
/// A chain that is a little too slow shows earlier in its rate between the step's first and last block
/// (free of edges); as that is noisy in short steps, it counts only with a backlog that a healthy
/// chain, which empties its mempool with every block, would not have, or with one that grew in the step
/// by what its blocks left.
///
/// [`Displaced`]: crate::Displaced
pub fn excesses(steps: &[StepRow], terms: StepTerms) -> Vec<Option<Excess>> {
    let followed = terms.followed;
    let (mut span_s, mut blocks, mut behind) = (0.0, 0, false);
    steps
        .iter()
        .map(|step| {
            span_s += step.span_s();
            blocks += step.counts.blocks;
            let gap_s = silence(step, followed);
            let is_stall = gap_s >= silence::ordinary_s(blocks, span_s - gap_s, followed);
            let shortfall = is_judged(step)
                .then(|| shortfall(step, terms, is_stall, behind))
                .flatten();
            behind = matches!(shortfall, Some(Shortfall::Starved(_)));
            let is_stall = is_stall && rest_kept_up(step, gap_s, followed);
            shortfall.map(|shortfall| Excess {
                shortfall,
                stall_s: is_stall.then_some(gap_s),
            })
        })
        .collect()
}

/// The longest time without a sign of the node, in seconds.
const fn silence(step: &StepRow, followed: bool) -> f64 {
    let blocks = if followed { step.block_gap_s } else { 0.0 };
    step.answer_gap_s.max(blocks)
}

/// Why a step is not judged, in two words; `None` for one that is.
pub const fn unjudged(step: &StepRow) -> Option<&'static str> {
    match step.awaited_s {
        _ if step.pause => Some("pause"),
        None => Some("cut short"),
        Some(_) if step.counts.offered < MIN_OFFERED => Some("too few"),
        Some(_) => None,
    }
}

const fn is_judged(step: &StepRow) -> bool {
    unjudged(step).is_none()
}

/// `silent`: whether the node gave no sign for long; then connections are short because of it. `behind`: whether it lacked
/// the processor in the step before.
fn shortfall(step: &StepRow, terms: StepTerms, silent: bool, behind: bool) -> Option<Shortfall> {
    let offered = step.counts.offered as f64;
    let lost = not_offered(step, terms, silent);
    let is_offered = lost < HANDFUL && !terms.strict || too_many(lost, offered).is_none();
    if !is_offered {
        return Some(Shortfall::Offered(1.0 - lost as f64 / offered));
    }
    let shortfall = nodes_shortfall(step, terms.followed, offered - lost as f64)?;
    let late = own_late(step, silent);
    let is_shaken = too_many(late, offered).is_some()
        && late > step.late.node
        && step.latency.lateness_p99_ms > Some(step.span_s() * 1e3 / DISPLACED_PART as f64);
    // What the generator kept and then sent at once may be what was refused.
    Some(if is_shaken {
        Shortfall::Offered(1.0 - late as f64 / offered)
    } else if is_explained(step, shortfall, terms, behind) {
        Shortfall::Starved(step.node_lack())
    } else {
        shortfall
    })
}

/// Whether a node that lacked the processor for a part of the step may have sustained the rate with it: at the pace of
/// the rest it would have taken enough in all of the time. What it had to make up for counts for its pace, `behind` a
/// step that it lacked the processor for. What fails in its block fails at any pace.
fn is_explained(step: &StepRow, shortfall: Shortfall, terms: StepTerms, behind: bool) -> bool {
    let counts = &step.counts;
    let share = match shortfall {
        // Its transactions had longer than the step lasted: its pace is what was answered within it.
        Shortfall::Accepted(share) => share.min(counts.accepted as f64 / counts.offered as f64),
        Shortfall::Committed(share) | Shortfall::Unclear(share) => share,
        Shortfall::Late(share) => 1.0 - share,
        _ => return false,
    };
    let taken = if terms.followed {
        counts.committed
    } else {
        counts.accepted
    };
    let pace = if behind {
        taken as f64 / counts.offered as f64
    } else {
        0.0
    };
    let lack = step.node_lack();
    lack >= STARVED_SHARE
        || (behind || lack > 0.0) && share.max(pace) >= SUSTAINED_SHARE * (1.0 - lack)
}

/// Where it is unknown whose limit an open loop reached, since the node lacked the processor in every step that it did not
/// sustain: the first of them.
pub(super) fn starved(summary: &Summary) -> Option<(f64, Excess)> {
    let judged = judged(&summary.steps, summary.step_terms());
    let failed = judged
        .iter()
        .filter_map(|it| Some((it.step.rate_tps, it.excess?)));
    let is_known =
        summary.model == LoadModel::Closed || failed.clone().any(|(_, it)| it.is_the_nodes());
    let is_starved = |it: &Excess| matches!(it.shortfall, Shortfall::Starved(_));
    failed
        .into_iter()
        .find(|(_, it)| !is_known && is_starved(it))
}

/// The share, where it is more than a step that was sustained may miss.
fn too_many(count: u64, offered: f64) -> Option<f64> {
    let share = count as f64 / offered;
    (share > 1.0 - SUSTAINED_SHARE).then_some(share)
}

/// Sent more than a millisecond late by the generator's doing.
const fn own_late(step: &StepRow, silent: bool) -> u64 {
    let connection = if silent { 0 } else { step.late.connection };
    step.late.by_generator() + connection
}

/// How many transactions of the step the generator did not offer in it.
fn not_offered(step: &StepRow, terms: StepTerms, silent: bool) -> u64 {
    let (cohort, late) = (&step.cohort, own_late(step, silent));
    let is_generators = late > step.late.node;
    if terms.strict {
        return if is_generators { late } else { 0 };
    }
    let crowded = if silent { 0 } else { cohort.due_crowded };
    // What had not left by the time the step was judged waited for the same as the rest.
    let ended = cohort.due_sent + cohort.due_unsent;
    let waiting = step.counts.offered.saturating_sub(ended);
    let waiting = if is_generators { waiting } else { 0 };
    cohort.due_behind + crowded + waiting
}

/// What the node did not do with as many as were offered to it.
fn nodes_shortfall(step: &StepRow, followed: bool, offered: f64) -> Option<Shortfall> {
    let share = |count: u64| (count as f64 / offered).min(1.0);
    let cohort = &step.cohort;
    let accepted = share(cohort.due_accepted);
    if accepted < SUSTAINED_SHARE {
        return Some(Shortfall::Accepted(accepted));
    }
    if let Some(held_up) = too_many(cohort.due_held_up, offered) {
        return Some(Shortfall::Late(held_up));
    }
    if !followed {
        return None;
    }
    if let Some(failed) = too_many(cohort.due_commit_failed, offered) {
        return Some(Shortfall::FailedInBlocks(failed));
    }
    let committed = share(cohort.due_committed);
    (committed < SUSTAINED_SHARE || falls_behind(step)).then(|| {
        let rate = step.committed_tps.zip(step.offered_tps);
        let of_rate = rate.map_or(1.0, |(committed, offered)| committed / offered);
        let share = committed.min(of_rate);
        let at_the_edges = UNSEEN_BLOCKS / step.counts.blocks.max(1) as f64;
        if share < SUSTAINED_SHARE - at_the_edges {
            Shortfall::Committed(share)
        } else {
            Shortfall::Unclear(share)
        }
    })
}

/// Whether the blocks of a step took up too little, and left more behind than waits for the next one, or more
/// with each block.
fn falls_behind(step: &StepRow) -> bool {
    let (Some(committed_tps), Some(offered_tps)) = (step.committed_tps, step.offered_tps) else {
        return false;
    };
    let backlogged = step.backlog as f64 > BACKLOG_BLOCKS * per_block(step);
    committed_tps < SUSTAINED_SHARE * offered_tps
        && (backlogged || leaves_behind(step, offered_tps, committed_tps))
}

/// Whether the backlog grew in the step by what fell due and was not committed between its first and its last
/// block: free of how much of a block waits at its edges.
fn leaves_behind(step: &StepRow, offered_tps: f64, committed_tps: f64) -> bool {
    let blocks = step.counts.blocks.max(1) as f64;
    let between_s = step.span_s() * (1.0 - 1.0 / blocks);
    let left = (offered_tps - committed_tps) * between_s;
    let least = f64::max(
        LEFT_BEHIND_BLOCKS * per_block(step),
        LEFT_BEHIND_S * offered_tps,
    );
    step.backlog_growth > 0 && left >= least
}

/// What was offered for each block of the step.
fn per_block(step: &StepRow) -> f64 {
    step.counts.offered as f64 / step.counts.blocks.max(1) as f64
}

/// Whether the node kept up outside a silence of `gap_s`.
fn rest_kept_up(step: &StepRow, gap_s: f64, followed: bool) -> bool {
    let rest_s = (step.span_s() - gap_s).max(0.0);
    let taken = if followed {
        step.counts.committed
    } else {
        step.counts.accepted
    };
    let expected = SUSTAINED_SHARE * step.rate_tps * rest_s;
    taken as f64 + BACKLOG_BLOCKS * per_block(step) >= expected
}

/// A step that is judged by how it went the last time it was offered.
struct Judged<'a> {
    step: &'a StepRow,
    excess: Option<Excess>,
    /// How it failed the first time, where that was not the last.
    before: Option<Excess>,
}

impl Judged<'_> {
    /// The step that the profile has, also where it was offered again.
    fn number(&self) -> u32 {
        self.step.again_of.unwrap_or(self.step.step)
    }

    /// Why it was not sustained.
    fn words(&self) -> String {
        let again = match self.before {
            Some(_) => ", when it was offered again",
            None => "",
        };
        match self.excess {
            Some(excess) => format!("{excess}{again}"),
            None => "it was not sustained".to_owned(),
        }
    }

    /// `step 3 (…)`, if it failed at least once.
    fn exception(&self) -> Option<String> {
        let first = self.before.or(self.excess)?;
        let reason = match first.stall_s {
            Some(stall_s) => format!("stall of {stall_s:.1} s"),
            None => first.to_string(),
        };
        let again = match (self.before, self.excess) {
            (None, _) => "",
            (Some(_), None) => "; sustained when it was offered again",
            (Some(_), Some(_)) => "; not sustained when it was offered again, either",
        };
        Some(format!("step {} ({reason}{again})", self.number()))
    }
}

/// The steps that are judged, in order; one that was offered again at its first place.
fn judged(steps: &[StepRow], terms: StepTerms) -> Vec<Judged<'_>> {
    let mut judged: Vec<Judged<'_>> = Vec::new();
    let with_excess = steps.iter().zip(excesses(steps, terms));
    for (step, excess) in with_excess.filter(|(step, _)| is_judged(step)) {
        let first = step
            .again_of
            .and_then(|first| judged.iter_mut().find(|it| it.step.step == first));
        match first {
            Some(first) => {
                (first.step, first.before) = (step, first.excess);
                first.excess = excess;
            }
            None => judged.push(Judged {
                step,
                excess,
                before: None,
            }),
        }
    }
    judged
}

/// Judges a ramp from its closed steps, in order.
pub fn ramp(steps: &[StepRow], terms: StepTerms) -> RampJudgement {
    let judged = judged(steps, terms);
    let (knee, reason) = knee(&judged);
    let once = |it: &&Judged<'_>| it.before.is_none() && it.excess.is_some_and(|it| it.is_open());
    let failed = || judged.iter().rev().map_while(|it| it.excess);
    let open = failed().filter(Excess::is_open).count();
    // What failed again shows that the rest would, too.
    let last = judged.iter().rev().take_while(|it| it.excess.is_some());
    let is_in_vain = last.filter(|it| it.before.is_some()).count() >= SATURATED_STEPS;
    // A stall shows nothing about the rate; a second one at the same step does.
    let twice =
        |it: &Judged<'_>| it.before.is_some() && it.excess.is_some_and(|it| it.is_the_nodes());
    RampJudgement {
        knee,
        reason,
        saturated: failed().count() - open >= SATURATED_STEPS || judged.iter().any(twice),
        stalled: failed().count() >= STALLED_STEPS,
        again: judged
            .iter()
            .find(once)
            .filter(|_| !is_in_vain)
            .map(Judged::number),
    }
}

/// The highest step that was sustained, with what speaks for it.
fn knee(judged: &[Judged<'_>]) -> (Option<Knee>, String) {
    let Some(first) = judged.first() else {
        return (None, "no step was large enough to judge".into());
    };
    let Some(last) = last_sustained(judged) else {
        let failed = judged.iter().find(|it| it.excess.is_some());
        let failed = failed.unwrap_or(first);
        let place = if std::ptr::eq(failed, first) {
            "already the first step"
        } else {
            "a step"
        };
        let text = format!(
            "{place} ({:.0}/s) was {}: {}",
            failed.step.rate_tps,
            failed
                .excess
                .map_or("not sustained", |excess| excess.label()),
            failed.words()
        );
        return (None, text);
    };
    let (sustained, beyond) = judged.split_at(last + 1);
    let exceptions = exceptions(sustained);
    let is_the_nodes = |it: &&Judged<'_>| it.excess.is_some_and(|excess| excess.is_the_nodes());
    let limit = beyond.iter().find(is_the_nodes);
    let Some(next) = limit.or(beyond.first()) else {
        let text = format!(
            "every step was sustained{exceptions}: the knee lies above the highest rate offered"
        );
        return (None, text);
    };
    let top = &sustained[last];
    let text = format!(
        "sustained up to step {} ({:.0}/s){exceptions}; at {:.0}/s {}",
        top.number(),
        top.step.rate_tps,
        next.step.rate_tps,
        next.words()
    );
    let knee = limit.map(|limit| Knee {
        rate_tps: least(top.step, limit.step),
        below_tps: Some(limit.step.rate_tps),
        step: Some(top.step.step),
    });
    (knee, text)
}

/// The lower end of the knee: the rate of the step that was sustained, unless its blocks, or those of the step that was
/// not, took less. A short step may be sustained while more falls due than its blocks take, as the rest fits into the
/// next ones; and of what a step shows, half a block at the edges is not known. Fewer than [`MIN_RATE_BLOCKS`] show no
/// rate.
fn least(sustained: &StepRow, failed: &StepRow) -> f64 {
    let rate_tps = sustained.rate_tps;
    let shown = [sustained, failed].into_iter().filter_map(|step| {
        let (shown, blocks) = (step.committed_tps?, step.counts.blocks);
        let is_less = blocks >= MIN_RATE_BLOCKS && shown > 0.0 && shown < rate_tps;
        is_less.then(|| shown * (1.0 - 0.5 / blocks as f64))
    });
    shown.fold(rate_tps, f64::min)
}

/// The last sustained step with fewer failed than sustained ones up to it: more are no exceptions. What was not offered
/// speaks for neither.
fn last_sustained(judged: &[Judged<'_>]) -> Option<usize> {
    let (mut sustained, mut failed, mut last) = (0, 0, None);
    for (place, it) in judged.iter().enumerate() {
        match it.excess {
            Some(excess) => failed += u64::from(excess.is_the_nodes()),
            None => {
                sustained += 1;
                if failed < sustained {
                    last = Some(place);
                }
            }
        }
    }
    last
}

/// `, except step 3 (…)`
fn exceptions(judged: &[Judged<'_>]) -> String {
    let failed: Vec<String> = judged.iter().filter_map(Judged::exception).collect();
    match &failed[..] {
        [] => String::new(),
        failed => format!(", except {}", failed.join(", ")),
    }
}

#[cfg(test)]
mod tests;
