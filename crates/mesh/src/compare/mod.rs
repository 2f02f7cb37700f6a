//! `txmesh compare`: the same load on several protocols, in turns, and what differs.

mod comparison;

use std::path::Path;

use harness::Shutdown;
use harness::exit;
use harness::{RunFolder, default_folder};
use harness::{note, print};
use ops::command::{CommandError, failed, usage};
use report::text::number;

use super::judge::ScheduleKept;
use super::load::MeshLoad;
use super::plan::MeshPlan;
use super::summary::MeshSummary;
use crate::cli::CompareArgs;
use comparison::{Comparison, Metric};

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

fn sides(args: CompareArgs) -> anyhow::Result<Vec<Side>> {
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
            (_, ScheduleKept::Invalid) => "; the generator fell behind",
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

#[cfg(test)]
mod tests {
    use measure::{ComparisonVerdict, Quantiles};
    use serde_json::json;

    use super::*;
    use crate::account::ReachSummary;
    use crate::counters::Counters;
    use crate::figures::Figures;
    use crate::judge::Judgement;
    use crate::laws::Laws;
    use crate::summary::Offered;

    /// A run whose generator kept its schedule, or did not.
    fn run(schedule: ScheduleKept, eps_host: f64) -> MeshSummary {
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
        let plan = MeshPlan::resolve(load, crate::settings::MeshSettings::default()).unwrap();
        let side = |name: &str, runs: [(ScheduleKept, f64); 3]| Side {
            name: name.into(),
            plan: plan.clone(),
            runs: runs.map(|(kept, eps)| run(kept, eps)).to_vec(),
        };
        let valid = side(
            "a",
            [1_000.0, 1_001.0, 1_002.0].map(|eps| (ScheduleKept::Valid, eps)),
        );
        let behind = side(
            "b",
            [500.0, 501.0, 502.0].map(|eps| (ScheduleKept::Invalid, eps)),
        );
        let sides = [valid, behind];
        let comparison = Comparison::of(&sides, 0.05);
        assert_eq!(sides[1].valid().count(), 0);
        let meaning = comparison.others[0][0].meaning;
        assert!(
            matches!(meaning, ComparisonVerdict::CannotTell(_)),
            "{meaning:?}"
        );
        assert_eq!(comparison.remarks().len(), 1);
        assert!(comparison.remarks()[0].starts_with("b: 3 of 3 runs are invalid and left out"));
    }
}
