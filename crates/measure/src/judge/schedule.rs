//! Did the generator keep its schedule?
//!
//! The verdict is about the generator alone. A node that pushes back makes transactions late by
//! cause `node` or `connection`; that is a result, and it is reported, but it does not make the
//! run invalid: every latency counts from the due time. What the generator did not send, or sent
//! late by its own fault, does.

use super::limits::{
    LATE_SHARE_DEGRADED, LATE_SHARE_INVALID, STALL_DEGRADED_MS, UNSENT_SHARE_INVALID,
};
use crate::fate::Offered;
use crate::plan::LoadModel;
use crate::summary::{ScheduleVerdict, Summary, Verdict};

pub(super) fn verdict(summary: &Summary) -> Verdict {
    let mut findings = Findings::default();
    judge_conservation(summary, &mut findings);
    judge_records(summary, &mut findings);
    match summary.model {
        LoadModel::Open => {
            judge_unsent(&summary.offered, &mut findings);
            judge_lateness(summary, &mut findings);
        }
        LoadModel::Closed => findings
            .reasons
            .push("closed loop: there was no schedule to keep".into()),
    }
    if summary.offered.sent == 0 {
        findings.add(ScheduleVerdict::Invalid, "nothing was sent");
    }
    Verdict {
        schedule: findings.worst,
        reasons: findings.reasons,
        limits: limits(),
    }
}

#[derive(Default)]
struct Findings {
    worst: ScheduleVerdict,
    reasons: Vec<String>,
}

impl Findings {
    fn add(&mut self, verdict: ScheduleVerdict, reason: &str) {
        self.worst = self.worst.max(verdict);
        self.reasons.push(format!("{}: {reason}", verdict.name()));
    }
}

fn judge_conservation(summary: &Summary, findings: &mut Findings) {
    for law in summary.conservation.broken() {
        findings.add(
            ScheduleVerdict::Invalid,
            &format!("transactions are not conserved: {law}"),
        );
    }
}

fn judge_records(summary: &Summary, findings: &mut Findings) {
    let health = &summary.recorder;
    for (count, what) in [
        (
            health.late_events,
            "events came after their second had been written: the rows of series and steps are blurred",
        ),
        (
            health.failed_followers,
            "followers could not go on: commits in later blocks count as pending",
        ),
        (
            summary.blocks.missing,
            "heights were not seen: commits in them count as pending",
        ),
    ] {
        if count > 0 {
            findings.add(ScheduleVerdict::Degraded, &format!("{count} {what}"));
        }
    }
}

fn judge_unsent(offered: &Offered, findings: &mut Findings) {
    // What still waited when the run was ended early does not count.
    let unsent = offered.unsent.saturating_sub(offered.unsent_by_the_end());
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

fn judge_lateness(summary: &Summary, findings: &mut Findings) {
    let late = summary.late;
    let share = late.causes.by_generator() as f64 / summary.offered.sent.max(1) as f64;
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
                late.causes.schedule,
                late.causes.source
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
