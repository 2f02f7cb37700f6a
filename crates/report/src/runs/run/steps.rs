//! The steps of the profile and the curve they draw: where the node saturates.

use measure::StepRow;
use measure::judge::{Excess, unjudged};

use super::RunReport;
use super::headline::bracket;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::page::{note, tag};
use crate::runs::list;
use crate::text::{self, escape, grouped};
use crate::{Page, Table};

/// A figure of a step.
type Figure = fn(&StepRow) -> Option<f64>;

/// The two curves that show a knee; nothing for a single rate.
pub(super) fn curves(report: &RunReport) -> String {
    let steps = report.summary.steps.iter();
    let loaded: Vec<&StepRow> = steps.filter(|step| !step.pause).collect();
    if !has_several_rates(&loaded) {
        return String::new();
    }
    let charts = [
        saturation(report, &loaded),
        latency_by_rate(report, &loaded),
    ];
    let html = Page::grid(charts);
    match &report.summary.knee {
        Some(_) => html,
        None => html + &tag("p", &escape(&knee(report))),
    }
}

/// Every step, if there are several.
pub(super) fn section(report: &RunReport) -> String {
    let steps = &report.summary.steps;
    if steps.len() < 2 {
        return String::new();
    }
    let mut html = table(report).in_window(steps.len() > MANY).html();
    let reasons = reasons(report);
    if !reasons.is_empty() {
        html += &list(&reasons);
    }
    let omitted = report.summary.recorder.steps_omitted;
    if omitted > 0 {
        let omitted = grouped(omitted);
        html += &note(&format!("{omitted} more steps are in steps.csv."));
    }
    html
}

/// A curve needs more than one.
fn has_several_rates(steps: &[&StepRow]) -> bool {
    let first = steps.first().map(|step| step.rate_tps);
    steps.iter().any(|step| Some(step.rate_tps) != first)
}

/// Why steps were not sustained, or not offered, the first ones.
pub(super) fn reasons(report: &RunReport) -> Vec<String> {
    steps(report)
        .filter_map(|(step, excess)| Some((step, excess?)))
        .map(|(step, excess)| {
            let rate = text::rate(step.rate_tps);
            format!("step {} ({rate}) {}: {excess}", step.name(), excess.label())
        })
        .take(MAX_REASONS)
        .collect()
}

/// The steps, and why each was not sustained.
fn steps(report: &RunReport) -> impl Iterator<Item = (&StepRow, Option<&Excess>)> {
    let steps = report.summary.steps.iter().enumerate();
    steps.map(|(place, step)| {
        let excess = report.excesses.get(place);
        (step, excess.and_then(Option::as_ref))
    })
}

/// The knee in words.
pub(super) fn knee(report: &RunReport) -> String {
    let reason = &report.summary.knee_reason;
    match &report.summary.knee {
        Some(knee) => format!("Knee {}: {reason}.", bracket(knee)),
        None => format!("No knee was found: {reason}."),
    }
}

fn saturation(report: &RunReport, steps: &[&StepRow]) -> String {
    let mut steps = steps.to_vec();
    steps.retain(|step| step.offered_tps.is_some());
    steps.sort_by(|a, b| {
        let offered = |step: &StepRow| step.offered_tps.unwrap_or(0.0);
        offered(a).total_cmp(&offered(b))
    });
    let top = steps.last().and_then(|step| step.offered_tps);
    let top = top.unwrap_or(0.0);
    let offered = Axis::linear("offered per second", Unit::PerSecond);
    let through = Axis::linear("per second", Unit::PerSecond);
    let chart = Chart::new("Offered against accepted and committed", offered, through)
        .tall()
        .line(
            "all that was offered",
            Tone::Offered,
            [(0.0, 0.0), (top, top)],
        );
    let lines: [(&str, Tone, Figure); 2] = [
        ("accepted", Tone::Accepted, |step| step.accepted_tps),
        ("committed", Tone::Committed, |step| step.committed_tps),
    ];
    let mut chart = joined_dots(chart, &steps, |step| step.offered_tps, &lines);
    if let Some(knee) = &report.summary.knee {
        let label = format!("knee {}", text::rate(knee.rate_tps));
        chart = chart.mark(knee.rate_tps, &label);
    }
    chart.html()
}

/// Latency against what got through: the curve bends up at the knee, and back when throughput falls.
fn latency_by_rate(report: &RunReport, steps: &[&StepRow]) -> String {
    let (label, through): (&str, Figure) = match report.summary.blocks.count {
        0 => ("accepted per second", |step| step.accepted_tps),
        _ => ("committed per second", |step| step.committed_tps),
    };
    let through_axis = Axis::linear(label, Unit::PerSecond);
    let latency_axis = Axis::log("latency from due", Unit::Millis);
    let chart = Chart::new("Latency against throughput", through_axis, latency_axis)
        .tall()
        .note("Steps in the order of the run; where throughput falls back, the line turns back.");
    let lines: [(&str, Tone, Figure); 3] = [
        ("to accept, p99", Tone::Accepted, |step| {
            step.latency.accept_p99_ms
        }),
        ("to commit, p50", Tone::P50, |step| {
            step.latency.commit_p50_ms
        }),
        ("to commit, p99", Tone::P99, |step| {
            step.latency.commit_p99_ms
        }),
    ];
    joined_dots(chart, steps, through, &lines).html()
}

/// Adds a line with a dot at each step, for each figure that has values.
fn joined_dots(
    chart: Chart,
    steps: &[&StepRow],
    x: Figure,
    lines: &[(&str, Tone, Figure)],
) -> Chart {
    lines.iter().fold(chart, |chart, (name, tone, y)| {
        let points = steps.iter().filter_map(|step| Some((x(step)?, y(step)?)));
        let points: Vec<(f64, f64)> = points.collect();
        if points.is_empty() {
            return chart;
        }
        let line = chart.line("", *tone, points.iter().copied());
        line.dots(name, *tone, points)
    })
}

/// One row a step.
pub(super) fn table(report: &RunReport) -> Table {
    let sustained = |step, excess: Option<&Excess>| match (unjudged(step), excess) {
        (Some(why), _) => why,
        (None, Some(excess)) if excess.is_the_nodes() => "no",
        (None, Some(excess)) => excess.label(),
        (None, None) => "yes",
    };
    let refused = |step: &StepRow| step.counts.rejected + step.counts.errors;
    let figure = |name| move |(step, _): &(&StepRow, _)| step.figure(name);
    Table::of(steps(report))
        .figure("step", |(step, _)| step.name())
        .not_on_phones()
        .number("rate", text::rate, |(step, _)| step.rate_tps)
        .figure("sustained", |(step, excess)| sustained(step, *excess))
        .alarm(|(step, excess)| !step.pause && excess.is_some())
        .number("committed/s", text::number, |(step, _)| step.committed_tps)
        .number("commit p99", text::millis, figure("commit_p99_ms"))
        .count("refused", |(step, _)| refused(step))
        .alarm(|(step, _)| refused(step) > 0)
        .number("commit p50", text::millis, figure("commit_p50_ms"))
        .rest()
        .number("accept p99", text::millis, figure("accept_p99_ms"))
        .rest()
        .number("accept p50", text::millis, figure("accept_p50_ms"))
        .rest()
        .number("lateness p99", text::millis, |(step, _)| {
            step.latency.lateness_p99_ms
        })
        .rest()
        .number("from", text::seconds, |(step, _)| step.start_s)
        .rest()
        .number("offered/s", text::number, |(step, _)| step.offered_tps)
        .rest()
        .number("sent/s", text::number, |(step, _)| step.sent_tps)
        .rest()
        .number("accepted/s", text::number, |(step, _)| step.accepted_tps)
        .rest()
        .figure("backlog", |(step, _)| {
            format!("{} ({:+})", grouped(step.backlog), step.backlog_growth)
        })
        .rest()
        .count("mempool", |(step, _)| step.mempool_txs)
        .rest()
        .table()
}

/// Reasons that are read.
const MAX_REASONS: usize = 20;
/// Rows of a table that still stand on the page as they are.
const MANY: usize = 40;
