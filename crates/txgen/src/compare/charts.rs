//! A comparison as a page, with the runs drawn over each other.

use std::path::Path;

use measure::SeriesRow;
use report::chart::{Axis, Chart, ForestRow, Tone, Unit, forest};
use report::{CommittedCourse, Page, Span, Stretch};

use super::Comparison;
use super::render;
use super::side::SideRun;
use crate::output::recorded;

/// Share and milliseconds of a run.
type Curve = fn(&SideRun) -> &Vec<(f64, f64)>;

pub(super) fn page(comparison: &Comparison) -> String {
    let sides = &comparison.sides;
    let names: Vec<String> = sides.iter().map(super::side::Side::title).collect();
    let mut page = Page::new(&format!("Compared: {}", names.join(", ")));
    page.headline(render::headline(comparison).trim());
    for line in render::preface(comparison).lines() {
        page.paragraph(line);
    }
    page.links(&links(comparison));
    for (forest, (heading, table)) in forests(comparison).zip(render::tables(comparison)) {
        page.section(&heading, &(forest + &table.html()));
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

/// The report of each run, as seen from where the page is written.
fn links(comparison: &Comparison) -> Vec<(String, String)> {
    let runs = comparison.sides.iter().flat_map(|side| &side.runs);
    let link = |run: &SideRun| {
        let report = run.path.join(recorded::FILE);
        let report = report.canonicalize().ok()?;
        let to = from_folder(&comparison.page_folder.canonicalize().ok()?, &report);
        Some((to, format!("report of {}", run.name)))
    };
    runs.filter_map(link).collect()
}

/// The way from a folder to a file, both absolute.
fn from_folder(folder: &Path, file: &Path) -> String {
    let common = folder.components().zip(file.components());
    let common = common.take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| "..".into());
    let down = file.components().skip(common);
    let down = down.map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<String>>().join("/")
}

/// For each of the other sides its changes and their intervals.
fn forests(comparison: &Comparison) -> impl Iterator<Item = String> {
    comparison.others().map(|(_, differences)| {
        let rows: Vec<ForestRow> = differences.iter().filter_map(render::forest_row).collect();
        let about = "The dot is the change, the stroke its interval; where the stroke crosses the line in \
                     the middle, no difference is shown.";
        match rows.is_empty() {
            true => String::new(),
            false => forest("Changes and their intervals", about, &rows, WIDEST_CHANGE),
        }
    })
}

fn over_time(comparison: &Comparison) -> [String; 4] {
    let chart = |title, axis, point: &dyn Fn(&Stretch<'_>, &CommittedCourse) -> (f64, f64)| {
        let chart = Chart::new(title, Axis::time(), axis);
        lines(comparison, chart, |run| {
            let course = CommittedCourse::of_series(&run.series);
            let stretches = Stretch::all(&run.series, MAX_POINTS, run.offered_s);
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
            middle(it.committed(course))
        }),
        chart("Accepted", rate("accepted"), &|it, _| {
            middle(it.rate(accepted))
        }),
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

const fn middle((from, to, rate): Span) -> (f64, f64) {
    (f64::midpoint(from, to), rate)
}

/// What changed by more than this has changed; how much is in the table.
const WIDEST_CHANGE: f64 = 1.0;
/// More than a screen has columns for.
const MAX_POINTS: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_links_to_reports_wherever_it_is_written() {
        let way = |folder: &str, file: &str| from_folder(Path::new(folder), Path::new(file));
        assert_eq!(way("/a/b", "/a/b/run/report.html"), "run/report.html");
        assert_eq!(
            way("/a/out", "/a/runs/x/report.html"),
            "../runs/x/report.html"
        );
        assert_eq!(way("/", "/x/report.html"), "x/report.html");
    }
}
