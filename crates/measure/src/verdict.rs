//! Did the generator keep its schedule?
//!
//! The verdict is about the generator alone. A node that pushes back makes transactions late by
//! cause `node` or `connection`; that is a result, and it is reported, but it does not make the
//! run invalid: every latency counts from the due time. What the generator did not send, or sent
//! late by its own fault, does.

use serde::{Deserialize, Serialize};

use crate::conservation::Conservation;
use crate::event::UnsentReason;
use crate::summary::{LateCauses, LoadModel, Offered};

/// Share of the sent transactions that may be late by the generator's own fault before the run is
/// `degraded`: beyond 1 % the p99 of the response time contains the generator's lateness.
pub const LATE_SHARE_DEGRADED: f64 = 0.01;
/// The same for `invalid`: beyond 5 % the p95 does too, and no tail can be trusted.
pub const LATE_SHARE_INVALID: f64 = 0.05;
/// A single stall of the generator that makes the run `degraded`: the longest gap that stays
/// inside one window of the per-second series is half a second.
pub const STALL_DEGRADED_MS: f64 = 500.0;
/// Share of the planned transactions that may stay unsent before the run is `invalid`. Any
/// unsent transaction makes it `degraded`: the offered load was not the planned one. 1 % is the
/// precision that a rate is quoted with.
pub const UNSENT_SHARE_INVALID: f64 = 0.01;

/// Whether the schedule was kept, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The verdict.
    pub schedule: ScheduleVerdict,
    /// What led to it: empty for `valid` except for remarks.
    pub reasons: Vec<String>,
    /// The limits that were applied.
    pub limits: Vec<String>,
}

/// How well the schedule was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleVerdict {
    /// Within every limit.
    Valid,
    /// Usable with the reasons in mind.
    Degraded,
    /// Not a measurement of the planned load.
    Invalid,
}

impl ScheduleVerdict {
    /// The name in `summary.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Degraded => "degraded",
            Self::Invalid => "invalid",
        }
    }
}

/// What the verdict looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub(crate) model: LoadModel,
    pub(crate) offered: &'a Offered,
    pub(crate) late: LateCauses,
    pub(crate) conservation: &'a Conservation,
    pub(crate) late_events: u64,
    pub(crate) missing_blocks: u64,
    pub(crate) failed_followers: u64,
}

pub(crate) fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut findings = Findings::default();
    judge_conservation(evidence, &mut findings);
    judge_records(evidence, &mut findings);
    match evidence.model {
        LoadModel::Open => {
            judge_unsent(evidence.offered, &mut findings);
            judge_lateness(evidence, &mut findings);
        }
        LoadModel::Closed => findings.remark("closed loop: there was no schedule to keep".into()),
    }
    if evidence.offered.sent == 0 {
        findings.add(ScheduleVerdict::Invalid, "nothing was sent");
    }
    Verdict {
        schedule: findings.worst.unwrap_or(ScheduleVerdict::Valid),
        reasons: findings.reasons,
        limits: limits(),
    }
}

#[derive(Default)]
struct Findings {
    worst: Option<ScheduleVerdict>,
    reasons: Vec<String>,
}

impl Findings {
    fn add(&mut self, verdict: ScheduleVerdict, reason: &str) {
        self.worst = self.worst.max(Some(verdict));
        self.reasons.push(format!("{}: {reason}", verdict.name()));
    }

    fn remark(&mut self, remark: String) {
        self.reasons.push(remark);
    }
}

fn judge_conservation(evidence: &Evidence<'_>, findings: &mut Findings) {
    for law in evidence.conservation.broken() {
        findings.add(
            ScheduleVerdict::Invalid,
            &format!("transactions are not conserved: {law}"),
        );
    }
}

fn judge_records(evidence: &Evidence<'_>, findings: &mut Findings) {
    if evidence.late_events > 0 {
        findings.add(
            ScheduleVerdict::Degraded,
            &format!(
                "{} events came after their second had been written: the rows of series and steps are blurred",
                evidence.late_events
            ),
        );
    }
    if evidence.failed_followers > 0 {
        findings.add(
            ScheduleVerdict::Degraded,
            &format!(
                "{} followers could not go on: commits in later blocks count as pending",
                evidence.failed_followers
            ),
        );
    }
    if evidence.missing_blocks > 0 {
        findings.add(
            ScheduleVerdict::Degraded,
            &format!(
                "{} heights were not seen: commits in them count as pending",
                evidence.missing_blocks
            ),
        );
    }
}

fn judge_unsent(offered: &Offered, findings: &mut Findings) {
    // What still waited when the run was ended early is nobody's fault.
    let by_the_end: u64 = [UnsentReason::Interrupted, UnsentReason::Stopped]
        .iter()
        .filter_map(|reason| offered.unsent_by_reason.get(reason.name()))
        .sum();
    let unsent = offered.unsent.saturating_sub(by_the_end);
    if unsent == 0 {
        return;
    }
    let share = unsent as f64 / offered.planned.max(1) as f64;
    let verdict = if share > UNSENT_SHARE_INVALID {
        ScheduleVerdict::Invalid
    } else {
        ScheduleVerdict::Degraded
    };
    let by_reason: Vec<String> = offered
        .unsent_by_reason
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    findings.add(
        verdict,
        &format!(
            "{unsent} of {} planned transactions were not sent ({})",
            offered.planned,
            by_reason.join(", ")
        ),
    );
}

fn judge_lateness(evidence: &Evidence<'_>, findings: &mut Findings) {
    let late = evidence.late;
    let by_generator = late.schedule + late.source;
    let share = by_generator as f64 / evidence.offered.sent.max(1) as f64;
    let verdict = if share > LATE_SHARE_INVALID {
        Some(ScheduleVerdict::Invalid)
    } else if share > LATE_SHARE_DEGRADED {
        Some(ScheduleVerdict::Degraded)
    } else {
        None
    };
    if let Some(verdict) = verdict {
        findings.add(
            verdict,
            &format!(
                "{:.2} % of the transactions left more than 1 ms late by the generator's fault (schedule {}, source {})",
                share * 100.0,
                late.schedule,
                late.source
            ),
        );
    }
    if late.generator_max_ms >= STALL_DEGRADED_MS {
        findings.add(
            ScheduleVerdict::Degraded,
            &format!("the generator stalled for {:.0} ms", late.generator_max_ms),
        );
    }
}

fn limits() -> Vec<String> {
    vec![
        format!(
            "late by cause schedule or source: degraded above {} % of the sent, invalid above {} %",
            LATE_SHARE_DEGRADED * 100.0,
            LATE_SHARE_INVALID * 100.0
        ),
        format!("a stall of the generator: degraded from {STALL_DEGRADED_MS} ms"),
        format!(
            "unsent: degraded above 0, invalid above {} % of the planned",
            UNSENT_SHARE_INVALID * 100.0
        ),
        "transactions not conserved: invalid".to_owned(),
    ]
}
