//! `txgen compare`: runs side by side.

mod charts;
mod ci;
mod render;
mod side;

use std::fs;
use std::path::{Path, PathBuf};

use harness::whole;
use measure::{CompareTerms, Difference, Doubts, Gate, LoadField, ScheduleVerdict, gated};
use ops::command::{CommandError, failed, usage};
use report::ComparedSide;
use report::text::fit;
use serde_json::Value;

use crate::ci::{Ci, CiReport};
use crate::cli::{CompareArgs, CompareFormat, Share};
use crate::exit;

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
            CompareFormat::Html => charts::page(self),
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
