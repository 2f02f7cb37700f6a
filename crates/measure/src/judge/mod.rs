//! The conclusions that are drawn from a run's figures: was the schedule kept, what limited the run,
//! which step or point of a search was sustained, what gave first.
//!
//! The figures are facts; these are conclusions from them. All of them are drawn here, from the
//! thresholds in [`limits`](crate::limits), for the run that goes on, its summary, its report and a search.

mod admission;
mod calls;
mod collector;
mod endpoints;
mod header_clock;
mod point;
mod signals;
mod stages;
mod steps;

pub use calls::name_stage;
pub(crate) use endpoints::{EndpointParts, EndpointSigns, EndpointWatch};
pub use header_clock::HeaderClock;
pub use point::{BrokenLimit, Point, PointJudgement, answer_mark, growth_finding};
pub(crate) use signals::OverloadSignals;
pub use steps::{RampJudgement, excesses, ramp, unjudged};

use std::fmt;

use self::admission::Admission;
use crate::format::evidence::{Evidence, EvidenceKind, Strength};
pub use crate::format::evidence::{Excess, Shortfall, StepTerms};
use crate::format::plan_document::PlanDocument;
use crate::format::summary::{LoadModel, Summary};

/// What a plan contains that no figure shows.
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
    /// From the plan.
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

/// A sign of an overload and when it began.
#[derive(Debug, Clone, PartialEq)]
pub struct Onset {
    /// Seconds since the origin.
    pub at_s: f64,
    /// What began, in few words.
    pub sign: String,
}

impl fmt::Display for Onset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {:.0} s", self.sign, self.at_s)
    }
}

/// The chain of causes that a run's evidence shows, the first one first; none in a healthy run.
pub fn onsets(evidence: &[Evidence]) -> Vec<Onset> {
    // A mempool that is full decides nothing by itself, but it explains the refusals; an endpoint that gives
    // no answers may hold nothing up, but is broken.
    let explains = |kind: &EvidenceKind| {
        matches!(
            kind,
            EvidenceKind::MempoolFull { .. } | EvidenceKind::EndpointSilent { .. }
        )
    };
    let tells = |it: &&Evidence| it.strength >= Strength::Strong || explains(&it.kind);
    let onset = |it: &Evidence| {
        let (at_s, sign) = (it.from_s?, sign(it)?);
        Some((order(&it.kind), Onset { at_s, sign }))
    };
    let told = evidence.iter().filter(tells);
    let mut onsets: Vec<(u8, Onset)> = told.filter_map(onset).collect();
    // Within a second the order is that of cause and effect.
    onsets.sort_by(|(order, one), (other_order, other)| {
        let seconds = one.at_s.floor().total_cmp(&other.at_s.floor());
        seconds.then(order.cmp(other_order))
    });
    onsets.into_iter().map(|(_, onset)| onset).collect()
}

/// What began; nothing for what a run ends with.
fn sign(evidence: &Evidence) -> Option<String> {
    let for_s = |what: &str| {
        let until_s = evidence.until_s.or(evidence.from_s).unwrap_or(0.0);
        let span_s = until_s - evidence.from_s.unwrap_or(0.0);
        format!("{what} for {span_s:.1} s")
    };
    Some(match &evidence.kind {
        EvidenceKind::BlocksFull { limit } => format!("blocks full at {limit}"),
        EvidenceKind::BlocksOutOfGas { limit, .. } => format!("blocks out of gas at {limit}"),
        EvidenceKind::NoBlocks => for_s("no block"),
        EvidenceKind::Backlog => "backlog".to_owned(),
        EvidenceKind::MempoolFull { limit } => format!("mempool full at {limit}"),
        EvidenceKind::Refused => "refusals".to_owned(),
        EvidenceKind::NoAnswers => for_s("no answer"),
        EvidenceKind::EndpointSilent { endpoint } => {
            for_s(&format!("no answer of {}", host(endpoint)))
        }
        _ => return None,
    })
}

/// Host and port of an endpoint.
fn host(url: &str) -> &str {
    let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    behind_scheme.split('/').next().unwrap_or(behind_scheme)
}

/// Causes before effects.
const fn order(kind: &EvidenceKind) -> u8 {
    match kind {
        EvidenceKind::BlocksFull { .. } | EvidenceKind::BlocksOutOfGas { .. } => 0,
        EvidenceKind::NoBlocks => 1,
        EvidenceKind::Backlog => 2,
        EvidenceKind::MempoolFull { .. } => 3,
        EvidenceKind::Refused => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::evidence::{Excess, LimitedBy, Shortfall};

    fn evidence(kind: EvidenceKind, from_s: f64) -> Evidence {
        Evidence {
            points_to: LimitedBy::Node,
            strength: match kind {
                EvidenceKind::MempoolFull { .. } => Strength::Remark,
                _ => Strength::Strong,
            },
            kind,
            txs: 1_000,
            from_s: Some(from_s),
            until_s: Some(from_s + 9.0),
        }
    }

    #[test]
    fn an_overload_is_told_from_its_first_sign_to_the_refusals() {
        let steps_failed = EvidenceKind::StepsFailed {
            failed: 2,
            steps: 5,
            rate_tps: 500.0,
            excess: Excess {
                shortfall: Shortfall::Accepted(0.5),
                stall_s: None,
            },
        };
        // As evidence is ranked: by weight, not by time.
        let ranked = [
            evidence(EvidenceKind::Refused, 24.1),
            evidence(steps_failed, 20.0),
            evidence(EvidenceKind::Backlog, 15.0),
            evidence(EvidenceKind::BlocksFull { limit: 600 }, 13.2),
            evidence(EvidenceKind::MempoolFull { limit: 2_000 }, 24.4),
        ];
        let told: Vec<String> = onsets(&ranked).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "blocks full at 600 from 13 s",
                "backlog from 15 s",
                "mempool full at 2000 from 24 s",
                "refusals from 24 s"
            ]
        );
    }

    #[test]
    fn a_silence_has_a_length_and_a_remark_is_no_sign() {
        let mut silence = evidence(EvidenceKind::NoAnswers, 8.0);
        let told = onsets(std::slice::from_ref(&silence));
        assert_eq!(told[0].to_string(), "no answer for 9.0 s from 8 s");
        silence.strength = Strength::Remark;
        assert_eq!(onsets(&[silence]), []);
        assert_eq!(onsets(&[]), []);
    }
}
