//! The report in Markdown: for a pull request, an issue, a chat.

use std::fmt::Write as _;

use super::{RunReport, account, headline, latency, steps};
use crate::text::{self, grouped};
use crate::{Cell, Table};
use measure::RateStats;

pub(super) fn render(report: &RunReport) -> String {
    let summary = &report.summary;
    let mut out = format!("# {}\n\n", headline::title(report));
    for note in &report.notes {
        let _ = writeln!(out, "> {note}\n");
    }
    let _ = writeln!(out, "{}\n", headline::markdown(report));
    let _ = writeln!(out, "Schedule: **{}**.", summary.verdict.schedule.name());
    for reason in &summary.verdict.reasons {
        let _ = writeln!(out, "- {reason}");
    }
    for (threshold, held) in &report.thresholds {
        let held = if *held { "held" } else { "**broken**" };
        let _ = writeln!(out, "- threshold {threshold}: {held}");
    }
    let _ = writeln!(
        out,
        "\n## Where every transaction ended\n\n{}",
        account::counts(report).markdown()
    );
    let _ = writeln!(out, "{}", account::laws(report).markdown());
    let _ = writeln!(out, "## Rates\n\n{}", rates(report).markdown());
    let _ = writeln!(out, "## Latencies\n\n{}", latency::table(report).markdown());
    if summary.steps.len() > 1 {
        let _ = writeln!(out, "## Steps\n\n{}", steps::table(report).markdown());
        for reason in steps::reasons(report) {
            let _ = writeln!(out, "- not sustained: {reason}");
        }
        let _ = writeln!(out, "\n{}\n", steps::knee(report));
    }
    let blocks = &summary.blocks;
    let _ = writeln!(
        out,
        "{} blocks with {} own and {} other transactions.",
        grouped(blocks.count),
        grouped(blocks.own_txs),
        grouped(blocks.foreign_txs)
    );
    let marks: Vec<(f64, &str)> = report.marks().collect();
    if !marks.is_empty() {
        out.push_str("\n## Marks\n\n");
        for (second, mark) in marks {
            let _ = writeln!(out, "- {second} s: {mark}");
        }
    }
    out
}

fn rates(report: &RunReport) -> Table {
    let rate = &report.summary.rate;
    let mut table = Table::new(["", "mean", "median", "stddev", "max"]);
    for (name, mean) in [("planned", rate.planned_tps), ("sent", rate.sent_tps)] {
        let none = || Cell::figure("");
        table.row([
            Cell::text(name),
            Cell::figure(text::or_dash(mean, text::rate)),
            none(),
            none(),
            none(),
        ]);
    }
    for (name, stats) in [
        ("accepted", rate.accepted_tps),
        ("committed", rate.committed_tps),
    ] {
        let cell =
            |of: fn(RateStats) -> f64| Cell::figure(text::or_dash(stats.map(of), text::rate));
        table.row([
            Cell::text(name),
            cell(|stats| stats.mean),
            cell(|stats| stats.median),
            cell(|stats| stats.stddev),
            cell(|stats| stats.max),
        ]);
    }
    table
}
