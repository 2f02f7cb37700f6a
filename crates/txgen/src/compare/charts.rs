//! A comparison as a page, with the runs drawn over each other.

use measure::SeriesRow;
use report::chart::{Axis, Chart, Tone, Unit};
use report::{CommittedCourse, Page, Stretch};

use super::Comparison;
use super::render;
use super::side::SideRun;

/// Share and milliseconds of a run.
type Curve = fn(&SideRun) -> &Vec<(f64, f64)>;

pub(super) fn page(comparison: &Comparison) -> String {
    let sides = &comparison.sides;
    let names: Vec<String> = sides.iter().map(super::side::Side::title).collect();
    let mut page = Page::new(&format!("Compared: {}", names.join(", ")));
    for line in render::preface(comparison).lines() {
        page.paragraph(line);
    }
    let verdict = render::verdict(comparison);
    if !verdict.is_empty() {
        page.paragraph(verdict.trim());
    }
    for (heading, table) in render::tables(comparison) {
        page.section(&heading, &table.html());
    }
    page.section("Over time", &Page::grid(over_time(comparison)));
    let curves: [(&str, Curve); 2] = [
        ("Response time (accepted − due)", |run| &run.accept),
        ("Commit (committed − due)", |run| &run.commit),
    ];
    let percentiles = curves.map(|(title, curve)| {
        let latency = Axis::log("", Unit::Millis);
        let chart = Chart::new(title, Axis::percentile(), latency);
        lines(comparison, chart, |run| curve(run).clone())
    });
    page.section("By percentile", &Page::grid(percentiles));
    page.html()
}

fn over_time(comparison: &Comparison) -> [String; 4] {
    let chart = |title, axis, point: &dyn Fn(&Stretch<'_>, &CommittedCourse) -> (f64, f64)| {
        let chart = Chart::new(title, Axis::time(), axis);
        lines(comparison, chart, |run| {
            let course = CommittedCourse::of_series(&run.series);
            let stretches = Stretch::all(&run.series, MAX_POINTS);
            stretches.iter().map(|it| point(it, &course)).collect()
        })
    };
    let accepted = |row: &SeriesRow| row.counts.accepted;
    let mempool = |row: &SeriesRow| row.mempool_txs.map(|txs| txs as f64);
    let rate = |label| Axis::linear(label, Unit::PerSecond);
    let count = Axis::linear("transactions", Unit::Number);
    let latency = Axis::linear("p50", Unit::Millis);
    [
        chart("Committed", rate("committed"), &|it, course| {
            it.committed(course)
        }),
        chart("Accepted", rate("accepted"), &|it, _| it.rate(accepted)),
        chart("Commit from due, median", latency, &|it, _| {
            it.mean(|row| row.latency.commit_p50_ms)
        }),
        chart("Mempool", count, &|it, _| it.mean(mempool)),
    ]
}

/// Adds one line for each run, in the colour of its side.
fn lines(
    comparison: &Comparison,
    mut chart: Chart,
    points: impl Fn(&SideRun) -> Vec<(f64, f64)>,
) -> String {
    for (number, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            chart = chart.line(&side.name, Tone::Nth(number), points(run));
        }
    }
    chart.html()
}

/// More than a screen has columns for.
const MAX_POINTS: usize = 600;
