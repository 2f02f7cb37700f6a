//! The conclusions that are drawn from a run's figures: was the schedule kept, what limited the run,
//! which step or point of a search was sustained.
//!
//! The figures are facts; these are conclusions from them. All of them are drawn here, from the
//! thresholds in [`limits`](crate::limits), for the run that goes on, its summary, its report and a search.

mod calls;
mod limited_by;
mod onsets;
mod point;
mod schedule;
mod steps;

pub use calls::name_stage;
pub use onsets::{Onset, onsets};
pub(crate) use point::lost;
pub use point::{BrokenLimit, Point, PointJudgement, capacity_tps, growth_finding};
pub use steps::{Excess, RampJudgement, Shortfall, excesses, ramp};

use crate::plan::LoadModel;
use crate::signs::Signs;
use crate::summary::Summary;

/// What a plan says that no figure shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Whether the target answers only after it has checked a transaction.
    pub(crate) checked: bool,
    /// How many may be in flight, where what is due beyond waits for them.
    pub(crate) waits_at: Option<u64>,
}

/// Draws the conclusions of a summary whose figures are complete.
pub(crate) fn conclude(summary: &mut Summary, signs: &Signs, terms: Terms) {
    summary.verdict = schedule::verdict(summary, terms);
    summary
        .verdict
        .reasons
        .extend(signs.header_clock.set_words());
    (summary.limited_by, summary.evidence) = limited_by::limited_by(summary, signs, terms);
    (summary.knee, summary.knee_reason) = match summary.model {
        LoadModel::Closed => (None, "a closed loop has no offered rate".into()),
        LoadModel::Open => {
            let judgement = ramp(&summary.steps, summary.followed);
            (judgement.knee, judgement.reason)
        }
    };
}
