//! What was offered, what was sustained, what limited it: in a few sentences, with bold figures
//! between `**`.

use measure::{LimitedBy, LoadModel, RateStats, ScheduleVerdict};

use super::RunReport;
use crate::html::tag;
use crate::text::{self, escape, grouped};

/// When, against what, with which program.
pub(super) fn origin(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let endpoints = manifest.endpoints.iter().map(|endpoint| {
        let node = match endpoint.built_in {
            true => "the built-in node",
            false => &endpoint.url,
        };
        match &endpoint.node_version {
            Some(version) => format!("{node} (version {version})"),
            None => node.to_owned(),
        }
    });
    let started = manifest.started.split('.').next().unwrap_or_default();
    let text = format!(
        "{} UTC, against {}, by txgen {}",
        started.replace('T', " ").replace('Z', ""),
        endpoints.collect::<Vec<_>>().join(", "),
        manifest.version
    );
    tag("p class=\"soft\"", &escape(&text))
}

pub(super) fn notes(report: &RunReport) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let notes = report.notes.iter().map(|note| tag("p", &escape(note)));
    tag("div class=\"alert\"", &notes.collect::<String>())
}

pub(super) fn sentences(report: &RunReport) -> String {
    format!(
        "{}{}{}",
        offered(report),
        sustained(report),
        limited(report)
    )
}

fn offered(report: &RunReport) -> String {
    let summary = &report.summary;
    let count = grouped(summary.offered.planned);
    let span = text::seconds(summary.time.offered_s);
    match (summary.model, summary.rate.planned_tps) {
        (LoadModel::Open, Some(rate)) => {
            let rate = text::rate(rate);
            format!("Offered **{count}** transactions in {span}, **{rate}** on average. ")
        }
        (LoadModel::Closed, _) => format!(
            "Sent **{count}** transactions in {span}, each as soon as an answer made room (a closed loop). "
        ),
        _ => format!("Offered **{count}** transactions. "),
    }
}

fn sustained(report: &RunReport) -> String {
    let summary = &report.summary;
    if let Some(knee) = &summary.knee {
        let rate = text::rate(knee.rate_tps);
        return format!("The node sustained **{rate}**: {}. ", summary.knee_reason);
    }
    let mean = |stats: RateStats| text::rate(stats.mean);
    let committed = summary
        .rate
        .committed_tps
        .filter(|_| summary.blocks.count > 0);
    let mut text = match (summary.rate.accepted_tps.map(mean), committed.map(mean)) {
        (Some(accepted), Some(committed)) => {
            format!("The node accepted **{accepted}** and committed **{committed}**. ")
        }
        (Some(accepted), None) => format!("The node accepted **{accepted}**. "),
        (None, Some(committed)) => format!("The node committed **{committed}**. "),
        (None, None) => String::new(),
    };
    if summary.steps.len() > 1 && !summary.knee_reason.is_empty() {
        text += &format!("No knee was found ({}). ", summary.knee_reason);
    }
    text
}

fn limited(report: &RunReport) -> String {
    let limit = report.summary.limited_by;
    let explained = limit.explain();
    let (what, why) = explained.split_once(": ").unwrap_or((explained, ""));
    match limit {
        LimitedBy::Nothing => format!("**Nothing** limited it: {why}."),
        _ => format!("Limited by the **{what}**: {why}."),
    }
}

/// The colour of a verdict on the schedule.
pub(super) const fn class(verdict: ScheduleVerdict) -> &'static str {
    match verdict {
        ScheduleVerdict::Valid => "good",
        ScheduleVerdict::Degraded => "warn",
        ScheduleVerdict::Invalid => "bad",
    }
}

/// The figures people look for first.
pub(super) fn tiles(report: &RunReport) -> String {
    let (summary, latency) = (&report.summary, &report.summary.latency_ms);
    let verdict = summary.verdict.schedule;
    let rate = |rate: Option<f64>| text::or_dash(rate, text::rate);
    let mean = |stats: Option<RateStats>| rate(stats.map(|stats| stats.mean));
    let millis = |millis: Option<f64>| text::or_dash(millis, text::millis);
    let lost = summary.fate.rejected + summary.fate.errors + summary.fate.unanswered;
    let tiles = [
        (verdict.name().to_owned(), "schedule"),
        (rate(summary.rate.sent_tps), "sent, mean"),
        (mean(summary.rate.accepted_tps), "accepted, mean second"),
        (mean(summary.rate.committed_tps), "committed, mean second"),
        (
            millis(latency.accept_response.p99),
            "to accept, p99 from due",
        ),
        (
            millis(latency.commit_from_due.p50),
            "to commit, p50 from due",
        ),
        (
            millis(latency.commit_from_due.p99),
            "to commit, p99 from due",
        ),
        (grouped(lost), "rejected, failed, unanswered"),
    ];
    let last = tiles.len() - 1;
    let tiles = tiles.iter().enumerate().map(|(place, (value, name))| {
        let class = match place {
            0 => class(verdict),
            _ if place == last && lost > 0 => "bad",
            _ => "",
        };
        let value = tag(&format!("b class=\"{class}\""), &escape(value));
        tag("li", &(value + &tag("span", name)))
    });
    tag("ul class=\"tiles\"", &tiles.collect::<String>())
}
