//! Latencies: over time, by percentile, and the generator's own.

use super::RunReport;
use super::load::Stretch;
use super::quantile_plot::curve;
use crate::chart::{Axis, Chart, Tone, Unit};
use crate::text::{self, grouped};
use crate::{Cell, Page, Table};
use measure::LatencyKind;
use measure::LoadModel;
use measure::{Window, WorstOf};

pub(super) fn course(report: &RunReport) -> String {
    let charts = [
        (LatencyKind::CommitFromDue, "Due to committed"),
        (LatencyKind::AcceptResponse, "Due to accepted"),
    ]
    .map(|(kind, title)| heat(report, kind, title));
    Page::grid(charts)
}

fn heat(report: &RunReport, kind: LatencyKind, title: &str) -> String {
    let mut chart = Chart::new(
        title,
        Axis::time().to(report.summary.time.ended_s),
        Axis::log("latency", Unit::Millis),
    )
    .tall();
    if let Some(drawn) = report.course.drawn(kind)
        && !drawn.map.is_empty()
    {
        chart = chart
            .heat("how many", Tone::Heat, drawn.map.clone())
            .line("p50", Tone::P50, drawn.p50.iter().copied())
            .line("p95", Tone::P95, drawn.p95.iter().copied())
            .line("p99", Tone::P99, drawn.p99.iter().copied())
            .note(&format!(
                "Counted when it happened, in columns of {}; the stronger the colour, the more.",
                text::seconds(report.course.column_s())
            ));
    }
    chart.marks(report.marks()).html()
}

pub(super) fn percentiles(report: &RunReport) -> String {
    let plot = |title: &str, note: &str, kinds: &[(LatencyKind, &str, Tone)]| {
        let mut chart = Chart::new(
            title,
            Axis::percentile(),
            Axis::log("latency", Unit::Millis),
        )
        .note(note);
        for (kind, name, tone) in kinds {
            chart = chart.line(name, *tone, curve(report.course.sum().of(*kind)));
        }
        chart.html()
    };
    let accept = plot(
        "Accepted: response and service time",
        "Response time counts from the due time, service time from the send: where they part, transactions waited before they left.",
        &[
            (
                LatencyKind::AcceptResponse,
                "response (due to accepted)",
                Tone::P99,
            ),
            (
                LatencyKind::AcceptService,
                "service (sent to accepted)",
                Tone::Sent,
            ),
        ],
    );
    let commit = plot(
        "Committed",
        "From the due time to the first sight of the block.",
        &[(
            LatencyKind::CommitFromDue,
            "due to committed",
            Tone::Committed,
        )],
    );
    format!("{}{}", Page::grid([accept, commit]), table(report).html())
}

/// The six latencies in figures.
pub(super) fn table(report: &RunReport) -> Table {
    let latency = &report.summary.latency_ms;
    let mut table = Table::new([
        "latency", "p50", "p68", "p95", "p99", "p99.7", "max", "mean", "count",
    ]);
    for (name, figures) in [
        ("lateness (due to sent)", &latency.lateness),
        (
            "accept, response (due to accepted)",
            &latency.accept_response,
        ),
        (
            "accept, service (sent to accepted)",
            &latency.accept_service,
        ),
        ("commit (due to committed)", &latency.commit_from_due),
        ("commit (sent to committed)", &latency.commit_from_sent),
        (
            "commit (accepted to committed)",
            &latency.commit_from_accepted,
        ),
    ] {
        let values = [
            figures.p50,
            figures.p68,
            figures.p95,
            figures.p99,
            figures.p99_7,
            figures.max,
            figures.mean,
        ];
        let cells = values.map(|value| Cell::figure(text::or_dash(value, text::millis)));
        let name = std::iter::once(Cell::text(name));
        let count = std::iter::once(Cell::figure(grouped(figures.count)));
        table.row(name.chain(cells).chain(count));
    }
    table
}

pub(super) fn lateness(report: &RunReport) -> String {
    if report.summary.model == LoadModel::Closed {
        return "<p>A closed loop has no due times, so nothing can be late.</p>".to_owned();
    }
    let stretches = Stretch::all(&report.series);
    let time = Chart::new(
        "Due to sent, over time",
        Axis::time().to(report.summary.time.ended_s),
        Axis::log("lateness", Unit::Millis),
    )
    .line(
        "p99 of the second",
        Tone::P95,
        stretches
            .iter()
            .map(|s| s.highest(|row| positive(row.lateness_p99_ms))),
    )
    .line(
        "longest of the second",
        Tone::P99,
        stretches
            .iter()
            .map(|s| s.highest(|row| positive(row.lateness_max_ms))),
    )
    .marks(report.marks())
    .html();
    let spread = Chart::new(
        "Due to sent, by percentile",
        Axis::percentile(),
        Axis::log("lateness", Unit::Millis),
    )
    .line(
        "lateness",
        Tone::Sent,
        curve(report.course.sum().of(LatencyKind::Lateness)),
    )
    .html();
    format!(
        "{}{}",
        Page::grid([time, spread]),
        Page::grid([
            format!(
                "<div><h3>Late by more than 1 ms</h3>{}</div>",
                causes(report).html()
            ),
            windows(report)
        ])
    )
}

/// A logarithmic axis has no zero.
fn positive(value: Option<f64>) -> Option<f64> {
    value.map(|value| value.max(0.001))
}

fn causes(report: &RunReport) -> Table {
    let late = &report.summary.late;
    let sent = report.summary.offered.sent.max(1) as f64;
    let mut table = Table::new(["cause", "transactions", "of sent", "meaning"]);
    for (name, count, meaning) in [
        (
            "schedule",
            late.schedule,
            "the generator's thread did not run",
        ),
        ("source", late.source, "the transaction was not ready"),
        (
            "connection",
            late.connection,
            "no connection was free; more of them would carry more",
        ),
        ("node", late.node, "the connections waited for the node"),
    ] {
        table.row([
            Cell::text(name),
            Cell::figure(grouped(count)),
            Cell::figure(text::percent(count as f64 / sent)),
            Cell::text(meaning),
        ]);
    }
    table
}

fn windows(report: &RunReport) -> String {
    let mut table = Table::new(["window", "deviation", "at", "planned", "sent"]);
    for (size, worst) in [
        ("10 ms", &report.summary.windows.ms_10),
        ("1 s", &report.summary.windows.s_1),
    ] {
        add_windows(&mut table, size, worst);
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<div><h3>The windows that deviate most from the plan</h3>{}</div>",
        table.html()
    )
}

fn add_windows(table: &mut Table, size: &str, worst: &WorstOf) {
    let ratio = |window: &Window| format!("{:.2} × the plan", window.ratio());
    let difference = |window: &Window| {
        let difference = window.sent.cast_signed() - window.planned.cast_signed();
        format!("{difference:+} transactions")
    };
    let mut row = |window: Option<Window>, deviation: &dyn Fn(&Window) -> String| {
        if let Some(window) = window {
            table.row([
                Cell::text(size),
                Cell::figure(deviation(&window)),
                Cell::figure(format!("{} s", window.start_ms as f64 / 1e3)),
                Cell::figure(grouped(window.planned)),
                Cell::figure(grouped(window.sent)),
            ]);
        }
    };
    row(worst.highest_ratio, &ratio);
    row(worst.lowest_ratio, &ratio);
    row(worst.most_over, &difference);
    row(worst.most_under, &difference);
}
