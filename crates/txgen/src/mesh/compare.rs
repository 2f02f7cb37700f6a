//! `txgen mesh compare`: the same load on several protocols, in turns, and what differs.

use std::path::Path;

use measure::{Change, Ignorance, Meaning, ValueDifference, Values, compare_values};
use ops::command::{CommandError, failed, usage};
use report::text::{number, percent_tenths};
use report::{Page, Table};
use serde_json::json;

use super::judge::Kept;
use super::load::MeshLoad;
use super::plan::MeshPlan;
use super::summary::MeshSummary;
use crate::cli::MeshCompareArgs;
use crate::compare::runs;
use crate::exit;
use crate::output::{note, print};
use crate::run::{RunFolder, default_folder};
use crate::shutdown::Shutdown;

/// One of the things that are compared, with its runs.
struct Side {
    name: String,
    plan: MeshPlan,
    runs: Vec<MeshSummary>,
}

/// Plays all runs and prints what differs; gives the exit code.
///
/// # Errors
/// With exit code 2 when the command line is at fault, 1 when a run fails.
pub(super) fn execute(args: MeshCompareArgs) -> Result<u8, CommandError> {
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
    let text = comparison.text();
    let document = format!("{:#}\n", comparison.json());
    let written = folder.write("compare.json", &document);
    let written = written.and_then(|()| folder.write("report.html", &comparison.page()));
    written.map_err(failed)?;
    let report = folder.path().join("report.html");
    let _ = print(&format!("{text}\nreport: {}\n", report.display()));
    let all = sides.iter().flat_map(|side| &side.runs);
    let adds_up = all
        .clone()
        .all(|run| run.conservation.violations.is_empty());
    let has_empty_side = sides.iter().any(|side| side.valid().next().is_none());
    Ok(match (adds_up, shutdown.is_requested()) {
        (false, _) => exit::FAILED,
        (true, true) => exit::INTERRUPTED,
        // Nothing was compared.
        (true, false) if has_empty_side => exit::INVALID,
        (true, false) => exit::DONE,
    })
}

fn sides(args: MeshCompareArgs) -> anyhow::Result<Vec<Side>> {
    let load = MeshLoad::constant(args.rate, args.duration)?;
    let base = MeshPlan::resolve(load, args.settings)?;
    let own = args.variants.iter().map(|variant| Side {
        name: variant.to_string(),
        plan: MeshPlan {
            variant: *variant,
            ..base.clone()
        },
        runs: Vec::new(),
    });
    let others = args.external.iter().map(|external| Side {
        name: external.name.clone(),
        plan: MeshPlan {
            variant: args.variants[0],
            program: Some(external.program.clone()),
            ..base.clone()
        },
        runs: Vec::new(),
    });
    Ok(own.chain(others).collect())
}

impl Side {
    fn play(
        &mut self,
        round: u32,
        repeats: u32,
        folder: &Path,
        shutdown: &Shutdown,
    ) -> Result<(), CommandError> {
        let plan = MeshPlan {
            out: Some(folder.join(format!("{}-{}", self.name.replace('+', "-"), round + 1))),
            quiet: true,
            // The same messages for all sides, others in each round.
            seed: self.plan.seed.wrapping_add(u64::from(round)),
            ..self.plan.clone()
        };
        let (summary, _) = super::perform(&plan, shutdown)?;
        let figures = &summary.figures;
        let problem = match (&summary.verdict.gave_first, summary.verdict.schedule) {
            _ if summary.is_disturbed() => "; other programs had CPUs that it lacked",
            (_, Kept::Invalid) => "; the generator fell behind",
            (Some(_), _) => "; not sustained",
            (None, _) => "",
        };
        note(&format!(
            "{} {}/{repeats}: {} EPS at the host, {} in sum, {} bytes a message{problem}",
            self.name,
            round + 1,
            number(figures.eps_host),
            number(figures.eps_sum),
            report::text::or_dash(figures.bytes_per_message, number),
        ));
        self.runs.push(summary);
        Ok(())
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
}

/// A figure that is compared.
struct Metric {
    name: &'static str,
    is_gain: bool,
    of: fn(&MeshSummary) -> Option<f64>,
}

impl Metric {
    /// More is better.
    const fn gain(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Self {
        let is_gain = true;
        Self { name, is_gain, of }
    }

    /// Less is better.
    const fn cost(name: &'static str, of: fn(&MeshSummary) -> Option<f64>) -> Self {
        let is_gain = false;
        Self { name, is_gain, of }
    }
}

const METRICS: [Metric; 11] = [
    Metric::gain("EPS host", |it| Some(it.figures.eps_host)),
    Metric::gain("EPS of the slowest node", |it| Some(it.figures.eps_least)),
    Metric::gain("EPS sum", |it| Some(it.figures.eps_sum)),
    Metric::cost("bytes per message", |it| it.figures.bytes_per_message),
    Metric::cost("parcels per message", |it| it.figures.parcels_per_message),
    Metric::cost("bytes per parcel", |it| it.figures.bytes_per_parcel),
    Metric::cost("overhead per parcel, bytes", |it| {
        it.figures.overhead_per_parcel
    }),
    Metric::cost("duplicates, share", |it| it.figures.duplicate_share),
    Metric::cost("CPU ms per 1,000 parcels", |it| {
        it.figures.cpu_ms_per_1000_parcels
    }),
    Metric::cost("latency p50, ms", |it| it.latency_ms.p50),
    Metric::cost("latency p99, ms", |it| it.latency_ms.p99),
];

/// What was found.
struct Comparison<'a> {
    sides: &'a [Side],
    /// For each of the other sides.
    others: Vec<Vec<ValueDifference>>,
}

impl<'a> Comparison<'a> {
    fn of(sides: &'a [Side], margin: f64) -> Self {
        let others = sides.iter().skip(1).map(|other| {
            let values = METRICS.iter().map(|metric| Values {
                base: sides[0].values(metric),
                other: other.values(metric),
                is_gain: metric.is_gain,
            });
            compare_values(&values.collect::<Vec<_>>(), margin)
        });
        Self {
            sides,
            others: others.collect(),
        }
    }

    /// A heading and a table for each of the other sides; the means alone when there is none.
    fn tables(&self) -> Vec<(String, Table)> {
        let base = &self.sides[0];
        if self.others.is_empty() {
            return vec![(base.name.clone(), means(base))];
        }
        let others = self.sides.iter().skip(1).zip(&self.others);
        others
            .map(|(side, differences)| {
                let heading = format!(
                    "{} against {} ({} against {} runs)",
                    side.name,
                    base.name,
                    side.valid().count(),
                    base.valid().count()
                );
                (heading, table(differences))
            })
            .collect()
    }

    /// Runs in which something gave: their rates are what the mesh could do, the others' what was
    /// asked of it. And how many do not count.
    fn remarks(&self) -> Vec<String> {
        let left_out = |side: &Side| {
            let count = side.left_out();
            (count > 0).then(|| {
                format!(
                    "{}: {count} of {} runs are invalid and left out: the load was not the planned one, or other \
                     programs had the CPUs",
                    side.name,
                    side.runs.len()
                )
            })
        };
        let remark = |side: &Side| {
            let runs = side.valid();
            let gave = runs.filter_map(|run| run.verdict.gave_first.as_ref());
            let first = gave.clone().next()?;
            Some(format!(
                "{}: not sustained in {} of {} runs; {}",
                side.name,
                gave.count(),
                side.valid().count(),
                first.sentence
            ))
        };
        let sides = || self.sides.iter();
        let left_out = sides().filter_map(left_out);
        left_out.chain(sides().filter_map(remark)).collect()
    }

    fn text(&self) -> String {
        let tables = self.tables().into_iter();
        let tables: String = tables
            .map(|(heading, table)| format!("\n{heading}\n{}", table.text()))
            .collect();
        let remarks: String = self
            .remarks()
            .iter()
            .map(|remark| format!("{remark}\n"))
            .collect();
        format!("{tables}\n{remarks}")
    }

    fn page(&self) -> String {
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let mut page = Page::new(&format!("Mesh: {}", names.join(", ")));
        for remark in self.remarks() {
            page.paragraph(&remark);
        }
        for (heading, table) in self.tables() {
            page.section(&heading, &table.html());
        }
        let links: Vec<(String, String)> = self
            .sides
            .iter()
            .flat_map(|side| (1..=side.runs.len()).map(move |run| format!("{}-{run}", side.name)))
            .map(|name| (format!("{}/report.html", name.replace('+', "-")), name))
            .collect();
        page.links(&links);
        page.html()
    }

    fn json(&self) -> serde_json::Value {
        let sides: Vec<_> = self
            .sides
            .iter()
            .map(|side| {
                let figures: serde_json::Map<String, serde_json::Value> = METRICS
                    .iter()
                    .map(|metric| (metric.name.to_owned(), json!(side.values(metric))))
                    .collect();
                json!({
                    "name": side.name,
                    "runs": side.valid().count(),
                    "left_out": side.left_out(),
                    "figures": figures,
                })
            })
            .collect();
        let differences: Vec<_> = self
            .sides
            .iter()
            .skip(1)
            .zip(&self.others)
            .flat_map(|(side, differences)| {
                METRICS.iter().zip(differences).map(|(metric, it)| {
                    let interval = it.change.and_then(|change| change.interval);
                    json!({
                        "side": side.name,
                        "metric": metric.name,
                        "before": it.base,
                        "after": it.other,
                        "change": it.change.map(|change| change.by),
                        "low": interval.map(|(low, _)| low),
                        "high": interval.map(|(_, high)| high),
                        "meaning": words(it.meaning),
                    })
                })
            })
            .collect();
        json!({
            "format": "tidegate.mesh-compare/1",
            "sides": sides,
            "differences": differences,
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

fn table(differences: &[ValueDifference]) -> Table {
    Table::of(METRICS.iter().zip(differences))
        .text("figure", |(metric, _)| metric.name)
        .number("before", number, |(_, it)| it.base)
        .number("after", number, |(_, it)| it.other)
        .figure("change", |(_, it)| match it.change {
            Some(change) => signed(change.by),
            None => "-".into(),
        })
        .figure("interval", |(_, it)| interval(it.change))
        .text("", |(_, it)| words(it.meaning))
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
        Some((low, high)) if 1.0 + high > MAX_SPAN * (1.0 + low) => match low > 0.0 {
            true => format!("{} or more", signed(low)),
            false => "runs differ too much".into(),
        },
        Some((low, high)) => format!("{} to {}", signed(low), signed(high)),
        None => "-".into(),
    }
}

/// From the lower to the upper end of an interval, as a factor: a wider one says nothing.
const MAX_SPAN: f64 = 100.0;

fn words(meaning: Meaning) -> String {
    match meaning {
        Meaning::Better => "better".into(),
        Meaning::Worse => "worse".into(),
        Meaning::Same => "same".into(),
        Meaning::CannotTell(Ignorance::Runs { needed }) => {
            format!("cannot tell ({})", runs(needed))
        }
        Meaning::CannotTell(_) => "cannot tell".into(),
    }
}

#[cfg(test)]
mod tests {
    use measure::Quantiles;

    use super::*;
    use crate::mesh::account::ReachSummary;
    use crate::mesh::counters::Counters;
    use crate::mesh::figures::Figures;
    use crate::mesh::judge::Judgement;
    use crate::mesh::laws::Laws;
    use crate::mesh::summary::Offered;

    #[test]
    fn an_interval_that_says_nothing_is_not_printed_as_if_it_did() {
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

    /// A run whose generator kept its schedule, or did not.
    fn run(schedule: Kept, eps_host: f64) -> MeshSummary {
        MeshSummary {
            format: "",
            variant: String::new(),
            plan: json!({}),
            seed: 1,
            origin_unix_ns: 0,
            duration_s: 1.0,
            interrupted: false,
            verdict: Judgement {
                schedule,
                gave_first: None,
                evidence: Vec::new(),
                undrained: None,
            },
            offered: Offered {
                planned: 1,
                offered: 1,
                missed: 0,
            },
            figures: Figures {
                eps_host,
                ..Figures::default()
            },
            latency_ms: Quantiles::default(),
            lateness_ms: Quantiles::default(),
            reach: ReachSummary {
                one_in: 1,
                followed: 0,
                seen_by_all: 0,
                seen_by_none: 0,
                share: None,
                last_ms: Quantiles::default(),
            },
            total: Counters::default(),
            nodes: Vec::new(),
            steps: Vec::new(),
            conservation: Laws::default(),
        }
    }

    /// Three runs at half the load, because the generator fell behind, were "worse", with exit code 0.
    #[test]
    fn runs_that_were_not_the_planned_load_are_no_repeats_of_it() {
        let load = MeshLoad::constant("10/s".parse().unwrap(), "1s".parse().unwrap()).unwrap();
        let plan = MeshPlan::resolve(load, crate::settings::mesh::MeshSettings::default()).unwrap();
        let side = |name: &str, runs: [(Kept, f64); 3]| Side {
            name: name.into(),
            plan: plan.clone(),
            runs: runs.map(|(kept, eps)| run(kept, eps)).to_vec(),
        };
        let valid = side(
            "a",
            [1_000.0, 1_001.0, 1_002.0].map(|eps| (Kept::Valid, eps)),
        );
        let behind = side("b", [500.0, 501.0, 502.0].map(|eps| (Kept::Invalid, eps)));
        let sides = [valid, behind];
        let comparison = Comparison::of(&sides, 0.05);
        assert_eq!(sides[1].valid().count(), 0);
        let meaning = comparison.others[0][0].meaning;
        assert!(matches!(meaning, Meaning::CannotTell(_)), "{meaning:?}");
        assert_eq!(comparison.remarks().len(), 1);
        assert!(comparison.remarks()[0].starts_with("b: 3 of 3 runs are invalid and left out"));
    }

    #[test]
    fn the_greatest_number_of_runs_that_is_computed_stands_for_any_larger_one() {
        let of = |needed| words(Meaning::CannotTell(Ignorance::Runs { needed }));
        assert_eq!(of(40), "cannot tell (40 runs)");
        assert_eq!(of(measure::MANY_RUNS), "cannot tell (over 10,000 runs)");
    }
}
