//! What a run may be concluded from: worked out once, and asked by every conclusion.
//!
//! A flaw is about the generator and its record alone. A node that pushes back makes transactions late by
//! cause `node`; that is a result, and it is reported, but it makes nothing inadmissible: every
//! latency counts from the due time. How late the generator sent what it sent in time bounds the latencies, and is in
//! their figures; each step asks the same of its own transactions (see [`excesses`](super::excesses)).

use super::{Facts, JudgeContext, steps};
use crate::format::counts::Late;
use crate::format::event::UnsentReason;
use crate::format::fate::Offered;
use crate::format::summary::LoadModel;
use crate::format::summary::{Bar, ScheduleVerdict, Summary, Verdict};
use crate::limits::{
    HANDFUL, LATE_SHARE_DEGRADED, LATE_SHARE_INVALID, STALL_DEGRADED_MS, UNSENT_SHARE_INVALID,
};

/// What a run was committed is known, and counts for its workload. Only [`Admission`] makes one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commits(());

/// Besides, the load was the one that was planned, so that its rate shows something of the node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Throughput(());

/// What a run may be concluded from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission<'a>(&'a Verdict);

impl<'a> Admission<'a> {
    /// That of a run with this verdict.
    pub(super) const fn of(verdict: &'a Verdict) -> Self {
        Self(verdict)
    }

    /// Whether something may be concluded about what the node committed.
    pub(super) fn commits(self) -> Option<Commits> {
        let is_open = match &self.0.bars[..] {
            // A folder of an earlier version does not have it.
            [] => self.0.schedule != ScheduleVerdict::Invalid,
            bars => bars
                .iter()
                .all(|bar| matches!(bar, Bar::Load | Bar::Processor)),
        };
        is_open.then_some(Commits(()))
    }

    /// Whether something may be concluded about the node at the rate that was planned.
    pub(super) fn throughput(self) -> Option<Throughput> {
        (self.0.schedule != ScheduleVerdict::Invalid).then_some(Throughput(()))
    }

    /// Whether nothing is in the way but that the node lacked the processor: what it took then bounds what it can take.
    pub(super) fn lacks_processor_alone(self) -> bool {
        self.0.bars == [Bar::Processor]
    }

    /// Why not.
    pub(super) fn why(self) -> String {
        let reasons = self.0.reasons.iter();
        let barring = reasons.filter_map(|reason| reason.strip_prefix(INVALID));
        barring.collect::<Vec<_>>().join("; ")
    }
}

/// How the reasons begin that make a run inadmissible.
const INVALID: &str = "invalid: ";

pub(super) fn verdict(facts: &Facts<'_>) -> Verdict {
    let summary = facts.summary;
    let mut findings = Findings::default();
    judge_conservation(summary, &mut findings);
    judge_records(summary, &mut findings);
    judge_coverage(summary, facts.context, &mut findings);
    match summary.model {
        LoadModel::Open => {
            judge_unsent(&summary.offered, &mut findings);
            judge_lateness(summary, facts.context, &mut findings);
            if let Some((rate, excess)) = steps::starved(summary) {
                let text = format!(
                    "whose limit it is cannot be told: at {rate:.0}/s {excess} (end what runs beside the node, or give it a \
                     machine of its own)"
                );
                findings.add(Some(Bar::Processor), &text);
            }
        }
        LoadModel::Closed => findings
            .reasons
            .push("closed loop: there was no schedule to keep".into()),
    }
    if summary.offered.sent == 0 {
        findings.add(Some(Bar::Load), "nothing was sent");
    }
    if let Some(refused) = summary.refused_by_workload() {
        let text = format!(
            "{refused} of {} transactions were refused for what they are, whatever the rate: the target does not take \
             this workload (--workload, its settings)",
            summary.offered.sent
        );
        findings.add(Some(Bar::Workload), &text);
    }
    let schedule = match (findings.bars.is_empty(), findings.is_degraded) {
        (false, _) => ScheduleVerdict::Invalid,
        (_, true) => ScheduleVerdict::Degraded,
        _ => ScheduleVerdict::Valid,
    };
    Verdict {
        schedule,
        bars: findings.bars,
        reasons: findings.reasons,
        strict: facts.context.strict,
        limits: limits(),
    }
}

#[derive(Default)]
struct Findings {
    is_degraded: bool,
    bars: Vec<Bar>,
    reasons: Vec<String>,
}

impl Findings {
    /// A flaw that leaves something unknown, or is to be kept in mind.
    fn add(&mut self, bar: Option<Bar>, reason: &str) {
        match bar {
            None => {
                self.is_degraded = true;
                self.reasons.push(format!("degraded: {reason}"));
            }
            Some(bar) => {
                if !self.bars.contains(&bar) {
                    self.bars.push(bar);
                }
                self.reasons.push(format!("{INVALID}{reason}"));
            }
        }
    }
}

fn judge_conservation(summary: &Summary, findings: &mut Findings) {
    for law in summary.conservation.broken() {
        findings.add(
            Some(Bar::Account),
            &format!("transactions are not conserved: {law}"),
        );
    }
}

fn judge_records(summary: &Summary, findings: &mut Findings) {
    let health = &summary.recorder;
    let unseen = summary.is_blind().then_some(Bar::Commits);
    let degraded = None;
    for (bar, count, what) in [
        (
            unseen,
            health.late_events,
            "events came after their second had been written: the rows of series and steps are blurred, and commits in \
             blocks before them count as pending",
        ),
        (
            unseen,
            health.failed_followers,
            "followers could not go on: commits in later blocks count as pending",
        ),
        (
            degraded,
            health.reorganised_blocks,
            "blocks left the best chain after their transactions had counted as committed (recorder.taken_back \
             says how many the new chain did not have): use more --confirmations",
        ),
        (
            degraded,
            summary.fate.unverified,
            "transactions are in blocks whose results the node does not give: whether they succeeded is unknown",
        ),
        (
            unseen,
            summary.blocks.missing,
            "heights were not seen: commits in them count as pending",
        ),
    ] {
        if count > 0 {
            findings.add(bar, &format!("{count} {what}"));
        }
    }
    if health.unrecorded_ms > 0 {
        let text = format!(
            "the senders waited {:.1} s for rows to be written (a faster disk for --out, or fewer rows: --rows)",
            health.unrecorded_ms as f64 / 1e3
        );
        findings.add(None, &text);
    }
    if health.unread_ms > 0 {
        let behind_s = health.unread_ms as f64 / 1e3;
        let text = format!(
            "blocks that were announced were not read in time, by {behind_s:.1} s at the end: commits in them count as \
             pending (run txgen nearer to the node, or give it less to read)"
        );
        findings.add(unseen, &text);
    }
}

/// What the figures do not cover.
fn judge_coverage(summary: &Summary, context: JudgeContext, findings: &mut Findings) {
    let time = &summary.time;
    if summary.offered.sent > 0 && time.warmup_s > 0.0 && time.offered_s <= time.warmup_s {
        findings.add(
            Some(Bar::Account),
            &format!(
                "the offering ended at {:.1} s, before the warm-up of {:.1} s was over: no rate or latency was measured",
                time.offered_s, time.warmup_s
            ),
        );
    }
    let early = summary.recorder.settled_early;
    if early > 0 {
        let is_much = early as f64 > summary.offered.sent as f64 * UNSENT_SHARE_INVALID;
        findings.add(
            is_much.then_some(Bar::Account),
            &format!(
                "{early} transactions had to be given a fate before they had one, because too many were open at \
                 once: they count as pending or unanswered, and may be in blocks"
            ),
        );
    }
    let held_up = summary.late.causes.node;
    if let Some(limit) = context.waits_at.filter(|_| held_up > 0) {
        findings.reasons.push(format!(
            "what fell due while {limit} transactions were in flight waited and left later, in its order \
             (--at-max-in-flight wait): {held_up} left more than 1 ms late because of the node"
        ));
    }
    if !context.checked && !summary.followed {
        findings.reasons.push(
            "accepted means received: broadcast_tx_async answers before the node checks a transaction, and blocks \
             were not followed, so nothing says that one was valid"
                .into(),
        );
    }
}

fn judge_unsent(offered: &Offered, findings: &mut Findings) {
    let by_node = offered.unsent_for(UnsentReason::Node);
    if by_node > 0 {
        findings.add(
            None,
            &format!(
                "{by_node} of {} planned transactions were not sent: the node held the connections up",
                offered.planned
            ),
        );
    }
    // What still waited when the run was ended early does not count.
    let not_ours = offered.unsent_by_the_end() + by_node;
    let unsent = offered.unsent.saturating_sub(not_ours);
    if unsent == 0 {
        return;
    }
    let share = unsent as f64 / offered.planned.max(1) as f64;
    let bar = (share > UNSENT_SHARE_INVALID).then_some(Bar::Load);
    let by_reason: Vec<String> = offered
        .unsent_by_reason
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    findings.add(
        bar,
        &format!(
            "{unsent} of {} planned transactions were not sent ({})",
            offered.planned,
            by_reason.join(", ")
        ),
    );
}

fn judge_lateness(summary: &Summary, context: JudgeContext, findings: &mut Findings) {
    let late = summary.late;
    let own = late.causes.by_generator();
    let of = |late, displaced| of_late(summary, context, late, displaced);
    if let Some((bar, words)) = of(own, late.displaced.behind) {
        let Late {
            schedule, source, ..
        } = late.causes;
        findings.add(
            bar,
            &format!("{words} by the generator's fault (schedule {schedule}, source {source})"),
        );
    }
    if let Some((bar, words)) = of(late.causes.connection, late.displaced.crowded) {
        let lift = connections_needed(summary);
        findings.add(bar, &format!("{words} for lack of a free connection{lift}"));
    }
    if late.generator_max_ms >= STALL_DEGRADED_MS {
        findings.add(
            None,
            &format!("the generator stalled for {:.0} ms", late.generator_max_ms),
        );
    }
}

/// Too few connections are the generator's limit, and no result about the node. Little's law: as many are
/// busy as requests come in the time of an answer.
fn connections_needed(summary: &Summary) -> String {
    let rates = summary.steps.iter().map(|step| step.rate_tps);
    let rate = rates.fold(summary.rate.planned_tps.unwrap_or(0.0), f64::max);
    match summary.latency_ms.accept_service.mean {
        Some(answer_ms) => format!(
            ": {rate:.0}/s x {answer_ms:.1} ms for an answer = {needed} connections needed; give -c {twice} or ws://",
            needed = (rate * answer_ms / 1e3).ceil(),
            twice = (2.0 * rate * answer_ms / 1e3).ceil(),
        ),
        None => "; give more with -c, or use ws://".to_owned(),
    }
}

/// The flaw of transactions that the generator kept, of which so many left more than a millisecond late, and so many
/// so late that the load was another one.
fn of_late(
    summary: &Summary,
    context: JudgeContext,
    late: u64,
    displaced: u64,
) -> Option<(Option<Bar>, String)> {
    let share = |count: u64| count as f64 / summary.offered.sent.max(1) as f64;
    let words = |count, of| format!("{:.2} % of the transactions {of}", share(count) * 100.0);
    let limit = if context.strict { late } else { displaced };
    if share(limit) > LATE_SHARE_INVALID && (limit >= HANDFUL || context.strict) {
        let of = if context.strict {
            "left more than 1 ms late"
        } else {
            "left outside their step or more than 1 s late"
        };
        return Some((Some(Bar::Load), words(limit, of)));
    }
    (share(late) > LATE_SHARE_DEGRADED).then(|| (None, words(late, "left more than 1 ms late")))
}

fn limits() -> Vec<String> {
    vec![
        format!(
            "more than 1 ms late by cause schedule or source, or by cause connection: degraded above {:.0} % of the sent; \
             outside their step or more than 1 s late: invalid above {:.0} %; with --strict, invalid above {:.0} % more \
             than 1 ms late",
            LATE_SHARE_DEGRADED * 100.0,
            LATE_SHARE_INVALID * 100.0,
            LATE_SHARE_INVALID * 100.0
        ),
        format!("a stall of the generator: degraded from {STALL_DEGRADED_MS} ms"),
        format!(
            "unsent: degraded above 0, invalid above {} % of the planned, without what the node held up",
            UNSENT_SHARE_INVALID * 100.0
        ),
        format!(
            "fates settled early: degraded above 0, invalid above {} % of the sent",
            UNSENT_SHARE_INVALID * 100.0
        ),
        format!(
            "blocks not seen (a follower failed, a height is missing): degraded, invalid when more than {} % of the sent \
             are pending",
            UNSENT_SHARE_INVALID * 100.0
        ),
        "a step was not sustained, and all such while the node on this machine waited for a processor for as large a share of \
         the step: invalid"
            .to_owned(),
        "refused for what they are, with under 5 % as many accepted: invalid".to_owned(),
        "warm-up not over: invalid".to_owned(),
        "transactions not conserved: invalid".to_owned(),
    ]
}
