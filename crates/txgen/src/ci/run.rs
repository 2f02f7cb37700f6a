//! A run for a CI system.

use measure::ScheduleVerdict;

use super::{CaseEnd, CiCase, CiReport};
use crate::folder::RecordedRun;
use crate::output::recorded::{self, ReportFormat};
use crate::run::Outcome;
use crate::threshold::ThresholdVerdict;

impl CiReport {
    /// Of one run.
    pub(crate) fn of_run(outcome: &Outcome) -> Self {
        let summary = &outcome.summary;
        let answer = report::answer(summary).into_iter();
        let answer: Vec<String> = answer.filter(|line| !line.is_empty()).collect();
        let details = RecordedRun::open(&outcome.folder)
            .and_then(|run| recorded::render(&run, ReportFormat::Md))
            .unwrap_or_default();
        Self {
            answer: answer.join("; ").replace("**", ""),
            cases: run_cases(outcome, &outcome.folder.display().to_string()),
            details,
            folder: outcome.folder.clone(),
            seconds: summary.time.ended_s,
            ..Self::default()
        }
    }
}

/// What was asked of a run: its schedule, its end, and each condition.
pub(crate) fn run_cases(outcome: &Outcome, suite: &str) -> Vec<CiCase> {
    let case = |name: &str, end, detail| CiCase {
        suite: suite.into(),
        name: name.into(),
        end,
        detail,
    };
    let verdict = &outcome.summary.verdict;
    let schedule = match verdict.schedule {
        ScheduleVerdict::Invalid => CaseEnd::Untold,
        ScheduleVerdict::Valid | ScheduleVerdict::Degraded => CaseEnd::Passed,
    };
    let reasons = verdict.reasons.join("; ");
    let reasons = if reasons.is_empty() {
        verdict.schedule.name().into()
    } else {
        reasons
    };
    let mut cases = vec![case("schedule kept", schedule, reasons)];
    if outcome.summary.interrupted {
        cases.push(case("whole", CaseEnd::Untold, "interrupted".into()));
    }
    let condition = |verdict: &ThresholdVerdict| {
        let value = verdict.value_text();
        let (end, detail) = match (verdict.held, verdict.unresolved) {
            (true, _) => (CaseEnd::Passed, format!("held: {value}")),
            (_, true) => (CaseEnd::Untold, format!("cannot tell: {value}")),
            _ if verdict.broken => (CaseEnd::Broken, format!("broken: {value}")),
            _ => (CaseEnd::Broken, format!("not shown to hold: {value}")),
        };
        case(&verdict.text, end, detail)
    };
    cases.extend(outcome.thresholds.iter().map(condition));
    if let Some(verdict) = &outcome.stopped_by {
        let detail = format!("ended the run: {}", verdict.value_text());
        cases.push(case(&verdict.text, CaseEnd::Broken, detail));
    }
    cases
}
