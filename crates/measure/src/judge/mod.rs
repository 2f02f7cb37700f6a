//! The conclusions that are drawn from a run's figures: was the schedule kept, what limited the run,
//! which step or point of a search was sustained.
//!
//! The figures are facts; these are conclusions from them. All of them are drawn here, from the
//! thresholds in [`limits`], for the run that goes on, its summary, its report and a search.

mod limited_by;
pub mod limits;
mod onsets;
mod point;
mod schedule;
mod steps;

pub use onsets::{Onset, Sign, onsets};
pub(crate) use point::lost;
pub use point::{BrokenLimit, Point, PointJudgement, growth_finding};
pub use steps::{Excess, RampJudgement, excesses, ramp};

use crate::plan::LoadModel;
use crate::summary::Summary;

/// Draws the conclusions of a summary whose figures are complete. `followed`: whether blocks were
/// watched.
pub(crate) fn conclude(summary: &mut Summary, followed: bool) {
    summary.verdict = schedule::verdict(summary);
    summary.limited_by = limited_by::limited_by(summary);
    (summary.knee, summary.knee_reason) = match summary.model {
        LoadModel::Closed => (None, "a closed loop has no offered rate".into()),
        LoadModel::Open => {
            let judgement = ramp(&summary.steps, followed);
            (judgement.knee, judgement.reason)
        }
    };
}
