//! A campaign as text: a line for each run, and the median of repeated ones.

use std::fmt::Write as _;

use super::figures::Figures;
use super::record::{Record, Run, RunState};
use crate::report::grouped;

/// One run in a line, while the campaign goes on.
pub(super) fn line(figures: &Figures) -> String {
    let mut text = format!(
        "{}: offered {}/s, sent {}/s, accepted {}/s, committed {}/s; commit p50 {} ms, p95 {} ms",
        figures.verdict.name(),
        rate(figures.planned_tps),
        rate(figures.sent_tps),
        rate(figures.accepted_tps),
        rate(figures.committed_tps),
        millis(figures.commit_p50_ms),
        millis(figures.commit_p95_ms),
    );
    if let (Some((windowed, all)), Some(window)) = (figures.benched(), figures.window) {
        let _ = write!(
            text,
            "; tm-bench {all:.0}/s, of {window} blocks {windowed:.0}/s"
        );
    }
    text
}

/// The table of the whole campaign.
pub(super) fn table(record: &Record) -> String {
    let runs = &record.document.runs;
    let mut text = String::new();
    let width = runs
        .iter()
        .map(|run| run.label.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(8, WIDEST_LABEL);
    let window = runs
        .iter()
        .find_map(|run| run.figures.as_ref().and_then(|figures| figures.window));
    heading(&mut text, width, window);
    for run in runs {
        let label: String = run.label.chars().take(width).collect();
        let _ = write!(text, "{:>4}  {label:<width$}  ", run.number);
        match &run.figures {
            Some(figures) => row(&mut text, figures),
            None => {
                let _ = writeln!(text, "{}", words(run));
            }
        }
    }
    if runs.iter().any(|run| run.repeats > 1) {
        medians(&mut text, runs, width);
    }
    text
}

fn heading(text: &mut String, width: usize, window: Option<usize>) {
    let _ = write!(
        text,
        "{:>4}  {:<width$}  {:<9}{:>10}{:>10}{:>12}{:>13}{:>9}{:>10}{:>12}{:>12}{:>12}",
        "run",
        "",
        "verdict",
        "offered/s",
        "sent/s",
        "accepted/s",
        "committed/s",
        "of plan",
        "refused",
        "accept p99",
        "commit p50",
        "commit p95",
    );
    if let Some(window) = window {
        let _ = write!(
            text,
            "{:>12}{:>12}",
            "tm-bench/s",
            format!("{window} blocks/s")
        );
    }
    text.push('\n');
}

fn row(text: &mut String, figures: &Figures) {
    let refused = figures.rejected + figures.errors + figures.unanswered;
    let _ = write!(
        text,
        "{:<9}{:>10}{:>10}{:>12}{:>13}{:>9}{:>10}{:>12}{:>12}{:>12}",
        figures.verdict.name(),
        rate(figures.planned_tps),
        rate(figures.sent_tps),
        rate(figures.accepted_tps),
        rate(figures.committed_tps),
        percent(figures.share()),
        grouped(refused),
        millis(figures.accept_p99_ms),
        millis(figures.commit_p50_ms),
        millis(figures.commit_p95_ms),
    );
    if let Some((windowed, all)) = figures.benched() {
        let _ = write!(text, "{all:>12.0}{windowed:>12.0}");
    }
    text.push('\n');
}

/// What there is to say about a run without figures.
pub(super) fn words(run: &Run) -> String {
    match (run.state, &run.problem) {
        (RunState::Failed, Some(problem)) => {
            let first = problem.lines().next().unwrap_or_default();
            format!("failed: {first}")
        }
        (RunState::Failed, None) => "failed".into(),
        (RunState::Interrupted, _) => "interrupted".into(),
        (RunState::Waiting, _) => "not run".into(),
        (RunState::Running | RunState::Done, _) => "running".into(),
    }
}

/// Repeated runs as median (lowest to highest).
fn medians(text: &mut String, runs: &[Run], width: usize) {
    let _ = writeln!(
        text,
        "\n{:>4}  {:<width$}  {:>30}{:>30}",
        "runs", "median (lowest to highest)", "committed/s", "commit p95 ms"
    );
    for cell in cells(runs) {
        if cell.figures.len() < 2 {
            continue;
        }
        let label: String = cell.name.chars().take(width).collect();
        let _ = writeln!(
            text,
            "{:>4}  {label:<width$}  {:>30}{:>30}",
            cell.figures.len(),
            spread(cell.figures.iter().filter_map(|it| it.committed_tps)),
            spread(cell.figures.iter().filter_map(|it| it.commit_p95_ms)),
        );
    }
}

/// The runs that repeat one another.
pub(super) struct CellRuns<'a> {
    pub(super) name: &'a str,
    pub(super) figures: Vec<&'a Figures>,
}

/// The runs by cell, in the order in which each was played first.
pub(super) fn cells(runs: &[Run]) -> Vec<CellRuns<'_>> {
    let mut cells: Vec<CellRuns<'_>> = Vec::new();
    for run in runs {
        let Some(figures) = &run.figures else {
            continue;
        };
        match cells.iter_mut().find(|cell| cell.name == run.cell) {
            Some(cell) => cell.figures.push(figures),
            None => cells.push(CellRuns {
                name: &run.cell,
                figures: vec![figures],
            }),
        }
    }
    cells
}

pub(super) fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (values.first(), values.last()) else {
        return "-".into();
    };
    let middle = f64::midpoint(values[values.len() / 2], values[(values.len() - 1) / 2]);
    format!("{middle:.1} ({low:.1} to {high:.1})")
}

pub(super) fn rate(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| match value {
        value if value < 1_000.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    })
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
}

pub(super) fn millis(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| match value {
        value if value < 100.0 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    })
}

/// A longer label is cut.
const WIDEST_LABEL: usize = 44;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_a_median_and_its_range() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), "2.0 (1.0 to 3.0)");
        assert_eq!(spread([4.0, 1.0].into_iter()), "2.5 (1.0 to 4.0)");
        assert_eq!(spread(std::iter::empty()), "-");
    }
}
