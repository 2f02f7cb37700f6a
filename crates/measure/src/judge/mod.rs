//! The conclusions that are drawn from a run's figures: was the schedule kept, what limited the run,
//! which step or point of a search was sustained.
//!
//! The figures are facts; these are conclusions from them. All of them are drawn here, from the
//! thresholds in [`limits`](crate::limits), for the run that goes on, its summary, its report and a search.

mod admission;
mod calls;
mod collector;
mod endpoints;
mod header_clock;
mod onsets;
mod point;
mod refusals;
mod signals;
mod stages;
mod steps;

pub use calls::name_stage;
pub(crate) use endpoints::{EndpointParts, EndpointSigns, EndpointWatch};
pub use header_clock::HeaderClock;
pub use onsets::{Onset, onsets};
pub use point::{BrokenLimit, Point, PointJudgement, answer_mark, growth_finding};
pub(crate) use signals::OverloadSignals;
pub use steps::{RampJudgement, excesses, ramp, unjudged};

use self::admission::Admission;
use crate::format::evidence::EvidenceKind;
pub use crate::format::evidence::{Excess, Shortfall, StepTerms};
use crate::format::plan_document::PlanDocument;
use crate::format::summary::{LoadModel, Summary};

/// What a plan says that no figure shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgeContext {
    /// Whether the target answers only after it has checked a transaction.
    pub(crate) checked: bool,
    /// How many may be in flight, where what is due beyond waits for them.
    pub(crate) waits_at: Option<u64>,
    /// Whether the schedule counts as kept only to the millisecond.
    pub(crate) strict: bool,
}

impl JudgeContext {
    pub(crate) fn of(plan: &PlanDocument) -> Self {
        Self {
            checked: plan.checked,
            waits_at: plan.waits_at(),
            strict: plan.strict,
        }
    }
}

/// Everything that conclusions on a whole run are drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// The figures, complete.
    pub(crate) summary: &'a Summary,
    /// What the course of the run showed.
    pub(crate) signals: &'a OverloadSignals,
    /// What the plan says.
    pub(crate) context: JudgeContext,
}

/// Draws the conclusions of a summary whose figures are complete.
pub(crate) fn conclude(summary: &mut Summary, signals: &OverloadSignals, context: JudgeContext) {
    summary.verdict.strict = context.strict;
    let facts = Facts {
        summary,
        signals,
        context,
    };
    let mut verdict = admission::verdict(&facts);
    verdict.reasons.extend(signals.header_clock.set_words());
    let admission = Admission::of(&verdict);
    let (limited_by, evidence) = collector::limited_by(facts, admission);
    let (knee, knee_reason) = match facts.summary.model {
        LoadModel::Closed => (None, "a closed loop has no offered rate".into()),
        LoadModel::Open => {
            let judgement = ramp(&facts.summary.steps, facts.summary.step_terms());
            match admission.commits() {
                Some(commits) => (judgement.knee(commits), judgement.reason),
                None => (None, format!("cannot tell: {}", admission.why())),
            }
        }
    };
    summary.verdict = verdict;
    (summary.limited_by, summary.evidence) = (limited_by, evidence);
    (summary.knee, summary.knee_reason) = (knee, knee_reason);
}

impl EvidenceKind {
    /// Whether blocks had no room.
    const fn is_room(&self) -> bool {
        matches!(self, Self::BlocksFull { .. } | Self::BlocksOutOfGas { .. })
    }

    /// Whether it leaves the node's connections down or busy.
    const fn is_an_outage(&self) -> bool {
        matches!(
            self,
            Self::LostAfterAccept { .. }
                | Self::NoAnswers
                | Self::NoBlocks
                | Self::EndpointSilent { .. }
                | Self::NoUsableAnswer
        )
    }
}
