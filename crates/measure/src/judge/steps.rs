//! Which steps a target sustained, and when a ramp has saturated it.

use std::fmt;

use super::limits::{
    BACKLOG_BLOCKS, MIN_OFFERED, SATURATED_STEPS, SLOWEST_BLOCKS_S, SUSTAINED_SHARE,
};
use crate::rows::StepRow;
use crate::summary::Knee;

/// Why a step was not sustained.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Excess {
    /// Fewer were accepted than [`SUSTAINED_SHARE`] of what was offered: accepted as a share of offered.
    Accepted(f64),
    /// Fewer were committed than [`SUSTAINED_SHARE`] of what was offered, and the backlog shows it:
    /// committed as a share of offered, both per second.
    Committed(f64),
    /// The node held up too many: transactions late by cause node as a share of offered.
    Late(f64),
}

/// What the steps of a ramp say together.
#[derive(Debug, Clone, PartialEq)]
pub struct RampJudgement {
    /// The highest step that was sustained, if the target was also driven past it.
    pub knee: Option<Knee>,
    /// Why `knee` is what it is.
    pub reason: String,
    /// Whether the last two judged steps were both not sustained.
    pub saturated: bool,
}

/// Judges every step, in order; `None` for one that was sustained or too small to tell. `followed`
/// says whether blocks were watched.
///
/// The rule is the ramp's: accepted or committed under 95 % of offered, or sent late because of the
/// node. Committed per second is taken between the step's first and last block (free of edges); as
/// it is still noisy in short steps, it counts only with a backlog that a healthy chain, which
/// empties its mempool with every block, would not have. A step with fewer than two blocks is judged
/// by what it committed at all, if the blocks of the steps before let one expect two.
#[must_use]
pub fn excesses(steps: &[StepRow], followed: bool) -> Vec<Option<Excess>> {
    let mut before = BlocksSoFar::default();
    steps
        .iter()
        .map(|step| {
            let excess = refused(step).or_else(|| {
                let judged = followed && is_large_enough(step);
                judged.then(|| uncommitted(step, &before)).flatten()
            });
            before.add(step);
            excess
        })
        .collect()
}

/// The blocks of the steps so far.
#[derive(Debug, Default)]
struct BlocksSoFar {
    span_s: f64,
    blocks: u64,
}

impl BlocksSoFar {
    fn add(&mut self, step: &StepRow) {
        self.span_s += step.span_s();
        self.blocks += step.counts.blocks;
    }

    /// Whether a chain as fast as before would have made two blocks in this time.
    fn should_make_two_blocks(&self, span_s: f64) -> bool {
        if self.blocks == 0 {
            return span_s >= SLOWEST_BLOCKS_S;
        }
        span_s >= 2.0 * self.span_s / self.blocks as f64
    }
}

fn is_large_enough(step: &StepRow) -> bool {
    !step.pause && step.counts.offered >= MIN_OFFERED
}

/// What shows in the answers and in the sending.
fn refused(step: &StepRow) -> Option<Excess> {
    if !is_large_enough(step) {
        return None;
    }
    let offered = step.counts.offered as f64;
    let accepted = step.counts.accepted as f64 / offered;
    if accepted < SUSTAINED_SHARE {
        return Some(Excess::Accepted(accepted));
    }
    let late = step.late.node as f64 / offered;
    (late > 1.0 - SUSTAINED_SHARE).then_some(Excess::Late(late))
}

/// What shows in the blocks.
fn uncommitted(step: &StepRow, before: &BlocksSoFar) -> Option<Excess> {
    let offered = step.counts.offered as f64;
    let (Some(committed_tps), Some(offered_tps)) = (step.committed_tps, step.offered_tps) else {
        let share = step.counts.committed as f64 / offered;
        let expected = before.should_make_two_blocks(step.span_s());
        return (expected && share < SUSTAINED_SHARE).then_some(Excess::Committed(share));
    };
    let share = committed_tps / offered_tps;
    let per_block = offered / step.counts.blocks.max(1) as f64;
    let backlogged = step.backlog as f64 > BACKLOG_BLOCKS * per_block;
    (share < SUSTAINED_SHARE && backlogged).then_some(Excess::Committed(share))
}

/// Judges a ramp from its closed steps, in order.
#[must_use]
pub fn ramp(steps: &[StepRow], followed: bool) -> RampJudgement {
    let judged: Vec<(&StepRow, Option<Excess>)> = steps
        .iter()
        .zip(excesses(steps, followed))
        .filter(|(step, _)| is_large_enough(step))
        .collect();
    let saturated = judged.len() >= SATURATED_STEPS
        && judged
            .iter()
            .rev()
            .take(SATURATED_STEPS)
            .all(|(_, excess)| excess.is_some());
    let first_excess = judged.iter().position(|(_, excess)| excess.is_some());
    let sustained = judged[..first_excess.unwrap_or(judged.len())].last();
    let (knee, reason) = match (sustained, first_excess.map(|position| &judged[position])) {
        (_, None) if judged.is_empty() => (None, "no step was large enough to judge".into()),
        (_, None) => (
            None,
            "every step was sustained: the knee lies above the highest rate offered".into(),
        ),
        (None, Some((step, excess))) => (
            None,
            format!(
                "already the first step ({:.0}/s) was not sustained: {}",
                step.rate_tps,
                words(*excess)
            ),
        ),
        (Some((last, _)), Some((step, excess))) => (
            Some(Knee {
                rate_tps: last.rate_tps,
                step: Some(last.step),
            }),
            format!(
                "step {} ({:.0}/s) was the last one sustained; at {:.0}/s {}",
                last.step,
                last.rate_tps,
                step.rate_tps,
                words(*excess)
            ),
        ),
    };
    RampJudgement {
        knee,
        reason,
        saturated,
    }
}

/// The words for an excess, if there is one.
fn words(excess: Option<Excess>) -> String {
    excess.map_or("it was not sustained".into(), |excess| excess.to_string())
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (only, share, fate) = match self {
            Self::Accepted(share) => ("only ", share, "accepted"),
            Self::Committed(share) => ("only ", share, "committed"),
            Self::Late(share) => ("", share, "sent late because of the node"),
        };
        write!(f, "{only}{:.1} % of offered was {fate}", share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    fn excess(step: &StepRow) -> Option<Excess> {
        excesses(std::slice::from_ref(step), true)[0]
    }

    fn step(number: u32, rate: f64, accepted: f64, committed: f64) -> StepRow {
        StepRow {
            step: number,
            start_s: f64::from(number) * 10.0,
            end_s: f64::from(number + 1) * 10.0,
            rate_tps: rate,
            counts: Counts {
                offered: (rate * 10.0) as u64,
                accepted: (rate * 10.0 * accepted) as u64,
                blocks: 10,
                ..Counts::default()
            },
            offered_tps: Some(rate),
            committed_tps: Some(rate * committed),
            backlog: (rate * 10.0 * (1.0 - committed)) as u64,
            ..StepRow::default()
        }
    }

    #[test]
    fn the_last_sustained_step_is_named() {
        let steps = [
            step(0, 100.0, 1.0, 1.0),
            step(1, 200.0, 1.0, 0.99),
            step(2, 300.0, 1.0, 0.7),
            step(3, 400.0, 0.6, 0.6),
        ];
        let judgement = ramp(&steps, true);
        assert!(judgement.saturated);
        assert_eq!(judgement.knee.as_ref().unwrap().rate_tps, 200.0);
        assert_eq!(judgement.knee.unwrap().step, Some(1));
        assert!(judgement.reason.contains("70.0 % of offered was committed"));
        assert!(!ramp(&steps[..3], true).saturated);
    }

    #[test]
    fn a_noisy_commit_rate_without_backlog_is_no_saturation() {
        let mut noisy = step(0, 100.0, 1.0, 0.9);
        noisy.backlog = 100;
        assert_eq!(excess(&noisy), None);
        noisy.backlog = 151;
        assert!(matches!(excess(&noisy), Some(Excess::Committed(_))));
    }

    #[test]
    fn a_chain_that_stops_is_saturated_although_its_mempool_takes_on() {
        let healthy = step(0, 100.0, 1.0, 1.0);
        let mut halted = step(1, 200.0, 1.0, 0.0);
        (halted.counts.blocks, halted.committed_tps) = (0, None);
        let steps = [healthy, halted];
        assert!(matches!(
            excesses(&steps, true)[1],
            Some(Excess::Committed(0.0))
        ));
        assert_eq!(excesses(&steps, false)[1], None);
        // Too short for two blocks of a second each.
        let mut short = steps[1].clone();
        short.end_s = short.start_s + 1.5;
        assert_eq!(excesses(&[steps[0].clone(), short], true)[1], None);
    }

    #[test]
    fn lateness_of_the_node_counts_and_pauses_do_not() {
        let mut late = step(0, 100.0, 1.0, 1.0);
        late.late.node = 51;
        assert!(matches!(excess(&late), Some(Excess::Late(_))));
        late.pause = true;
        assert_eq!(excess(&late), None);
    }

    #[test]
    fn without_excess_there_is_no_knee_and_the_reason_says_so() {
        let judgement = ramp(&[step(0, 100.0, 1.0, 1.0)], true);
        assert_eq!(judgement.knee, None);
        assert!(judgement.reason.contains("above the highest rate"));
        let judgement = ramp(&[step(0, 100.0, 0.5, 0.5)], true);
        assert!(judgement.reason.contains("already the first step"));
        assert!(ramp(&[], true).reason.contains("large enough"));
    }
}
