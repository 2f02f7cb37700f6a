//! What the sides of a comparison carried at each rate of a rising load: the study's graphs of its protocols.

use report::Table;
use report::chart::{Axis, Chart, Tone, Unit};
use report::text::{number, rate};

use crate::summary::{MeshSummary, StepSummary};

/// One side, with the runs that count.
pub(crate) struct StepRuns<'a> {
    pub(crate) name: &'a str,
    pub(crate) runs: Vec<&'a MeshSummary>,
}

/// A figure of a step.
type Value = fn(&StepSummary) -> f64;

const EPS_HOST: Value = |it| it.eps_host;
const EPS_LEAST: Value = StepSummary::eps_least;
const EPS_SUM: Value = |it| it.eps_sum;
const UPRATE_MBIT: Value = |it| it.uprate_bytes_per_s * 8.0 / 1e6;

impl StepRuns<'_> {
    /// The mean of all runs that have the step.
    fn mean(&self, step: usize, value: impl Fn(&StepSummary) -> f64) -> Option<f64> {
        let values = self.runs.iter().filter_map(|run| run.steps.get(step));
        let values: Vec<f64> = values.map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn points(&self, rates: &[f64], value: impl Fn(&StepSummary) -> f64) -> Vec<(f64, f64)> {
        let at = |(step, rate): (usize, &f64)| Some((*rate, self.mean(step, &value)?));
        rates.iter().enumerate().filter_map(at).collect()
    }

    fn nodes(&self) -> usize {
        let steps = self.runs.iter().flat_map(|run| run.steps.first());
        steps.map(|step| step.eps_nodes.len()).max().unwrap_or(0)
    }
}

/// The rates of the steps; none where there is only one, which the other tables have.
fn rates(sides: &[StepRuns<'_>]) -> Vec<f64> {
    let runs = sides.iter().flat_map(|side| &side.runs);
    let longest = runs.max_by_key(|run| run.steps.len());
    let rates = longest.map(|run| run.steps.iter().map(|step| step.rate));
    let rates: Vec<f64> = rates.into_iter().flatten().collect();
    if rates.len() < 2 { Vec::new() } else { rates }
}

/// EPS at the host, and of the slowest node: for each a heading and a table with a row a step and a column for each
/// side. None for a load of one step.
pub(crate) fn tables(sides: &[StepRuns<'_>]) -> Vec<(String, Table)> {
    let rates = rates(sides);
    let steps: Vec<(usize, f64)> = rates.into_iter().enumerate().collect();
    let of = |(heading, value): (&str, Value)| {
        let table = Table::of(&steps).number("offered", rate, |(_, rate)| *rate);
        let table = sides.iter().fold(table, |table, side| {
            table.number(side.name, number, move |(step, _)| side.mean(*step, value))
        });
        (heading.to_owned(), table.table())
    };
    let figures = [
        ("EPS at the host", EPS_HOST),
        ("EPS of the slowest node", EPS_LEAST),
    ];
    let figures = figures.into_iter().filter(|_| !steps.is_empty());
    figures.map(of).collect()
}

/// EPS and bytes written over the rate, with a line for each side, and for each side a line for each node; empty for a
/// load of one step.
pub(crate) fn charts(sides: &[StepRuns<'_>]) -> String {
    let rates = rates(sides);
    if rates.is_empty() {
        return String::new();
    }
    let over_rate = |title: &str, label, unit| {
        let offered = Axis::linear("offered", Unit::PerSecond);
        Chart::new(title, offered, Axis::linear(label, unit))
    };
    let with_sides = |chart: Chart, value: Value| {
        sides.iter().enumerate().fold(chart, |chart, (nth, side)| {
            chart.line(side.name, Tone::Nth(nth), side.points(&rates, value))
        })
    };
    let eps = |title: &str| {
        over_rate(title, "entries", Unit::PerSecond).line(
            "offered",
            Tone::Plan,
            rates.iter().map(|rate| (*rate, *rate)),
        )
    };
    let sum = over_rate("EPS of all nodes together", "entries", Unit::PerSecond);
    let uprate = over_rate("Written by each node", "Mbit/s", Unit::Number)
        .note("what a node writes to its sockets, in the mean: the uprate of the study of 2020");
    let charts = [
        (eps("EPS at the host").tall(), EPS_HOST),
        (eps("EPS of the slowest node"), EPS_LEAST),
        (sum, EPS_SUM),
        (uprate, UPRATE_MBIT),
    ];
    let charts = charts.map(|(chart, value)| with_sides(chart, value));
    let by_node = sides.iter().map(|side| {
        let chart = eps(&format!("EPS by node: {}", side.name));
        (0..side.nodes()).fold(chart, |chart, node| {
            let of_node = |step: &StepSummary| step.eps_nodes[node];
            let points = side.points(&rates, of_node);
            chart.line(&format!("node {node}"), Tone::Nth(node), points)
        })
    });
    charts
        .into_iter()
        .chain(by_node)
        .map(|chart| chart.html())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::account::{Account, PlayedMesh};
    use crate::plan::{MeshLoad, MeshPlan};
    use crate::settings::MeshSettings;

    /// A run of 10/s and 20/s that carried this at the first of both, and twice as much at the second.
    fn run(eps_host: f64) -> MeshSummary {
        let phase = json!({"profile": "ramp", "start": "10/s", "step": "10/s", "every": "1s", "to": "20/s"});
        of(crate::plan::tests::load(phase), eps_host)
    }

    fn of(load: MeshLoad, eps_host: f64) -> MeshSummary {
        let plan = MeshPlan::resolve(load, MeshSettings::default()).unwrap();
        let played = PlayedMesh {
            account: Account::new(plan.document.nodes, plan.schedule.clone()),
            origin_unix_ns: 0,
            interrupted: false,
            undrained: None,
        };
        let mut summary = MeshSummary::of(&plan, &played);
        for (step, factor) in summary.steps.iter_mut().zip([1.0, 2.0]) {
            step.eps_host = eps_host * factor;
            step.eps_nodes = vec![eps_host * factor, factor];
        }
        summary
    }

    #[test]
    fn each_step_has_the_mean_of_the_runs_that_count_for_each_side() {
        let runs = [run(8.0), run(9.0), run(10.0)];
        let sides = [
            StepRuns {
                name: "v9",
                runs: vec![&runs[0], &runs[1]],
            },
            StepRuns {
                name: "v11",
                runs: vec![&runs[2]],
            },
            StepRuns {
                name: "none",
                runs: Vec::new(),
            },
        ];
        assert_eq!(rates(&sides), [10.0, 20.0]);
        let points = sides
            .each_ref()
            .map(|side| side.points(&[10.0, 20.0], EPS_HOST));
        assert_eq!(points[0], [(10.0, 8.5), (20.0, 17.0)]);
        assert_eq!(points[1], [(10.0, 10.0), (20.0, 20.0)]);
        assert_eq!(points[2], []);
        let tables = tables(&sides);
        let text = tables[0].1.text();
        assert!(text.contains("8.50") && text.contains("17"), "{text}");
        let least = tables[1].1.text();
        assert!(least.contains("2    2     -"), "{least}");
        let charts = charts(&sides);
        assert!(charts.contains("EPS by node: v11"), "{charts}");
    }

    #[test]
    fn a_load_of_one_rate_is_in_the_other_tables() {
        let one = of(
            MeshLoad::constant("10/s".parse().unwrap(), "1s".parse().unwrap()),
            9.0,
        );
        let sides = [StepRuns {
            name: "v11",
            runs: vec![&one],
        }];
        assert!(tables(&sides).is_empty() && charts(&sides).is_empty());
    }
}
