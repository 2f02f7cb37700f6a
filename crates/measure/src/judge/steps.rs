//! Which steps a target sustained, and when a ramp has saturated it.

use crate::format::evidence::{Excess, Shortfall};
use crate::format::rows::StepRow;
use crate::format::summary::Knee;
use crate::limits::{
    BACKLOG_BLOCKS, LEFT_BEHIND_BLOCKS, LEFT_BEHIND_S, MIN_OFFERED, SATURATED_STEPS, STALLED_STEPS,
    SUSTAINED_SHARE,
};
use crate::stats::silence;

/// What the steps of a ramp say together.
#[derive(Debug, Clone, PartialEq)]
pub struct RampJudgement {
    /// The highest step that was sustained, if the target was also driven past it.
    pub knee: Option<Knee>,
    /// Why `knee` is what it is.
    pub reason: String,
    /// Whether a ramp without a last step has found what it looked for.
    pub saturated: bool,
    /// Whether as many steps as end it otherwise, and as many again, failed in a row by stalls.
    pub stalled: bool,
    /// The first step that failed because of a stall and was not offered again.
    pub again: Option<u32>,
}

/// Judges every step, in order; `None` for one that was sustained, too small to tell, or cut off before
/// its transactions had time for their fates. `followed` says whether blocks were watched.
///
/// A step is judged by its cohort, the transactions due in it: under 95 % of them accepted, or committed
/// with code 0, while they were awaited (see [`StepRow::awaited_s`]), or sent late because of the node.
/// A chain that is a little too slow shows earlier in its rate between the step's first and last block
/// (free of edges); as that is noisy in short steps, it counts only with a backlog that a healthy
/// chain, which empties its mempool with every block, would not have, or with one that grew in the step
/// by what its blocks left.
pub fn excesses(steps: &[StepRow], followed: bool) -> Vec<Option<Excess>> {
    let (mut span_s, mut blocks) = (0.0, 0);
    steps
        .iter()
        .map(|step| {
            span_s += step.span_s();
            blocks += step.counts.blocks;
            let gap_s = silence(step, followed);
            let is_stall = gap_s >= silence::ordinary_s(blocks, span_s - gap_s, followed);
            let shortfall = is_judged(step)
                .then(|| shortfall(step, followed, is_stall))
                .flatten();
            shortfall.map(|shortfall| Excess {
                shortfall,
                stall_s: (is_stall && rest_kept_up(step, gap_s, followed)).then_some(gap_s),
            })
        })
        .collect()
}

/// The longest time without a sign of the node, in seconds.
const fn silence(step: &StepRow, followed: bool) -> f64 {
    let blocks = if followed { step.block_gap_s } else { 0.0 };
    step.answer_gap_s.max(blocks)
}

fn is_judged(step: &StepRow) -> bool {
    !step.pause && step.counts.offered >= MIN_OFFERED && step.awaited_s.is_some()
}

/// `silent`: whether the node gave no sign for long; then connections are short because of it.
fn shortfall(step: &StepRow, followed: bool, silent: bool) -> Option<Shortfall> {
    let share = |count: u64| count as f64 / step.counts.offered as f64;
    let (cohort, late) = (&step.cohort, &step.late);
    let (sent, accepted) = (share(cohort.due_sent), share(cohort.due_accepted));
    let own_late = late.by_generator() + if silent { 0 } else { late.connection };
    if share(own_late) > 1.0 - SUSTAINED_SHARE && own_late > late.node {
        return Some(Shortfall::Offered((1.0 - share(own_late)).min(sent)));
    }
    if accepted < SUSTAINED_SHARE {
        return Some(Shortfall::Accepted(accepted));
    }
    let held_up = share(late.node);
    if held_up > 1.0 - SUSTAINED_SHARE {
        return Some(Shortfall::Late(held_up));
    }
    if !followed {
        return None;
    }
    let failed = share(cohort.due_commit_failed);
    if failed > 1.0 - SUSTAINED_SHARE {
        return Some(Shortfall::FailedInBlocks(failed));
    }
    let committed = share(cohort.due_committed);
    (committed < SUSTAINED_SHARE || falls_behind(step)).then(|| {
        let rate = step.committed_tps.zip(step.offered_tps);
        let of_rate = rate.map_or(1.0, |(committed, offered)| committed / offered);
        Shortfall::Committed(committed.min(of_rate))
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
    let taken = match followed {
        true => step.counts.committed,
        false => step.counts.accepted,
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
fn judged(steps: &[StepRow], followed: bool) -> Vec<Judged<'_>> {
    let mut judged: Vec<Judged<'_>> = Vec::new();
    let with_excess = steps.iter().zip(excesses(steps, followed));
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
pub fn ramp(steps: &[StepRow], followed: bool) -> RampJudgement {
    let judged = judged(steps, followed);
    let (knee, reason) = knee(&judged);
    let is_stall = |excess: &Excess| excess.stall_s.is_some();
    let once = |it: &&Judged<'_>| it.before.is_none() && it.excess.as_ref().is_some_and(is_stall);
    let failed = || judged.iter().rev().map_while(|it| it.excess);
    let stalled = failed().filter(is_stall).count();
    let twice = |it: &Judged<'_>| it.before.is_some() && it.excess.is_some();
    RampJudgement {
        knee,
        reason,
        // A stall says nothing about the rate; a second one at the same step does.
        saturated: failed().count() - stalled >= SATURATED_STEPS || judged.iter().any(twice),
        stalled: failed().count() >= STALLED_STEPS,
        again: judged.iter().find(once).map(Judged::number),
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
    let Some(next) = beyond.first() else {
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
    let is_the_nodes = |it: &Judged<'_>| it.excess.is_some_and(|excess| excess.is_the_nodes());
    let knee = beyond.iter().any(is_the_nodes).then_some(Knee {
        rate_tps: top.step.rate_tps,
        step: Some(top.step.step),
    });
    (knee, text)
}

/// The last sustained step with fewer failed than sustained ones up to it: more are no exceptions.
fn last_sustained(judged: &[Judged<'_>]) -> Option<usize> {
    let (mut sustained, mut failed, mut last) = (0, 0, None);
    for (place, it) in judged.iter().enumerate() {
        match it.excess {
            Some(_) => failed += 1,
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
