//! Verdict and conservation.

use std::fmt::Write as _;

use super::RunReport;
use crate::text::{self, escape, grouped};
use crate::{Cell, Page, Table};
use measure::ScheduleVerdict;

pub(super) fn verdict(report: &RunReport) -> String {
    let summary = &report.summary;
    let verdict = &summary.verdict;
    let class = match verdict.schedule {
        ScheduleVerdict::Valid => "good",
        ScheduleVerdict::Degraded => "warn",
        ScheduleVerdict::Invalid => "bad",
    };
    let interrupted = if summary.interrupted {
        ", cut short"
    } else {
        ""
    };
    let mut html = format!(
        "<p>The verdict on the generator is <b class=\"{class}\">{}</b>{interrupted}. What a node makes late or refuses is a result and costs no verdict.</p>",
        verdict.schedule.name()
    );
    list(&mut html, &verdict.reasons);
    if !report.thresholds.is_empty() {
        let mut table = Table::new(["threshold", "held"]);
        for (text, held) in &report.thresholds {
            let held = if *held {
                Cell::figure("yes")
            } else {
                Cell::Alarm("no".into())
            };
            table.row([Cell::text(text.as_str()), held]);
        }
        html.push_str(&table.html());
    }
    html.push_str("<details><summary>the limits</summary>");
    list(&mut html, &verdict.limits);
    html.push_str("</details>");
    html
}

fn list(html: &mut String, entries: &[String]) {
    if entries.is_empty() {
        return;
    }
    html.push_str("<ul>");
    for entry in entries {
        let _ = write!(html, "<li>{}</li>", escape(entry));
    }
    html.push_str("</ul>");
}

pub(super) fn fates(report: &RunReport) -> String {
    let laws = laws(report);
    let broken = !report.summary.conservation.holds;
    let sentence = if broken {
        "<p class=\"bad\">The account does not add up:</p>"
    } else {
        "<p>Every law of conservation holds.</p>"
    };
    format!(
        "{sentence}{}",
        Page::grid([counts(report).html(), laws.html()])
    )
}

/// Every count with its share of what was planned.
pub(super) fn counts(report: &RunReport) -> Table {
    let (offered, fate) = (&report.summary.offered, &report.summary.fate);
    let anyway = &fate.committed_anyway;
    let mut table = Table::new(["", "transactions", "of planned", "which"]);
    let planned = offered.planned.max(1) as f64;
    let mut row = |name: &str, count: u64, which: String| {
        table.row([
            Cell::text(name),
            Cell::figure(grouped(count)),
            Cell::figure(text::percent(count as f64 / planned)),
            Cell::text(which),
        ]);
    };
    row("planned", offered.planned, String::new());
    row("unsent", offered.unsent, by_name(&offered.unsent_by_reason));
    row("sent", offered.sent, String::new());
    row("rejected", fate.rejected, by_name(&fate.rejected_by_code));
    row("errors", fate.errors, by_name(&fate.errors_by_kind));
    row("unanswered", fate.unanswered, String::new());
    row("accepted", fate.accepted, String::new());
    row("committed", fate.committed, String::new());
    if fate.commit_failed > 0 {
        row("failed in a block", fate.commit_failed, String::new());
    }
    row("pending at the end", fate.pending, String::new());
    if anyway.total() > 0 {
        row(
            "committed anyway",
            anyway.total(),
            "in a block although no answer said accepted".to_owned(),
        );
    }
    table
}

pub(super) fn laws(report: &RunReport) -> Table {
    let mut table = Table::new(["law", "left", "right", "holds"]);
    for law in &report.summary.conservation.laws {
        table.row([
            Cell::text(law.law.as_str()),
            Cell::figure(grouped(law.left)),
            Cell::figure(grouped(law.right)),
            if law.holds() {
                Cell::figure("yes")
            } else {
                Cell::Alarm("no".into())
            },
        ]);
    }
    table
}

/// The entries that are not zero.
fn by_name(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let entries: Vec<String> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name}: {}", grouped(*count)))
        .collect();
    entries.join(", ")
}
