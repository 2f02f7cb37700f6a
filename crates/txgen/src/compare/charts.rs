//! A comparison as a page, with the runs drawn over each other.

use measure::SeriesRow;
use report::chart::{Axis, Chart, Tone, Unit};
use report::{Cell, CommittedCourse, Page, Table};

use super::Comparison;
use super::render::{self, Row};
use super::side::SideRun;

pub(super) fn page(comparison: &Comparison) -> String {
    let names: Vec<String> = comparison
        .sides
        .iter()
        .map(super::side::Side::title)
        .collect();
    let mut page = Page::new(&format!("Compared: {}", names.join(", ")));
    for line in render::preface(comparison).lines() {
        page.paragraph(line);
    }
    let verdict = render::verdict(comparison);
    if !verdict.is_empty() {
        page.paragraph(verdict.trim());
    }
    for (side, differences, drawn) in comparison.others() {
        let mut table = Table::new(["metric", "before", "after", "change", "95 % interval", ""]);
        for difference in differences {
            let row = Row::new(comparison, difference);
            let meaning = match comparison.is_regression(difference) {
                true => Cell::Alarm(row.meaning),
                false => Cell::text(row.meaning),
            };
            table.row([
                Cell::text(row.metric),
                Cell::figure(row.base),
                Cell::figure(row.other),
                Cell::figure(row.change),
                Cell::figure(row.interval),
                meaning,
            ]);
        }
        let heading = format!(
            "{} against {} ({})",
            side.title(),
            names[0],
            render::drawn_words(drawn)
        );
        page.section(&heading, &table.html());
    }
    let charts = [
        over_time(
            comparison,
            "Committed",
            Axis::linear("committed", Unit::PerSecond),
            committed,
        ),
        over_time(
            comparison,
            "Accepted",
            Axis::linear("accepted", Unit::PerSecond),
            |series| thinned(series, |row| row.accepted as f64),
        ),
        over_time(
            comparison,
            "Commit from due, median",
            Axis::linear("p50", Unit::Millis),
            |series| thinned(series, |row| row.commit_p50_ms.unwrap_or(f64::NAN)),
        ),
        over_time(
            comparison,
            "Mempool",
            Axis::linear("transactions", Unit::Number),
            |series| {
                thinned(series, |row| {
                    row.mempool_txs.map_or(f64::NAN, |txs| txs as f64)
                })
            },
        ),
    ];
    page.section("Over time", &Page::grid(charts));
    let percentiles = [
        by_percentile(comparison, "Response time (accepted − due)", |run| {
            &run.accept
        }),
        by_percentile(comparison, "Commit (committed − due)", |run| &run.commit),
    ];
    page.section("By percentile", &Page::grid(percentiles));
    page.html()
}

/// One line for each run, in the colour of its side.
fn over_time(
    comparison: &Comparison,
    title: &str,
    axis: Axis,
    points: impl Fn(&[SeriesRow]) -> Vec<(f64, f64)>,
) -> String {
    let mut chart = Chart::new(title, Axis::time(), axis);
    for (number, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            chart = chart.line(&side.name, Tone::Nth(number), points(&run.series));
        }
    }
    chart.html()
}

fn by_percentile(
    comparison: &Comparison,
    title: &str,
    curve: impl Fn(&SideRun) -> &Vec<(f64, f64)>,
) -> String {
    let mut chart = Chart::new(title, Axis::percentile(), Axis::log("", Unit::Millis));
    for (number, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            chart = chart.line(&side.name, Tone::Nth(number), curve(run).iter().copied());
        }
    }
    chart.html()
}

/// Commits per second as if a block's came evenly since the one before.
fn committed(series: &[SeriesRow]) -> Vec<(f64, f64)> {
    let course = CommittedCourse::of_series(series);
    let each = series.len().div_ceil(MAX_POINTS).max(1);
    series
        .chunks(each)
        .map(|rows| {
            let begin = rows[0].second as f64;
            let last = &rows[rows.len() - 1];
            (begin, course.rate(begin, last.second as f64 + last.span_s))
        })
        .collect()
}

/// Means of so many seconds that few enough points are left.
fn thinned(series: &[SeriesRow], value: impl Fn(&SeriesRow) -> f64) -> Vec<(f64, f64)> {
    let each = series.len().div_ceil(MAX_POINTS).max(1);
    series
        .chunks(each)
        .map(|rows| {
            let known: Vec<f64> = rows
                .iter()
                .map(&value)
                .filter(|value| value.is_finite())
                .collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            (rows[0].second as f64, mean)
        })
        .collect()
}

/// More than a screen has columns for.
const MAX_POINTS: usize = 600;
