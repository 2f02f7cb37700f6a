//! Verdict and conservation.

use std::collections::BTreeMap;

use measure::Summary;

use super::{RunReport, headline};
use crate::Table;
use crate::page::tag;
use crate::runs::{list, titled};
use crate::text::{self, by_name};

/// The verdict on the generator, its reasons and the limits that were applied.
pub(super) fn schedule(report: &RunReport) -> String {
    let summary = &report.summary;
    let verdict = &summary.verdict;
    let interrupted = if summary.interrupted {
        ", cut short"
    } else {
        ""
    };
    let mut html = format!(
        "<p>The verdict on the generator is <b class=\"{}\">{}</b>{interrupted}. What a node makes late or refuses is a result and costs no verdict.</p>",
        headline::class(verdict.schedule),
        verdict.schedule.name()
    );
    html += &list(&verdict.reasons);
    html + &tag("p", "The limits:") + &list(&verdict.limits)
}

pub(super) fn fates(report: &RunReport) -> String {
    let mut html = counts(report).html();
    if !report.thresholds.is_empty() {
        let table = Table::of(&report.thresholds)
            .text("threshold", |(text, _)| text)
            .figure("held", |(_, held)| if *held { "yes" } else { "no" })
            .alarm(|(_, held)| !held);
        html += &table.table().html();
    }
    html
}

pub(super) fn conservation(report: &RunReport) -> String {
    let sentence = if report.summary.conservation.holds {
        "<p>Every law of conservation holds.</p>"
    } else {
        "<p class=\"bad\">The account does not add up:</p>"
    };
    sentence.to_owned() + &laws(report).html()
}

/// Every count with its share of what was planned.
pub(super) fn counts(report: &RunReport) -> Table {
    let (offered, fate) = (&report.summary.offered, &report.summary.fate);
    let planned = offered.planned.max(1) as f64;
    let none = String::new;
    let refused = refusals(&report.summary);
    let failed = titled(&fate.commit_failed_by_code);
    let rows = [
        ("planned", offered.planned, none()),
        ("unsent", offered.unsent, by_name(&offered.unsent_by_reason)),
        ("sent", offered.sent, none()),
        ("rejected", fate.rejected, by_name(&refused)),
        ("errors", fate.errors, errors(report)),
        ("unanswered", fate.unanswered, none()),
        ("accepted", fate.accepted, none()),
        ("committed", fate.committed, none()),
        (FAILED, fate.commit_failed, by_name(&failed)),
        ("pending at the end", fate.pending, none()),
        (ANYWAY, fate.committed_anyway.total(), NO_ANSWER.to_owned()),
    ];
    let rare = |name: &str| [FAILED, ANYWAY].contains(&name);
    let mut rows = Vec::from(rows);
    rows.retain(|(name, count, _)| *count > 0 || !rare(name));
    let named = rows.iter().any(|(_, _, which)| !which.is_empty());
    let table = Table::of(rows)
        .text("", |row| row.0)
        .count("transactions", |row| row.1)
        .number("of planned", text::percent, |row| row.1 as f64 / planned);
    if named {
        table.text("which", |row| row.2.clone()).table()
    } else {
        table.table()
    }
}

/// The kinds of errors, and what came where answers should.
fn errors(report: &RunReport) -> String {
    let fate = &report.summary.fate;
    let said = [&fate.errors_by_kind, &fate.unusable_by_text].map(by_name);
    let said: Vec<String> = said.into_iter().filter(|it| !it.is_empty()).collect();
    said.join("; ")
}

/// What was said of the rejected, by text where texts are known, by code otherwise.
pub(super) fn refusals(summary: &Summary) -> BTreeMap<String, u64> {
    let fate = &summary.fate;
    if fate.rejected_by_text.is_empty() {
        titled(&fate.rejected_by_code)
    } else {
        fate.rejected_by_text.clone()
    }
}

pub(super) fn laws(report: &RunReport) -> Table {
    Table::of(&report.summary.conservation.laws)
        .text("law", |law| law.law.as_str())
        .count("left", |law| law.left)
        .count("right", |law| law.right)
        .figure("holds", |law| if law.holds() { "yes" } else { "no" })
        .alarm(|law| !law.holds())
        .table()
}

const FAILED: &str = "failed in a block";
const ANYWAY: &str = "committed anyway";
const NO_ANSWER: &str = "in a block although no answer said accepted";
