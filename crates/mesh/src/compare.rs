//! `txmesh compare`: the same load on several protocols, in turns, and what differs.

use std::path::Path;

use harness::{RunFolder, Shutdown, default_folder, exit, note, print};
use measure::{Change, ScheduleVerdict, ValueDifference, Values, compare_values};
use ops::command::{CommandError, failed, usage};
use report::text::{number, or_dash, percent_tenths};
use report::{Page, Table, verdict_name, verdict_words};
use serde_json::{Map, Value, json};

use super::load::MeshLoad;
use super::plan::MeshPlan;
use super::summary::MeshSummary;
use super::table;
use crate::cli::CompareArgs;

/// One of the things that are compared, with its runs.
struct Side {
    name: String,
    plan: MeshPlan,
    runs: Vec<MeshSummary>,
}

/// A figure that is compared.
struct Metric {
    name: &'static str,
    /// More is better.
    is_gain: bool,
    of: fn(&MeshSummary) -> Option<f64>,
}

/// What was found.
struct Comparison<'a> {
    sides: &'a [Side],
    /// For each side but the first, a difference for each metric.
    differences: Vec<Vec<ValueDifference>>,
}

/// Plays all runs and prints what differs; gives the exit code.
///
/// # Errors
/// With exit code 2 when the command line is at fault, 1 when a run fails.
pub(super) fn execute(args: CompareArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let margin = args.margin.as_f64();
    let repeats = args.repeats.get();
    let mut sides = sides(args).map_err(usage)?;
    let out = sides[0].plan.out.take();
    let folder = RunFolder::create(out.unwrap_or_else(|| default_folder("mesh-compare")));
    let folder = folder.map_err(usage)?;
    for round in 0..repeats {
        let mut turn: Vec<usize> = (0..sides.len()).collect();
        // Forth and back, so that what drifts (heat, other guests) meets all alike.
        if round % 2 == 1 {
            turn.reverse();
        }
        for place in turn {
            if shutdown.is_requested() {
                return Ok(exit::INTERRUPTED);
            }
            sides[place].play(round, repeats, folder.path(), &shutdown)?;
        }
    }
    let comparison = Comparison::of(&sides, margin);
    let document = format!("{:#}\n", comparison.json());
    let written = folder.write("compare.json", &document);
    let written = written.and_then(|()| folder.write("report.html", &comparison.page()));
    written.map_err(failed)?;
    let report = folder.path().join("report.html");
    let _ = print(&format!(
        "{}\nreport: {}\n",
        comparison.text(),
        report.display()
    ));
    let mut runs = sides.iter().flat_map(|side| &side.runs);
    Ok(if runs.any(|run| !run.conservation.violations.is_empty()) {
        exit::FAILED
    } else if shutdown.is_requested() {
        exit::INTERRUPTED
    } else if sides.iter().any(|side| side.valid().next().is_none()) {
        // Nothing was compared.
        exit::INVALID
    } else {
        exit::DONE
    })
}

fn sides(args: CompareArgs) -> anyhow::Result<Vec<Side>> {
    let load = MeshLoad::constant(args.rate, args.duration)?;
    let base = MeshPlan::resolve(load, args.settings)?;
    let first = args.variants[0];
    let own = args.variants.iter().map(|it| (it.to_string(), *it, None));
    let others = args
        .external
        .into_iter()
        .map(|it| (it.name, first, Some(it.program)));
    let sides = own.chain(others).map(|(name, variant, program)| {
        let mut plan = MeshPlan {
            program,
            quiet: true,
            ..base.clone()
        };
        plan.document.variant = variant;
        Side {
            name,
            plan,
            runs: Vec::new(),
        }
    });
    Ok(sides.collect())
}

impl Side {
    fn play(
        &mut self,
        round: u32,
        repeats: u32,
        folder: &Path,
        shutdown: &Shutdown,
    ) -> Result<(), CommandError> {
        let mut plan = MeshPlan {
            out: Some(folder.join(self.run_name(round + 1))),
            ..self.plan.clone()
        };
        // The same messages for all sides, others in each round.
        plan.document.seed = plan.document.seed.wrapping_add(u64::from(round));
        let (summary, _) = super::perform(&plan, shutdown)?;
        let figures = &summary.figures;
        let problem = match (&summary.verdict.gave_first, summary.verdict.schedule) {
            _ if summary.is_disturbed() => "; other programs had CPUs that it lacked",
            (_, ScheduleVerdict::Invalid) => "; the generator fell behind",
            (Some(_), _) => "; not sustained",
            (None, _) => "",
        };
        note(&format!(
            "{} {}/{repeats}: {} EPS at the host, {} in sum, {} bytes a message{problem}",
            self.name,
            round + 1,
            number(figures.eps_host),
            number(figures.eps_sum),
            or_dash(figures.bytes_per_message, number),
        ));
        self.runs.push(summary);
        Ok(())
    }

    fn run_name(&self, run: u32) -> String {
        format!("{}-{run}", self.name.replace('+', "-"))
    }

    /// The runs that count: what was not the planned load is no repeat of it.
    fn valid(&self) -> impl Iterator<Item = &MeshSummary> + Clone {
        self.runs.iter().filter(|run| run.is_valid())
    }

    fn values(&self, metric: &Metric) -> Vec<f64> {
        self.valid().filter_map(metric.of).collect()
    }

    /// How many runs do not count.
    fn left_out(&self) -> usize {
        self.runs.len() - self.valid().count()
    }

    /// How many runs do not count, and in how many something gave: the rates of those are what the mesh could do,
    /// the others' what was asked of it.
    fn remarks(&self) -> Vec<String> {
        let (name, runs, valid) = (&self.name, self.runs.len(), self.valid().count());
        let mut remarks = Vec::new();
        if valid < runs {
            remarks.push(format!(
                "{name}: {} of {runs} runs are invalid and left out: the load was not the planned one, or other \
                 programs had the CPUs",
                self.left_out()
            ));
        }
        let gave = self
            .valid()
            .filter_map(|run| run.verdict.gave_first.as_ref());
        if let Some(first) = gave.clone().next() {
            let count = gave.count();
            remarks.push(format!(
                "{name}: not sustained in {count} of {valid} runs; {}",
                table::gave_first(first)
            ));
        }
        remarks
    }
}

impl<'a> Comparison<'a> {
    fn of(sides: &'a [Side], margin: f64) -> Self {
        let differences = sides.iter().skip(1).map(|other| {
            let values = METRICS.iter().map(|metric| Values {
                base: sides[0].values(metric),
                other: other.values(metric),
                is_gain: metric.is_gain,
            });
            compare_values(&values.collect::<Vec<_>>(), margin)
        });
        Self {
            sides,
            differences: differences.collect(),
        }
    }

    /// Each side but the first with its differences.
    fn others(&self) -> impl Iterator<Item = (&Side, &[ValueDifference])> {
        let sides = self.sides.iter().skip(1);
        sides.zip(self.differences.iter().map(Vec::as_slice))
    }

    /// A heading and a table for each of the other sides; the means alone when there is none.
    fn tables(&self) -> Vec<(String, Table)> {
        let base = &self.sides[0];
        if self.differences.is_empty() {
            return vec![(base.name.clone(), means(base))];
        }
        let tables = self.others().map(|(side, differences)| {
            let runs = [side, base].map(|side| side.valid().count());
            let heading = format!(
                "{} against {} ({} against {} runs)",
                side.name, base.name, runs[0], runs[1]
            );
            (heading, changes(differences))
        });
        tables.collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.sides.iter().flat_map(Side::remarks).collect()
    }

    fn text(&self) -> String {
        let tables = self.tables().into_iter();
        let tables = tables.map(|(heading, table)| format!("\n{heading}\n{}", table.text()));
        let remarks = self.remarks().into_iter().map(|remark| remark + "\n");
        tables.chain(["\n".to_owned()]).chain(remarks).collect()
    }

    fn page(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let mut page = Page::new(&format!("Mesh: {}", names.join(", ")));
        self.remarks()
            .iter()
            .for_each(|remark| page.paragraph(remark));
        for (heading, table) in self.tables() {
            page.section(&heading, &table.html());
        }
        let runs = self
            .sides
            .iter()
            .flat_map(|side| (1..=side.runs.len()).map(move |run| side.run_name(run as u32)));
        let links: Vec<(String, String)> = runs
            .map(|run| (format!("{run}/report.html"), run))
            .collect();
        page.links(&links);
        page.html()
    }

    fn json(&self) -> Value {
        let sides = self.sides.iter().map(|side| {
            let figure = |metric: &Metric| (metric.name.to_owned(), json!(side.values(metric)));
            json!({
                "name": side.name,
                "runs": side.valid().count(),
                "left_out": side.left_out(),
                "figures": METRICS.iter().map(figure).collect::<Map<_, _>>(),
            })
        });
        let differences = self.others().flat_map(|(side, differences)| {
            let of_side = |(metric, it): (&Metric, &ValueDifference)| {
                let interval = it.change.and_then(|change| change.interval);
                json!({
                    "side": side.name,
                    "metric": metric.name,
                    "before": it.base,
                    "after": it.other,
                    "change": it.change.map(|change| change.by),
                    "low": interval.map(|(low, _)| low),
                    "high": interval.map(|(_, high)| high),
                    "meaning": verdict_name(it.meaning),
                })
            };
            METRICS
                .iter()
                .zip(differences)
                .map(of_side)
                .collect::<Vec<_>>()
        });
        json!({
            "format": "tidegate.mesh-compare/1",
            "sides": sides.collect::<Vec<_>>(),
            "differences": differences.collect::<Vec<_>>(),
            "remarks": self.remarks(),
        })
    }
}

fn means(side: &Side) -> Table {
    let mean = |metric: &Metric| {
        let values = side.values(metric);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Table::of(&METRICS)
        .text("figure", |it| it.name)
        .number("mean", number, |it| mean(it))
        .table()
}

fn changes(differences: &[ValueDifference]) -> Table {
    Table::of(METRICS.iter().zip(differences))
        .text("figure", |(metric, _)| metric.name)
        .number("before", number, |(_, it)| it.base)
        .number("after", number, |(_, it)| it.other)
        .figure("change", |(_, it)| match it.change {
            Some(change) => signed(change.by),
            None => "-".into(),
        })
        .figure("interval", |(_, it)| interval(it.change))
        .text("", |(_, it)| verdict_words(it.meaning))
        .table()
}

/// Beyond a factor of a hundred a change is no figure any more.
fn signed(change: f64) -> String {
    if change > 99.0 {
        return "over +9,900 %".to_owned();
    }
    let sign = if change < 0.0 { "-" } else { "+" };
    format!("{sign}{}", percent_tenths(change.abs()))
}

fn interval(change: Option<Change>) -> String {
    match change.and_then(|change| change.interval) {
        None => "-".into(),
        Some((low, high)) if 1.0 + high <= MAX_SPAN * (1.0 + low) => {
            format!("{} to {}", signed(low), signed(high))
        }
        Some((low, _)) if low > 0.0 => format!("{} or more", signed(low)),
        Some(_) => "runs differ too much".into(),
    }
}

/// From the lower to the upper end of an interval, as a factor: a wider one has no meaning.
const MAX_SPAN: f64 = 100.0;

/// More is better.
const fn gain(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Metric {
    let is_gain = true;
    Metric { name, is_gain, of }
}

/// Less is better.
const fn cost(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Metric {
    let is_gain = false;
    Metric { name, is_gain, of }
}

const METRICS: [Metric; 11] = [
    gain("EPS host", |it| Some(it.figures.eps_host)),
    gain("EPS of the slowest node", |it| Some(it.figures.eps_least)),
    gain("EPS sum", |it| Some(it.figures.eps_sum)),
    cost("bytes per message", |it| it.figures.bytes_per_message),
    cost("parcels per message", |it| it.figures.parcels_per_message),
    cost("bytes per parcel", |it| it.figures.bytes_per_parcel),
    cost("overhead per parcel, bytes", |it| {
        it.figures.overhead_per_parcel
    }),
    cost("duplicates, share", |it| it.figures.duplicate_share),
    cost("CPU ms per 1,000 parcels", |it| {
        it.figures.cpu_ms_per_1000_parcels
    }),
    cost("latency p50, ms", |it| it.latency_ms.p50),
    cost("latency p99, ms", |it| it.latency_ms.p99),
];

#[cfg(test)]
mod tests {
    use measure::ComparisonVerdict;

    use super::*;
    use crate::account::{Account, PlayedMesh};
    use crate::settings::MeshSettings;

    #[test]
    fn an_interval_without_a_meaning_is_not_printed() {
        let of = |low, high| {
            interval(Some(Change {
                by: 0.5,
                interval: Some((low, high)),
            }))
        };
        assert_eq!(of(-0.2, 0.1), "-20.0 % to +10.0 %");
        assert_eq!(of(2.0, 120.0), "+200.0 % to over +9,900 %");
        assert_eq!(of(-0.999, 80.0), "runs differ too much");
        assert_eq!(
            of(2.5, 900.0),
            "+250.0 % or more",
            "the nearer end is shown"
        );
        assert_eq!(interval(None), "-");
    }

    /// Three runs at half the load, because the generator fell behind, were "worse", with exit code 0.
    #[test]
    fn runs_that_were_not_the_planned_load_are_no_repeats_of_it() {
        let load = MeshLoad::constant("10/s".parse().unwrap(), "1s".parse().unwrap()).unwrap();
        let plan = MeshPlan::resolve(load, MeshSettings::default()).unwrap();
        let run = |schedule, eps_host| {
            let played = PlayedMesh {
                account: Account::new(plan.document.nodes, &plan.load),
                origin_unix_ns: 0,
                interrupted: true,
                undrained: None,
            };
            let mut summary = MeshSummary::of(&plan, &played);
            summary.verdict.schedule = schedule;
            summary.figures.eps_host = eps_host;
            summary
        };
        let side = |name: &str, schedule, eps: f64| Side {
            name: name.into(),
            plan: plan.clone(),
            runs: [0.0, 1.0, 2.0]
                .map(|more| run(schedule, eps + more))
                .to_vec(),
        };
        let sides = [
            side("a", ScheduleVerdict::Valid, 1_000.0),
            side("b", ScheduleVerdict::Invalid, 500.0),
        ];
        let comparison = Comparison::of(&sides, 0.05);
        assert_eq!(sides[1].valid().count(), 0);
        let meaning = comparison.differences[0][0].meaning;
        assert!(
            matches!(meaning, ComparisonVerdict::CannotTell(_)),
            "{meaning:?}"
        );
        assert_eq!(comparison.remarks().len(), 1);
        assert!(comparison.remarks()[0].starts_with("b: 3 of 3 runs are invalid and left out"));
    }
}
