//! `txmesh compare`: the same load on several protocols, in turns, and what differs.

use std::collections::HashSet;
use std::path::Path;

use harness::{RunFolder, Shutdown, default_folder, exit, note, print};
use measure::{
    CompareTerms, Difference, Doubts, Figure, Metric, OtherMetric, RunFigures, ScheduleVerdict,
    compare,
};
use ops::command::{CommandError, failed, usage};
use report::text::{number, or_dash};
use report::{ComparedSide, Page, Table};
use serde_json::{Map, Value, json};

use super::by_step::{self, StepRuns};
use super::plan::{MeshLoad, MeshPlan, read_file};
use super::summary::MeshSummary;
use super::table;
use crate::cli::CompareArgs;

/// One of the things that are compared, with its runs.
struct Side {
    name: String,
    plan: MeshPlan,
    runs: Vec<MeshSummary>,
}

/// What was found.
struct Comparison<'a> {
    sides: &'a [Side],
    /// For each side but the first, a difference for each metric.
    differences: Vec<Vec<Difference>>,
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
    'rounds: for round in 0..repeats {
        let mut turn: Vec<usize> = (0..sides.len()).collect();
        // Forth and back, so that what drifts (heat, other guests) meets all alike.
        if round % 2 == 1 {
            turn.reverse();
        }
        for place in turn {
            // What was compared by then is written.
            if shutdown.is_requested() {
                break 'rounds;
            }
            match sides[place].play(round, repeats, folder.path(), &shutdown) {
                // It came while a run began, or ended it.
                Err(_) if shutdown.is_requested() => break 'rounds,
                played => played?,
            }
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
    let (load, settings) = match &args.file {
        Some(file) => read_file(file, args.settings)?,
        None => (MeshLoad::constant(args.rate, args.duration), args.settings),
    };
    let base = MeshPlan::resolve(load, settings)?;
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
    let sides: Vec<Side> = sides.collect();
    let mut names = HashSet::new();
    // Their runs would have the same folders.
    if let Some(twice) = sides.iter().find(|side| !names.insert(&*side.name)) {
        anyhow::bail!(
            "{} is named twice; a side is compared with another one",
            twice.name
        );
    }
    Ok(sides)
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

    fn figures(&self) -> Vec<RunFigures> {
        let none = RunFigures::default;
        let of_run = |run| {
            FIGURES.iter().fold(none(), |figures, (metric, of)| {
                figures.with(Metric::Other(*metric), of(run).map(Figure::exact))
            })
        };
        self.valid().map(of_run).collect()
    }

    /// The values of all runs that have one.
    fn values(&self, (_, of): &FigureOf) -> Vec<f64> {
        self.valid().filter_map(of).collect()
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
        // Where no run counts, the mesh's figures are unknown all the same.
        let counts = sides.iter().any(|side| side.valid().next().is_some());
        let has_values =
            |it: &&FigureOf| !counts || sides.iter().any(|side| !side.values(it).is_empty());
        let metrics = FIGURES.iter().filter(has_values);
        let terms = CompareTerms {
            margin,
            limit: None,
            metrics: metrics.map(|it| Metric::Other(it.0)).collect(),
        };
        // They were played in turns, and differ in what is compared.
        let doubts = Doubts::default();
        let base = sides[0].figures();
        let others = sides.iter().skip(1);
        let differences = others.map(|other| compare(&base, &other.figures(), &terms, &doubts));
        Self {
            sides,
            differences: differences.collect(),
        }
    }

    /// The other sides beside the first one.
    fn others(&self) -> impl Iterator<Item = ComparedSide<'_>> {
        let base = &self.sides[0];
        let others = self.sides.iter().skip(1).zip(&self.differences);
        others.map(move |(side, differences)| ComparedSide {
            base: &base.name,
            name: &side.name,
            runs: [base, side].map(|side| side.valid().count()),
            differences,
            of_all: &[],
        })
    }

    /// A heading and a table for each of the other sides; the means alone when there is none.
    fn tables(&self) -> Vec<(String, Table)> {
        let base = &self.sides[0];
        if self.differences.is_empty() {
            return vec![(base.name.clone(), means(base))];
        }
        self.others().map(|it| (it.heading(), it.table())).collect()
    }

    fn remarks(&self) -> Vec<String> {
        self.sides.iter().flat_map(Side::remarks).collect()
    }

    fn by_step(&self) -> Vec<StepRuns<'_>> {
        let sides = self.sides.iter().map(|side| StepRuns {
            name: &side.name,
            runs: side.valid().collect(),
        });
        sides.collect()
    }

    fn text(&self) -> String {
        let by_step = by_step::tables(&self.by_step());
        let tables = by_step.into_iter().chain(self.tables());
        let tables = tables.map(|(heading, table)| format!("\n{heading}\n{}", table.text()));
        let remarks = self.remarks().into_iter().map(|remark| remark + "\n");
        tables.chain(["\n".to_owned()]).chain(remarks).collect()
    }

    fn page(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let mut page = Page::new(&format!("Mesh: {}", names.join(", ")));
        let others: Vec<ComparedSide<'_>> = self.others().collect();
        page.headline(&ComparedSide::answer(&others));
        for remark in self.remarks() {
            page.paragraph(&format!("{remark}."));
        }
        let by_step = self.by_step();
        let tables = by_step::tables(&by_step);
        if !tables.is_empty() {
            page.section("By step", &by_step::charts(&by_step));
        }
        for (heading, table) in tables {
            page.section(&heading, &table.html());
        }
        let forests = others.iter().map(ComparedSide::forest);
        let forests = forests.chain(std::iter::repeat(String::new()));
        for ((heading, table), forest) in self.tables().into_iter().zip(forests) {
            page.section(&heading, &(forest + &table.html()));
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
            let figures = FIGURES.iter();
            let figures = figures.map(|it| (it.0.name.to_owned(), json!(side.values(it))));
            json!({
                "name": side.name,
                "runs": side.valid().count(),
                "left_out": side.left_out(),
                "figures": figures.collect::<Map<_, _>>(),
            })
        });
        json!({
            "format": "tidegate.mesh-compare/2",
            "sides": sides.collect::<Vec<_>>(),
            "differences": self.others().flat_map(|it| it.json().collect::<Vec<_>>()).collect::<Vec<_>>(),
            "remarks": self.remarks(),
        })
    }
}

fn means(side: &Side) -> Table {
    let mean = |figure: &FigureOf| {
        let values = side.values(figure);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    Table::of(&FIGURES)
        .text("metric", |(metric, _)| metric.name)
        .number("mean", number, |it| mean(it))
        .table()
}

/// A figure that is compared.
type FigureOf = (OtherMetric, fn(&MeshSummary) -> Option<f64>);

/// More is better.
const fn gain(name: &'static str, unit: &'static str) -> OtherMetric {
    let is_gain = true;
    OtherMetric {
        name,
        unit,
        is_gain,
    }
}

/// Less is better.
const fn cost(name: &'static str, unit: &'static str) -> OtherMetric {
    let is_gain = false;
    OtherMetric {
        name,
        unit,
        is_gain,
    }
}

const FIGURES: [FigureOf; 13] = [
    (gain("sustained up to", "/s"), |it| {
        let sustained = it.last_sustained().map_or(0.0, |step| step.rate);
        (it.steps.len() > 1).then_some(sustained)
    }),
    (gain("EPS host", "/s"), |it| Some(it.figures.eps_host)),
    (gain("EPS of the slowest node", "/s"), |it| {
        Some(it.figures.eps_least)
    }),
    (gain("EPS sum", "/s"), |it| Some(it.figures.eps_sum)),
    (cost("deviation of what came back", ""), |it| {
        it.figures.came_back_deviation
    }),
    (cost("bytes per message", "B"), |it| {
        it.figures.bytes_per_message
    }),
    (cost("parcels per message", ""), |it| {
        it.figures.parcels_per_message
    }),
    (cost("bytes per parcel", "B"), |it| {
        it.figures.bytes_per_parcel
    }),
    (cost("overhead per parcel", "B"), |it| {
        it.figures.overhead_per_parcel
    }),
    (cost("duplicate share", ""), |it| it.figures.duplicate_share),
    (cost("CPU per 1,000 parcels", "ms"), |it| {
        it.figures.cpu_ms_per_1000_parcels
    }),
    (cost("latency p50", "ms"), |it| it.latency_ms.p50),
    (cost("latency p99", "ms"), |it| it.latency_ms.p99),
];

#[cfg(test)]
mod tests {
    use measure::ComparisonVerdict;

    use super::*;
    use crate::account::{Account, PlayedMesh};
    use crate::settings::MeshSettings;

    /// Three runs at half the load, because the generator fell behind, were "worse", with exit code 0.
    #[test]
    fn runs_that_were_not_the_planned_load_are_no_repeats_of_it() {
        let load = MeshLoad::constant("10/s".parse().unwrap(), "1s".parse().unwrap());
        let plan = MeshPlan::resolve(load, MeshSettings::default()).unwrap();
        let run = |schedule, eps_host| {
            let played = PlayedMesh {
                account: Account::new(plan.document.nodes, plan.schedule.clone()),
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
