//! `txgen compare`: runs side by side, and drawn over each other on a page.

mod render;
mod side;

use std::fs;
use std::path::{Path, PathBuf};

use harness::whole;
use measure::{
    CompareTerms, Difference, Doubts, Gate, LoadField, ScheduleVerdict, SeriesRow, gated,
};
use ops::command::{CommandError, failed, usage};
use report::text::fit;
use report::{CommittedCourse, ComparedSide, Page, Span, Stretch};
use serde_json::Value;

use crate::ci::{Ci, CiReport};
use crate::cli::{CompareArgs, CompareFormat, Share};
use crate::exit;
use crate::output::recorded;

use report::chart::{Axis, Chart, Tone, Unit};
use side::{Side, SideRun};

/// What a comparison found.
pub(crate) struct Comparison {
    /// The first one is what the others are compared with.
    sides: Vec<Side>,
    /// For each of the others.
    found: Vec<Found>,
    terms: CompareTerms,
    /// How it was reached.
    method: Method,
    /// Where its page is written.
    page_folder: PathBuf,
}

/// How a comparison was reached.
enum Method {
    /// Of runs that are there.
    Repeats,
    /// Of runs that were taken in turns: the answer, and how it went.
    Turns { answer: String, course: String },
}

/// What one side was found to be beside the first one.
struct Found {
    doubts: Doubts,
    differences: Vec<Difference>,
    /// The same with the runs that do not count.
    of_all: Vec<Difference>,
}

impl Comparison {
    /// Of two folders of runs that were taken in turns: A's and B's, each with its name and what that stands for.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn of_turns(
        folders: [(PathBuf, String, String); 2],
        terms: &CompareTerms,
        varied: &[LoadField],
        found: impl FnOnce(&Doubts) -> Vec<Difference>,
    ) -> anyhow::Result<Self> {
        let page_folder = folders[0].0.parent().map(Path::to_path_buf);
        let sides = folders.into_iter().map(|(path, name, about)| {
            Ok(Side {
                name,
                about: Some(about),
                ..Side::open(&path)?
            })
        });
        let sides = sides.collect::<anyhow::Result<Vec<_>>>()?;
        let doubts = doubts(&sides[0], &sides[1], varied);
        Ok(Self {
            found: vec![Found {
                differences: found(&doubts),
                of_all: of_all(&sides[0], &sides[1], terms, &doubts),
                doubts,
            }],
            sides,
            terms: terms.clone(),
            method: Method::Turns {
                answer: String::new(),
                course: String::new(),
            },
            page_folder: page_folder.unwrap_or_default(),
        })
    }

    /// With the answer in one sentence, and how it was reached.
    #[must_use]
    pub(crate) fn answered(mut self, answer: String, course: String) -> Self {
        self.method = Method::Turns { answer, course };
        self
    }

    /// Of all sides.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        let differences = self.found.iter().flat_map(|found| &found.differences);
        differences.copied().collect()
    }

    /// In the form that is asked for.
    pub(crate) fn written(&self, format: CompareFormat) -> String {
        match format {
            CompareFormat::Text => fit(&render::text(self)),
            CompareFormat::Md => render::markdown(self),
            CompareFormat::Json => format!("{:#}\n", self.document()),
            CompareFormat::Html => page(self),
        }
    }

    /// Everything for a program.
    pub(crate) fn document(&self) -> Value {
        render::document(self)
    }

    /// Whether the generator of a run was late itself.
    fn is_disturbed(&self) -> bool {
        let mut runs = self.sides.iter().flat_map(|side| &side.runs);
        runs.any(SideRun::is_disturbed)
    }

    /// The other sides beside the first one.
    fn others(&self) -> Vec<ComparedSide<'_>> {
        let base = &self.sides[0];
        let others = self.sides.iter().skip(1).zip(&self.found);
        let compared = others.map(|(side, found)| ComparedSide {
            base: &base.name,
            name: &side.name,
            runs: [base, side].map(|side| side.figures.len()),
            differences: &found.differences,
            of_all: &found.of_all,
        });
        compared.collect()
    }

    /// Whether it decides something.
    fn is_gated(&self) -> bool {
        self.terms.limit.is_some() || matches!(self.method, Method::Turns { .. })
    }

    /// Whether a side has no run that counts.
    fn has_empty_side(&self) -> bool {
        self.sides.iter().any(|side| side.figures.is_empty())
    }

    /// What the limit makes of all sides; without one nothing is open but a side without runs.
    fn gate(&self) -> Gate {
        let gates = || self.found.iter().filter_map(|it| gated(&it.differences));
        let open = self.has_empty_side() || (self.is_gated() && gates().next().is_none());
        match gates().find(|gate| *gate == Gate::Regression) {
            Some(regression) => regression,
            None if open || gates().any(|gate| gate == Gate::Open) => Gate::Open,
            None => Gate::Within,
        }
    }
}

/// Compares and prints; gives the exit code.
///
/// # Errors
/// When a path is no run and no folder of runs, or the output cannot be written.
pub fn execute(args: CompareArgs) -> Result<u8, CommandError> {
    let ci = Ci::open("txgen compare", &args.ci)?;
    ci.conclude(compared(args))
}

fn compared(args: CompareArgs) -> Result<(CiReport, u8), CommandError> {
    let sides = args
        .runs
        .iter()
        .map(|path| Side::open(path))
        .collect::<anyhow::Result<Vec<_>>>()
        .map_err(usage)?;
    let terms = CompareTerms {
        margin: args.margin.as_f64(),
        limit: args.fail_on_regression.map(Share::as_f64),
        metrics: args.judge_by,
    };
    let found = sides.iter().skip(1).map(|other| {
        let doubts = doubts(&sides[0], other, &args.varied);
        Found {
            differences: measure::compare(&sides[0].figures, &other.figures, &terms, &doubts),
            of_all: of_all(&sides[0], other, &terms, &doubts),
            doubts,
        }
    });
    let comparison = Comparison {
        found: found.collect(),
        sides,
        terms,
        method: Method::Repeats,
        page_folder: match args.out.as_deref().and_then(Path::parent) {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        },
    };
    let text = comparison.written(args.format);
    match args.out {
        Some(path) if path.as_os_str() != "-" => {
            whole(fs::write(&path, text), path.display()).map_err(failed)?;
        }
        _ => drop(ops::command::print(text.as_bytes())),
    }
    let code = match comparison.gate() {
        Gate::Regression => exit::THRESHOLD,
        // A script must not take that for "no regression".
        Gate::Open => exit::INVALID,
        Gate::Within => exit::DONE,
    };
    Ok((comparison.for_ci(), code))
}

/// The order of the runs that count; in what the loads differ is known of all runs.
fn doubts(base: &Side, other: &Side, varied: &[LoadField]) -> Doubts {
    let between = |is_counted: fn(&SideRun) -> bool| {
        let [base, other] = [base, other].map(|side| {
            let runs = side.runs.iter().filter(|run| is_counted(run));
            runs.map(|run| &run.manifest).collect::<Vec<_>>()
        });
        Doubts::between(&base, &other, varied)
    };
    Doubts {
        differing: between(|_| true).differing,
        ..between(|run| run.verdict != ScheduleVerdict::Invalid)
    }
}

/// What the differences would be if every run counted; only their figures are shown.
fn of_all(base: &Side, other: &Side, terms: &CompareTerms, doubts: &Doubts) -> Vec<Difference> {
    let [base, other] = [base, other].map(|side| {
        let runs = side.runs.iter();
        runs.map(|run| run.figures.clone()).collect::<Vec<_>>()
    });
    measure::compare(&base, &other, terms, doubts)
}

/// Share and milliseconds of a run.
type Curve = fn(&SideRun) -> &Vec<(f64, f64)>;

fn page(comparison: &Comparison) -> String {
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
