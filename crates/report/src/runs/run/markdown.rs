//! The report in Markdown: for a pull request, an issue, a chat.

use std::fmt::Write as _;

use measure::RateStats;

use super::{RunReport, account, headline, latency, steps};
use crate::Table;
use crate::text::{self, grouped};

pub(super) fn render(report: &RunReport) -> Result<String, std::fmt::Error> {
    let summary = &report.summary;
    let mut out = format!("# {}\n\n", report.manifest.profile);
    for note in &report.notes {
        writeln!(out, "> {note}\n")?;
    }
    writeln!(out, "{}\n", headline::verdict(report))?;
    if headline::is_disturbed(summary) {
        let (to, title) = headline::busy_machine_link();
        writeln!(out, "[{title}]({to})\n")?;
    }
    if !report.onsets.is_empty() {
        writeln!(out, "What gave first: {}.\n", headline::onset_line(report))?;
    }
    for evidence in &summary.evidence {
        writeln!(out, "- {}", headline::words(summary, evidence))?;
    }
    out.push('\n');
    writeln!(out, "Schedule: **{}**.", summary.verdict.schedule.name())?;
    for reason in &summary.verdict.reasons {
        writeln!(out, "- {reason}")?;
    }
    for (threshold, held) in &report.thresholds {
        let held = if *held { "held" } else { "**broken**" };
        writeln!(out, "- threshold {threshold}: {held}")?;
    }
    let counts = account::counts(report).markdown();
    writeln!(out, "\n## Where every transaction ended\n\n{counts}")?;
    writeln!(out, "{}", account::laws(report).markdown())?;
    writeln!(out, "## Rates\n\n{}", rates(report).markdown())?;
    writeln!(out, "## Latencies\n\n{}", latency::table(report).markdown())?;
    if let Some(resolution) = summary.blocks.resolution() {
        writeln!(out, "{resolution}.\n")?;
    }
    if summary.steps.len() > 1 {
        writeln!(out, "## Steps\n\n{}", steps::table(report).markdown())?;
        for reason in steps::reasons(report) {
            writeln!(out, "- {reason}")?;
        }
        writeln!(out, "\n{}\n", steps::knee(report))?;
    }
    let blocks = &summary.blocks;
    writeln!(
        out,
        "{} blocks with {} own and {} other transactions.",
        grouped(blocks.count),
        grouped(blocks.own_txs),
        grouped(blocks.foreign_txs)
    )?;
    if report.marks().next().is_some() {
        out.push_str("\n## Marks\n\n");
    }
    for (second, mark) in report.marks() {
        writeln!(out, "- {second} s: {mark}")?;
    }
    Ok(out)
}

fn rates(report: &RunReport) -> Table {
    type Spread = fn(RateStats) -> f64;
    let rate = &report.summary.rate;
    let row = |name, stats: Option<RateStats>| (name, stats.map(|stats| stats.mean), stats);
    let rows = [
        ("planned", rate.planned_tps, None),
        ("sent", rate.sent_tps, None),
        row("accepted", rate.accepted_tps),
        row("committed", rate.committed_tps),
    ];
    let spread: [(&str, Spread); 3] = [
        ("median", |stats| stats.median),
        ("stddev", |stats| stats.stddev),
        ("max", |stats| stats.max),
    ];
    let table = Table::of(rows)
        .text("", |row| row.0)
        .number("mean", text::rate, |row| row.1);
    let table = spread.into_iter().fold(table, |table, (name, of)| {
        table.number(name, text::rate, |row| row.2.map(of))
    });
    table.table()
}
