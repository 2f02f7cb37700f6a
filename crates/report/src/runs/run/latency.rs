//! Latencies: over time, by percentile as HdrHistogram's plots show it, the generator's own, and the plots of BEP-23.

use measure::{Latency, LatencyKind, LoadModel, Quantiles, Window, WorstOf};

use super::RunReport;
use super::load::MAX_POINTS;
use crate::chart::{Axis, Bar, Chart, Tone, Unit};
use crate::page::tag;
use crate::runs::bep23::{DelayFigures, SecondFigures};
use crate::runs::run;
use crate::{Page, Stretch, Table, text};

pub(super) fn course(report: &RunReport) -> String {
    Page::grid([
        heat(report, LatencyKind::CommitFromDue, "Due to committed"),
        heat(report, LatencyKind::AcceptResponse, "Due to accepted"),
    ])
}

fn heat(report: &RunReport, kind: LatencyKind, title: &str) -> String {
    let axis = Axis::log("latency", Unit::Millis);
    let mut chart = report.over_time(title, axis).tall();
    if let Some(drawn) = report.course.drawn(kind)
        && !drawn.map.is_empty()
    {
        let column = text::seconds(report.course.column_s());
        let names = [("p50", Tone::P50), ("p95", Tone::P95), ("p99", Tone::P99)];
        let lines = names.into_iter().zip(&drawn.lines);
        chart = chart.heat("how many", Tone::Heat, drawn.map.clone());
        chart = lines.fold(chart, |chart, ((name, tone), points)| {
            chart.line(name, tone, points.iter().copied())
        });
        chart = chart.note(&format!(
            "Counted when it happened, in columns of {column}; the stronger the colour, the more."
        ));
    }
    chart.html()
}

pub(super) fn percentiles(report: &RunReport) -> String {
    let curve = |kind| quantile_curve(report.course.sum().of(kind));
    let response = curve(LatencyKind::AcceptResponse);
    let service = curve(LatencyKind::AcceptService);
    let accept = by_percentile("Accepted: response and service time", "latency")
        .line("response (due to accepted)", Tone::P99, response)
        .line("service (sent to accepted)", Tone::Sent, service)
        .note(
            "Response time counts from the due time, service time from the send: where they part, transactions waited before they left.",
        );
    let resolution = report.summary.blocks.resolution();
    let resolution = resolution.map_or(String::new(), |words| format!(" {words}."));
    let committed = curve(LatencyKind::CommitFromDue);
    let commit = by_percentile("Committed", "latency")
        .line("due to committed", Tone::Committed, committed)
        .note(&format!(
            "From the due time to the first sight of the block. What had not ended counts with its age.{resolution}"
        ));
    Page::grid([accept.html(), commit.html()]) + &table(report).html()
}

fn by_percentile(title: &str, label: &str) -> Chart {
    Chart::new(title, Axis::percentile(), Axis::log(label, Unit::Millis))
}

/// The six latencies in figures.
pub(super) fn table(report: &RunReport) -> Table {
    let latency = &report.summary.latency_ms;
    let figures = LatencyKind::ALL.map(|kind| latency.of(kind));
    let table = Table::of(LABELS.into_iter().zip(figures)).text("latency", |row| row.0);
    let table = Quantiles::NAMES.into_iter().fold(table, |table, name| {
        let heading = name.replace('_', ".");
        let table = table.number(&heading, text::millis, |row| row.1.figure(name));
        match name {
            "p50" | "p95" | "p99" => table,
            "max" => table.not_on_phones(),
            _ => table.rest(),
        }
    });
    let table = table.count("count", |row| row.1.count).rest();
    let table = table.count("unfinished", |row| row.1.censored);
    table.rest().table()
}

/// What the latencies are called, in the order of [`LatencyKind::ALL`].
const LABELS: [&str; LatencyKind::ALL.len()] = [
    "lateness (due to sent)",
    "accept, response (due to accepted)",
    "accept, service (sent to accepted)",
    "commit (due to committed)",
    "commit (sent to committed)",
    "commit (accepted to committed)",
];

/// Lateness, the processor's share, and the verdict.
pub(super) fn generator(report: &RunReport) -> String {
    run::schedule(report) + &lateness(report)
}

fn lateness(report: &RunReport) -> String {
    if report.summary.model == LoadModel::Closed {
        return tag(
            "p",
            "A closed loop has no due times, so nothing can be late.",
        );
    }
    let offered_s = report.summary.time.offered_s;
    let stretches = Stretch::all(&report.series, MAX_POINTS, offered_s);
    let p99 = stretches
        .iter()
        .map(|stretch| stretch.highest(|row| positive(row.latency.lateness_p99_ms)));
    let longest = stretches
        .iter()
        .map(|stretch| stretch.highest(|row| positive(row.latency.lateness_max_ms)));
    let time = report
        .over_time(
            "Due to sent, over time",
            Axis::log("lateness", Unit::Millis),
        )
        .line("p99 of the second", Tone::P95, p99)
        .line("longest of the second", Tone::P99, longest);
    let lateness = quantile_curve(report.course.sum().of(LatencyKind::Lateness));
    let spread = by_percentile("Due to sent, by percentile", "lateness").line(
        "lateness",
        Tone::Sent,
        lateness,
    );
    let tables = [
        ("Late by more than 1 ms", causes(report)),
        (
            "The windows that deviate most from the plan",
            windows(report),
        ),
    ]
    .map(|(heading, table)| {
        if table.is_empty() {
            String::new()
        } else {
            tag("h3", heading) + &table.html()
        }
    });
    let charts = [time.html(), spread.html()].into_iter();
    Page::grid(charts.chain(processor(report))) + &tables.concat()
}

/// What the generator took of its machine.
fn processor(report: &RunReport) -> Option<String> {
    let seconds = report.series.iter();
    let spans = seconds.filter_map(|row| {
        let from = row.second as f64;
        Some((from, from + row.span_s, row.generator_cpu?))
    });
    let spans: Vec<_> = spans.collect();
    if spans.is_empty() {
        return None;
    }
    let cores = f64::from(report.manifest.host.cpus);
    let busiest = spans.iter().map(|span| span.2).fold(0.0, f64::max);
    let chart = report
        .over_time(
            "Processor time of the generator",
            Axis::linear("cores", Unit::Number),
        )
        .note(if report.manifest.endpoints.iter().any(|it| it.built_in) {
            "Of the whole process, the built-in node included."
        } else {
            "Of the whole process."
        })
        .steps("used", Tone::Sent, spans);
    Some(if busiest > cores / 2.0 {
        chart.level(cores, "all there are").html()
    } else {
        chart.html()
    })
}

/// A logarithmic axis has no zero.
fn positive(value: Option<f64>) -> Option<f64> {
    value.map(|value| value.max(0.001))
}

fn causes(report: &RunReport) -> Table {
    let late = &report.summary.late;
    let sent = report.summary.offered.sent.max(1) as f64;
    let more = "no connection was free; more of them would carry more";
    Table::of([
        (
            "schedule",
            late.causes.schedule,
            "the generator's thread did not run",
        ),
        (
            "source",
            late.causes.source,
            "the transaction was not ready",
        ),
        ("connection", late.causes.connection, more),
        (
            "node",
            late.causes.node,
            "the connections waited for the node",
        ),
    ])
    .text("cause", |row| row.0)
    .count("transactions", |row| row.1)
    .number("of sent", text::percent, |row| row.1 as f64 / sent)
    .text("meaning", |row| row.2)
    .table()
}

fn windows(report: &RunReport) -> Table {
    let windows = &report.summary.windows;
    let rows = worst("10 ms", &windows.ms_10).chain(worst("1 s", &windows.s_1));
    Table::of(rows)
        .text("window", |row| row.0)
        .figure("deviation", |row| row.1.clone())
        .figure("at", |row| format!("{} s", row.2.start_ms as f64 / 1e3))
        .count("planned", |row| row.2.planned)
        .count("sent", |row| row.2.sent)
        .table()
}

/// The worst windows of one size, each with how it deviates.
fn worst<'a>(
    size: &'a str,
    worst: &WorstOf,
) -> impl Iterator<Item = (&'a str, String, Window)> + use<'a> {
    let ratios = [worst.highest_ratio, worst.lowest_ratio].into_iter();
    let ratios = ratios.flatten().map(move |window| {
        let ratio = format!("{:.2} × the plan", window.ratio());
        (size, ratio, window)
    });
    let differences = [worst.most_over, worst.most_under].into_iter();
    ratios.chain(differences.flatten().map(move |window| {
        let difference = window.sent.cast_signed() - window.planned.cast_signed();
        (size, format!("{difference:+} transactions"), window)
    }))
}

pub(super) fn bep23(report: &RunReport) -> String {
    let Some(bep23) = &report.bep23 else {
        return String::new();
    };
    let (accept, finalize) = (Tone::Accepted, Tone::Committed);
    let charts = [
        delays("Accept: from send to answer", accept, &bep23.accept),
        seconds("Accepted in each second", accept, &bep23.accepted),
        delays("Finalize: from answer to block", finalize, &bep23.finalize),
        seconds("Finalized in each second", finalize, &bep23.finalized),
    ];
    let note = "<p class=\"note\">By the rules of the original: time begins with the first send, seconds are rounded half to even, the last one is left out when it rounds up. <code>txgen report RUN --format bep23</code> prints the figures.</p>";
    note.to_owned() + &Page::grid(charts)
}

fn delays(title: &str, tone: Tone, figures: &DelayFigures) -> String {
    let bars = figures.histogram.iter().map(|(from, to, count)| Bar {
        from: *from,
        to: *to,
        height: *count as f64,
    });
    let delay = Axis::linear("seconds", Unit::Seconds).from(None);
    let count = Axis::linear("transactions", Unit::Number);
    let mut chart = Chart::new(title, delay, count).bars("", tone, bars);
    if let (Some(p68), Some(p95), Some(p99_7)) = (figures.p68, figures.p95, figures.p99_7) {
        let [p68, p95, p99_7] = [p68, p95, p99_7].map(text::seconds);
        chart = chart.note(&format!(
            "68 % within {p68}, 95 % within {p95}, 99.7 % within {p99_7}."
        ));
    }
    chart.html()
}

fn seconds(title: &str, tone: Tone, figures: &SecondFigures) -> String {
    let step = figures.counts.len().div_ceil(MAX_DOTS).max(1);
    let points = figures.counts.iter().enumerate().step_by(step);
    let points = points.map(|(second, count)| (second as f64, f64::from(*count)));
    let every = match step {
        1 => String::new(),
        _ => format!(" Drawn is every {step}th second."),
    };
    let time = Axis::linear("seconds since the first send", Unit::Time);
    let count = Axis::linear("transactions", Unit::Number);
    let [median, mean] = [figures.median, figures.mean].map(text::number);
    Chart::new(title, time, count)
        .dots("", tone, points)
        .note(&format!("Median {median}, mean {mean} per second.{every}"))
        .html()
}

/// Dots of a scatter plot at most.
const MAX_DOTS: usize = 4_000;

/// Share and milliseconds, evenly spread by the number of nines, as far as the count carries.
pub fn quantile_curve(latency: &Latency) -> Vec<(f64, f64)> {
    if latency.is_empty() {
        return Vec::new();
    }
    let last = (latency.count() as f64).log10().clamp(0.1, MAX_NINES);
    let mut points: Vec<(f64, f64)> = (0..POINTS)
        .filter_map(|point| {
            let nines =
                FIRST_NINES + (last - FIRST_NINES) * f64::from(point) / f64::from(POINTS - 1);
            let share = 1.0 - 10_f64.powf(-nines);
            let value = latency.quantile(share)?;
            Some((share, value.as_millis_f64()))
        })
        .collect();
    if let (Some(last), Some(max)) = (points.last_mut(), latency.max()) {
        last.1 = max.as_millis_f64();
    }
    for point in &mut points {
        point.1 = point.1.max(LOWEST_MS);
    }
    points
}

const POINTS: u32 = 160;
const MAX_NINES: f64 = 7.0;
/// 10 %: below it a single fast one would add decades to the axis.
const FIRST_NINES: f64 = 0.0458;
/// A logarithmic axis has no zero, and the stamps of a sender are no finer.
const LOWEST_MS: f64 = 0.01;

#[cfg(test)]
mod tests {
    use pacing::Nanos;

    use super::*;

    #[test]
    fn it_rises_to_the_exact_maximum_at_the_last_nine_that_the_count_carries() {
        let mut latency = Latency::new();
        (1..=1_000).for_each(|n| latency.record(Nanos::from_millis(n)));
        let points = quantile_curve(&latency);
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        let last = points.last().unwrap();
        assert!((last.0 - 0.999).abs() < 1e-9);
        assert_eq!(last.1, 1_000.0);
        assert!(quantile_curve(&Latency::new()).is_empty());
    }
}
