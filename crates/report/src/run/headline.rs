//! What was offered, what was sustained, what limited it: in one sentence.

use std::fmt::Write as _;

use super::RunReport;
use crate::text::{self, escape, grouped};
use measure::ScheduleVerdict;
use measure::{LimitedBy, LoadModel};

pub(super) fn title(report: &RunReport) -> String {
    report.manifest.profile.clone()
}

/// When, against what, with which program.
pub(super) fn origin(report: &RunReport) -> String {
    let manifest = &report.manifest;
    let targets: Vec<String> = manifest
        .endpoints
        .iter()
        .map(|endpoint| {
            let node = if endpoint.built_in {
                "the built-in node".to_owned()
            } else {
                endpoint.url.clone()
            };
            match &endpoint.node_version {
                Some(version) => format!("{node} (version {version})"),
                None => node,
            }
        })
        .collect();
    let started = manifest.started.split('.').next().unwrap_or_default();
    format!(
        "<p class=\"soft\">{} UTC, against {}, by txgen {}</p>",
        escape(&started.replace('T', " ").replace('Z', "")),
        escape(&targets.join(", ")),
        escape(&manifest.version)
    )
}

pub(super) fn notes(report: &RunReport) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let mut html = String::from("<div class=\"alert\">");
    for note in &report.notes {
        let _ = write!(html, "<p>{}</p>", escape(note));
    }
    html.push_str("</div>");
    html
}

/// The sentence, with its figures set off.
pub(super) fn html(report: &RunReport) -> String {
    sentence(report)
        .into_iter()
        .map(|part| match part {
            Part::Plain(text) => escape(&text).into_owned(),
            Part::Strong(text) => format!("<b>{}</b>", escape(&text)),
        })
        .collect()
}

/// The sentence in Markdown.
pub(super) fn markdown(report: &RunReport) -> String {
    sentence(report)
        .into_iter()
        .map(|part| match part {
            Part::Plain(text) => text,
            Part::Strong(text) => format!("**{text}**"),
        })
        .collect()
}

enum Part {
    Plain(String),
    Strong(String),
}

fn sentence(report: &RunReport) -> Vec<Part> {
    let mut parts = offered(report);
    parts.extend(sustained(report));
    parts.extend(limited(report));
    parts
}

fn offered(report: &RunReport) -> Vec<Part> {
    let summary = &report.summary;
    let count = Part::Strong(grouped(summary.offered.planned));
    let span = text::seconds(summary.time.offered_s);
    match (summary.model, summary.rate.planned_tps) {
        (LoadModel::Open, Some(rate)) => vec![
            Part::Plain("Offered ".into()),
            count,
            Part::Plain(format!(" transactions in {span}, ")),
            Part::Strong(text::rate(rate)),
            Part::Plain(" on average. ".into()),
        ],
        (LoadModel::Closed, _) => vec![
            Part::Plain("Sent ".into()),
            count,
            Part::Plain(format!(
                " transactions in {span}, each as soon as an answer made room (a closed loop). "
            )),
        ],
        _ => vec![
            Part::Plain("Offered ".into()),
            count,
            Part::Plain(" transactions. ".into()),
        ],
    }
}

fn sustained(report: &RunReport) -> Vec<Part> {
    let summary = &report.summary;
    if let Some(knee) = &summary.knee {
        return vec![
            Part::Plain("The node sustained ".into()),
            Part::Strong(text::rate(knee.rate_tps)),
            Part::Plain(format!(": {}. ", summary.knee_reason)),
        ];
    }
    let mut parts = Vec::new();
    if let Some(accepted) = summary.rate.accepted_tps {
        parts.push(Part::Plain("The node accepted ".into()));
        parts.push(Part::Strong(text::rate(accepted.mean)));
    }
    if let Some(committed) = summary.rate.committed_tps
        && summary.blocks.count > 0
    {
        parts.push(Part::Plain(" and committed ".into()));
        parts.push(Part::Strong(text::rate(committed.mean)));
    }
    if !parts.is_empty() {
        parts.push(Part::Plain(". ".into()));
    }
    if summary.steps.len() > 1 && !summary.knee_reason.is_empty() {
        parts.push(Part::Plain(format!(
            "No knee was found ({}). ",
            summary.knee_reason
        )));
    }
    parts
}

fn limited(report: &RunReport) -> Vec<Part> {
    let limit = report.summary.limited_by;
    let explained = limit.explain();
    let (what, why) = explained.split_once(": ").unwrap_or((explained, ""));
    match limit {
        LimitedBy::Nothing => vec![
            Part::Strong("Nothing".into()),
            Part::Plain(format!(" limited it: {why}.")),
        ],
        _ => vec![
            Part::Plain("Limited by the ".into()),
            Part::Strong(what.to_owned()),
            Part::Plain(format!(": {why}.")),
        ],
    }
}

/// The figures people look for first.
pub(super) fn tiles(report: &RunReport) -> String {
    let summary = &report.summary;
    let latency = &summary.latency_ms;
    let class = match summary.verdict.schedule {
        ScheduleVerdict::Valid => "good",
        ScheduleVerdict::Degraded => "warn",
        ScheduleVerdict::Invalid => "bad",
    };
    let mean =
        |rate: Option<measure::RateStats>| text::or_dash(rate.map(|rate| rate.mean), text::rate);
    let mut html = String::from("<ul class=\"tiles\">");
    let mut tile = |class: &str, value: &str, name: &str| {
        let _ = write!(
            html,
            "<li><b class=\"{class}\">{}</b><span>{}</span></li>",
            escape(value),
            escape(name)
        );
    };
    tile(class, summary.verdict.schedule.name(), "schedule");
    tile(
        "",
        &text::or_dash(summary.rate.sent_tps, text::rate),
        "sent, mean",
    );
    tile(
        "",
        &mean(summary.rate.accepted_tps),
        "accepted, mean second",
    );
    tile(
        "",
        &mean(summary.rate.committed_tps),
        "committed, mean second",
    );
    tile(
        "",
        &text::or_dash(latency.accept_response.p99, text::millis),
        "to accept, p99 from due",
    );
    tile(
        "",
        &text::or_dash(latency.commit_from_due.p50, text::millis),
        "to commit, p50 from due",
    );
    tile(
        "",
        &text::or_dash(latency.commit_from_due.p99, text::millis),
        "to commit, p99 from due",
    );
    let lost = summary.fate.rejected + summary.fate.errors + summary.fate.unanswered;
    let class = if lost > 0 { "bad" } else { "" };
    tile(class, &grouped(lost), "rejected, failed, unanswered");
    html.push_str("</ul>");
    html
}
