//! The steps of the profile and the curve they draw: where the node saturates.

use super::RunReport;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::text::{self, grouped};
use crate::{Cell, Page, Table};
use measure::StepRow;

pub(super) fn section(report: &RunReport) -> String {
    let steps = &report.summary.steps;
    if steps.is_empty() {
        return "<p class=\"none\">no step was recorded</p>".to_owned();
    }
    let mut html = String::new();
    let judged: Vec<&StepRow> = steps.iter().filter(|step| !step.pause).collect();
    if has_several_rates(&judged) {
        html.push_str(&Page::grid([
            saturation(report, &judged),
            latency_by_rate(report, &judged),
        ]));
        html.push_str(&format!("<p>{}</p>", text::escape(&knee(report))));
    }
    let table = table(report);
    let table = if table.len() > MANY {
        table.in_window()
    } else {
        table
    };
    html.push_str(&table.html());
    let reasons = reasons(report);
    if !reasons.is_empty() {
        html.push_str("<p>Not sustained:</p><ul>");
        for reason in reasons {
            html.push_str(&format!("<li>{}</li>", text::escape(&reason)));
        }
        html.push_str("</ul>");
    }
    if report.summary.recorder.steps_omitted > 0 {
        html.push_str(&format!(
            "<p class=\"note\">{} more steps are in steps.csv.</p>",
            grouped(report.summary.recorder.steps_omitted)
        ));
    }
    html
}

/// A curve needs more than one.
fn has_several_rates(steps: &[&StepRow]) -> bool {
    let first = steps.first().map(|step| step.rate_tps);
    steps.iter().any(|step| Some(step.rate_tps) != first)
}

/// Why steps were not sustained, the first ones.
pub(super) fn reasons(report: &RunReport) -> Vec<String> {
    report
        .summary
        .steps
        .iter()
        .zip(&report.excesses)
        .filter_map(|(step, excess)| Some((step, excess.as_deref()?)))
        .map(|(step, excess)| {
            let rate = text::rate(step.rate_tps);
            format!("step {} ({rate}): {excess}", step.step)
        })
        .take(MAX_REASONS)
        .collect()
}

/// The knee in words.
pub(super) fn knee(report: &RunReport) -> String {
    let summary = &report.summary;
    match &summary.knee {
        Some(knee) => format!(
            "Knee at {}: {}.",
            text::rate(knee.rate_tps),
            summary.knee_reason
        ),
        None => format!("No knee was found: {}.", summary.knee_reason),
    }
}

fn saturation(report: &RunReport, steps: &[&StepRow]) -> String {
    let points = |of: Field| -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = steps
            .iter()
            .filter_map(|step| Some((step.offered_tps?, of(step)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let top = steps
        .iter()
        .filter_map(|step| step.offered_tps)
        .fold(0.0, f64::max);
    let mut chart = Chart::new(
        "Offered against accepted and committed",
        Axis::linear("offered per second", Unit::PerSecond),
        Axis::linear("per second", Unit::PerSecond),
    )
    .tall()
    .line("all that was offered", Tone::Plan, [(0.0, 0.0), (top, top)]);
    for (name, tone, of) in [
        (
            "accepted",
            Tone::Accepted,
            (|step| step.accepted_tps) as Field,
        ),
        ("committed", Tone::Committed, |step| step.committed_tps),
    ] {
        let points = points(of);
        chart = chart
            .line("", tone, points.iter().copied())
            .dots(name, tone, points);
    }
    if let Some(knee) = &report.summary.knee {
        chart = chart.mark(
            knee.rate_tps,
            &format!("knee {}", text::rate(knee.rate_tps)),
        );
    }
    chart.html()
}

/// Latency against what got through: the curve bends up at the knee, and back when throughput falls.
fn latency_by_rate(report: &RunReport, steps: &[&StepRow]) -> String {
    let committed = report.summary.blocks.count > 0;
    let through = |step: &StepRow| {
        if committed {
            step.committed_tps
        } else {
            step.accepted_tps
        }
    };
    let points = |of: Field| -> Vec<(f64, f64)> {
        steps
            .iter()
            .filter_map(|step| Some((through(step)?, of(step)?)))
            .collect()
    };
    let label = if committed {
        "committed per second"
    } else {
        "accepted per second"
    };
    let mut chart = Chart::new(
        "Latency against throughput",
        Axis::linear(label, Unit::PerSecond),
        Axis::log("latency from due", Unit::Millis),
    )
    .tall()
    .note("Steps in the order of the run; where throughput falls back, the line turns back.");
    let lines: [(&str, Tone, Field); 3] = [
        ("to accept, p99", Tone::Accepted, |step| step.accept_p99_ms),
        ("to commit, p50", Tone::P50, |step| step.commit_p50_ms),
        ("to commit, p99", Tone::P99, |step| step.commit_p99_ms),
    ];
    for (name, tone, of) in lines {
        let points = points(of);
        if !points.is_empty() {
            chart = chart
                .line("", tone, points.iter().copied())
                .dots(name, tone, points);
        }
    }
    chart.html()
}

/// One row a step.
pub(super) fn table(report: &RunReport) -> Table {
    let mut table = Table::new([
        "step",
        "sustained",
        "from",
        "rate",
        "offered/s",
        "sent/s",
        "accepted/s",
        "committed/s",
        "refused",
        "backlog",
        "mempool",
        "accept p50",
        "accept p99",
        "commit p50",
        "commit p99",
        "lateness p99",
    ]);
    for (position, step) in report.summary.steps.iter().enumerate() {
        let excess = report.excesses.get(position).and_then(Option::as_ref);
        let rate = |value: Option<f64>| Cell::figure(text::or_dash(value, text::number));
        let time = |value: Option<f64>| Cell::figure(text::or_dash(value, text::millis));
        let refused = step.rejected + step.errors;
        table.row([
            Cell::figure(step.step.to_string()),
            match (step.pause, excess) {
                (true, _) => Cell::figure("pause"),
                (false, Some(_)) => Cell::Alarm("no".to_owned()),
                (false, None) => Cell::figure("yes"),
            },
            Cell::figure(text::seconds(step.start_s)),
            Cell::figure(text::rate(step.rate_tps)),
            rate(step.offered_tps),
            rate(step.sent_tps),
            rate(step.accepted_tps),
            rate(step.committed_tps),
            if refused > 0 {
                Cell::Alarm(grouped(refused))
            } else {
                Cell::figure("0")
            },
            Cell::figure(format!(
                "{} ({:+})",
                grouped(step.backlog),
                step.backlog_growth
            )),
            Cell::figure(step.mempool_txs.map_or_else(|| "–".to_owned(), grouped)),
            time(step.accept_p50_ms),
            time(step.accept_p99_ms),
            time(step.commit_p50_ms),
            time(step.commit_p99_ms),
            time(step.lateness_p99_ms),
        ]);
    }
    table
}

/// A figure of a step.
type Field = fn(&StepRow) -> Option<f64>;

/// Reasons that are read.
const MAX_REASONS: usize = 20;
/// Rows of a table that still stand on the page as they are.
const MANY: usize = 40;
