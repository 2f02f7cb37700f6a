//! A comparison as a page, with the runs drawn over each other.

use std::path::{Path, PathBuf};

use measure::SeriesRow;
use report::chart::{Axis, Chart, Tone, Unit};
use report::{CommittedCourse, Page, Span, Stretch};

use super::Comparison;
use super::render;
use super::side::{Side, SideRun};
use crate::output::recorded;

/// Share and milliseconds of a run.
type Curve = fn(&SideRun) -> &Vec<(f64, f64)>;

pub(super) fn page(comparison: &Comparison) -> String {
    let sides = &comparison.sides;
    let names: Vec<String> = sides.iter().map(Side::title).collect();
    let mut page = Page::new(&format!("Compared: {}", names.join(", ")));
    page.headline(&render::headline(comparison));
    page.push(&render::abouts(comparison).html());
    for difference in render::differing(comparison) {
        page.paragraph(&format!("Between the sides {difference}."));
    }
    page.links(&links(comparison));
    for side in comparison.others() {
        page.section(&side.heading(), &(side.forest() + &side.table().html()));
    }
    page.section(
        "What is compared, and how",
        &render::preface(comparison).html(),
    );
    page.section("Over time", &Page::grid(over_time(comparison)));
    let curves: [(&str, Curve); 2] = [
        ("Response time (accepted − due)", |run| &run.accept),
        ("Commit (committed − due)", |run| &run.commit),
    ];
    let percentiles = curves.map(|(title, curve)| {
        let latency = Axis::log("", Unit::Millis);
        let chart = Chart::new(title, Axis::percentile(), latency);
        drawn(comparison, chart, |chart, name, tone, run| {
            chart.line(name, tone, curve(run).iter().copied())
        })
    });
    page.section("By percentile", &Page::grid(percentiles));
    page.html()
}

/// The page of each side that is a campaign or a search, and the report of each run, as seen from where
/// the page is written.
fn links(comparison: &Comparison) -> Vec<(String, String)> {
    let sides = || comparison.sides.iter();
    let folders = sides().filter(|side| side.runs.len() > 1);
    let folders = folders.map(|side| (PathBuf::from(&side.name), format!("all of {}", side.name)));
    let runs = sides().flat_map(|side| &side.runs);
    let runs = runs.map(|run| (run.path.clone(), format!("report of {}", run.title())));
    let link = |(folder, text): (PathBuf, String)| {
        let report = folder.join(recorded::FILE).canonicalize().ok()?;
        let to = from_folder(&comparison.page_folder.canonicalize().ok()?, &report);
        Some((to, text))
    };
    let help = comparison.is_disturbed();
    let help = help.then(report::busy_machine_link);
    folders.chain(runs).filter_map(link).chain(help).collect()
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

/// Two rates as steps, and two other courses; the drain is left out.
fn over_time(comparison: &Comparison) -> [String; 4] {
    type Rate = fn(&Stretch<'_>, &CommittedCourse) -> Span;
    type Value = fn(&SeriesRow) -> Option<f64>;
    let runs = || comparison.sides.iter().flat_map(|side| &side.runs);
    let end_s = runs().map(|run| run.offered_s).fold(0.0, f64::max);
    let rates = |title, of: Rate| {
        let axis = Axis::linear("per second", Unit::PerSecond);
        let chart = Chart::new(title, Axis::time().to(end_s), axis);
        drawn(comparison, chart, |chart, name, tone, run| {
            let course = CommittedCourse::of_blocks(&run.blocks);
            let spans = offered(run);
            chart.steps(name, tone, spans.iter().map(|it| of(it, &course)))
        })
    };
    let values = |title, axis, of: Value| {
        let chart = Chart::new(title, Axis::time().to(end_s), axis);
        drawn(comparison, chart, |chart, name, tone, run| {
            chart.line(name, tone, offered(run).iter().map(|it| it.mean(of)))
        })
    };
    let count = Axis::linear("transactions", Unit::Number);
    let latency = Axis::linear("p50", Unit::Millis);
    [
        rates("Committed", |it, course| it.committed(course)),
        rates("Accepted", |it, _| it.rate(|row| row.counts.accepted)),
        values("Commit from due, median", latency, |row| {
            row.latency.commit_p50_ms
        }),
        // A sample beside a block may be of a full mempool or of an empty one.
        values("Mempool, the most of a second", count, |row| {
            row.mempool_max.max(row.mempool_txs).map(|txs| txs as f64)
        }),
    ]
}

/// The stretches of a run while it was offered.
fn offered(run: &SideRun) -> Vec<Stretch<'_>> {
    let all = Stretch::all(&run.series, MAX_POINTS, run.offered_s);
    let offered = all.into_iter().filter(|it| it.is_offered(run.offered_s));
    offered.collect()
}

/// Adds the layer of each run, in the colour of its side.
fn drawn(
    comparison: &Comparison,
    mut chart: Chart,
    add: impl Fn(Chart, &str, Tone, &SideRun) -> Chart,
) -> String {
    for (number, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            chart = add(chart, &side.name, Tone::Nth(number), run);
        }
    }
    chart.html()
}

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
